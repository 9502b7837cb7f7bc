package recovery

import (
	"bytes"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/tidwall/gjson"
)

// Class says what part an event plays in a stream.
type Class uint8

// The classes. Only an event of ClassOther can belong to an output item.
const (
	ClassNone      Class = iota // no data, so no event: comments, blank lines
	ClassCheck                  // a loop report, response.doom_loop_check
	ClassLifecycle              // response.created, .queued, .in_progress
	ClassTerminal               // response.completed, .incomplete, .failed
	ClassError                  // error: terminal if the stream ends behind it
	ClassDone                   // data: [DONE]
	ClassOther
)

const checkType = "response.doom_loop_check"

// checkMark is looked for before any JSON is parsed for a report.
var checkMark = []byte("doom_loop_check")

// Event is a frame and what it says. It aliases the frame and the Parser.
type Event struct {
	Frame sseframe.Frame
	Class Class
	// Type is the data's `type` or, where it has none, the frame's event name.
	Type string
	// Data is the frame's data.
	Data string

	mentions bool // the bytes of checkMark are in the frame
	same     bool // but for number and text it is as the one before it
	at       eventMembers
}

// eventMembers is where in Event.Data the values are that decisions need.
type eventMembers [memberCount]span

// The members of an event that are looked at.
const (
	memberType = iota
	memberSequence
	memberOutputIndex
	memberContentIndex
	memberSummaryIndex
	memberItemID
	memberItem
	memberResponse
	memberPart
	memberDelta
	memberText
	memberChoices
	memberCount
)

// Parser makes events of frames, for one stream. Its zero value is ready for use.
type Parser struct {
	scratch []byte
	pattern pattern
	event   Event // the last one
}

// keepScratch is the largest memory that Reset keeps, so that one large event does
// not pin it.
const keepScratch = 64 << 10

// Reset has p parse another stream. What it learned of the one before is no use for
// that, but its memory is.
func (p *Parser) Reset() {
	scratch, pattern := p.scratch[:0], pattern{raw: p.pattern.raw[:0], typ: p.pattern.typ}
	if cap(scratch) > keepScratch {
		scratch = nil
	}
	*p = Parser{scratch: scratch, pattern: pattern}
}

// Parse says what f is. The event is valid as long as f is, and until the next
// call.
func (p *Parser) Parse(f sseframe.Frame) *Event {
	if !p.pattern.match(f, &p.event) {
		p.event = p.parse(f)
		p.pattern.learn(&p.event)
	}
	return &p.event
}

// parse is Parse for a frame that is not like the one before.
func (p *Parser) parse(f sseframe.Frame) Event {
	ev := Event{Frame: f, mentions: bytes.Contains(f.Raw, checkMark)}
	name := alias(f.Event())
	data := f.Data(&p.scratch)
	ev.Data = alias(data)
	if ev.mentions && name == checkType {
		ev.Class, ev.Type = ClassCheck, checkType
		return ev
	}
	if data == nil {
		return ev
	}
	ev.readMembers()
	ev.Type = unquote(ev.at[memberType].of(ev.Data))
	if ev.Type == "" {
		ev.Type = name
	}
	ev.Class = ev.class()
	return ev
}

func (ev *Event) class() Class {
	switch ev.Type {
	case checkType:
		// What does not parse is no report, but the client's to see.
		if ev.mentions && ValidJSON(ev.Data) {
			return ClassCheck
		}
	case "response.created", "response.queued", "response.in_progress":
		return ClassLifecycle
	case "response.completed", "response.incomplete", "response.failed":
		return ClassTerminal
	case "error":
		return ClassError
	case "":
		if strings.TrimSpace(ev.Data) == "[DONE]" {
			return ClassDone
		}
	}
	return ClassOther
}

// members returns where the event's values are.
func (ev *Event) members() *eventMembers { return &ev.at }

// readMembers finds the event's values, in one pass. Of a key that is there
// twice the last one counts, as it does for those who read the stream.
func (ev *Event) readMembers() {
	at := &ev.at
	members(ev.Data, 0, func(key string, value span) {
		if value.of(ev.Data) == "null" {
			return // as good as absent
		}
		switch key {
		case "type":
			at[memberType] = value
		case "sequence_number":
			at[memberSequence] = value
		case "output_index":
			at[memberOutputIndex] = value
		case "content_index":
			at[memberContentIndex] = value
		case "summary_index":
			at[memberSummaryIndex] = value
		case "item_id":
			at[memberItemID] = value
		case "item":
			at[memberItem] = value
		case "response":
			at[memberResponse] = value
		case "part":
			at[memberPart] = value
		case "delta":
			at[memberDelta] = value
		case "text":
			at[memberText] = value
		case "choices":
			at[memberChoices] = value
		}
	})
}

// maxNumber is the largest whole number that every reader of JSON keeps exact.
const maxNumber = 1 << 53

// number returns the whole number at p, or -1 if there is none.
func (ev *Event) number(p span) int {
	if !p.present() {
		return -1
	}
	n := 0
	for _, c := range []byte(p.of(ev.Data)) {
		if c < '0' || c > '9' {
			return -1
		}
		if n = n*10 + int(c-'0'); n > maxNumber {
			return -1
		}
	}
	return n
}

// isNumber reports whether there is a number at p, be it one that number does
// not return.
func (ev *Event) isNumber(p span) bool {
	return p.present() && (ev.Data[p.lo] == '-' || '0' <= ev.Data[p.lo] && ev.Data[p.lo] <= '9')
}

func (ev *Event) hasReasoningType() bool {
	return strings.HasPrefix(ev.Type, "response.reasoning")
}

// carriesOutput reports whether ev may show output of the model. Events of
// other vocabularies, such as a ping or a rate limit, and reports that do not
// parse only do if they name an item or an output index.
func (ev *Event) carriesOutput() bool {
	at := ev.members()
	return at[memberItem].present() || at[memberOutputIndex].present() || at[memberItemID].present() ||
		strings.HasPrefix(ev.Type, "response.") && ev.Type != checkType
}

// lifecycle returns the index in lifecycleTypes of an event of ClassLifecycle.
func (ev *Event) lifecycle() int { return slices.Index(lifecycleTypes[:], ev.Type) }

func (ev *Event) itemMember(name string) gjson.Result {
	return gjson.Get(ev.members()[memberItem].of(ev.Data), name)
}

// maxID bounds the ids that are kept, in bytes. Real ones have about 50.
const maxID = 512

// ownerID returns the id of the item that ev belongs to, as it is written in
// quotes, or "".
func (ev *Event) ownerID() string {
	id := ev.members()[memberItemID].of(ev.Data)
	if own := ev.itemMember("id"); own.Exists() {
		id = own.Raw
	}
	if !strings.HasPrefix(id, `"`) || len(id) > maxID {
		return ""
	}
	return id
}

// partIndex returns the index of the part that ev belongs to, and the name of
// the member that holds it.
func (ev *Event) partIndex() (key string, index int) {
	at := ev.members()
	switch {
	case at[memberSummaryIndex].present():
		return "summary_index", ev.number(at[memberSummaryIndex])
	case at[memberContentIndex].present():
		return "content_index", ev.number(at[memberContentIndex])
	}
	return "", -1
}

// partType returns the type of the part that ev opens, as a JSON string of the
// caller's own.
func (ev *Event) partType() string {
	if typ := ownedString(gjson.Get(ev.members()[memberPart].of(ev.Data), "type").Raw); typ != "" {
		return typ
	}
	if ev.members()[memberSummaryIndex].present() {
		return `"summary_text"`
	}
	return `"reasoning_text"`
}

// response returns what identifies ev's response, as far as ev tells it.
func (ev *Event) response() Response {
	object := ev.members()[memberResponse].of(ev.Data)
	pick := func(name string) string {
		raw := member(object, 0, name).of(object)
		if !ValidJSON(raw) || strings.IndexByte("{[ntf", raw[0]) >= 0 {
			return ""
		}
		return strings.Clone(raw)
	}
	return Response{ID: pick("id"), Model: pick("model"), CreatedAt: pick("created_at")}
}

// responseID returns where the id of ev's response object is.
func (ev *Event) responseID() span {
	object := ev.members()[memberResponse]
	if !object.present() {
		return object
	}
	return member(ev.Data, object.lo, "id")
}

func (ev *Event) responseMember(path string) gjson.Result {
	return gjson.Get(ev.members()[memberResponse].of(ev.Data), path)
}

// Usage is what an upstream says an attempt cost, in tokens.
type Usage struct{ Input, Cached, Output, Reasoning int64 }

// Usage returns the usage that a terminal event reports.
func (ev *Event) Usage() Usage {
	u := ev.responseMember("usage")
	return Usage{
		Input:     max(0, u.Get("input_tokens").Int()),
		Cached:    max(0, u.Get("input_tokens_details.cached_tokens").Int()),
		Output:    max(0, u.Get("output_tokens").Int()),
		Reasoning: max(0, u.Get("output_tokens_details.reasoning_tokens").Int()),
	}
}

// IncompleteReason returns why a response.incomplete event says it stopped.
func (ev *Event) IncompleteReason() string {
	return strings.Clone(ev.responseMember("incomplete_details.reason").Str)
}

// Empty reports whether a response.completed event brings no item but reasoning
// in its output, and gives no reason for that.
func (ev *Event) Empty() bool {
	if ev.IncompleteReason() != "" {
		return false
	}
	empty := true
	ev.responseMember("output").ForEach(func(_, item gjson.Result) bool {
		empty = item.Get("type").Str == "reasoning"
		return empty
	})
	return empty
}

// Failure returns the code and the message of an error or response.failed
// event, empty where it has none.
func (ev *Event) Failure() (code, message string) {
	e := ev.responseMember("error")
	if ev.Class == ClassError {
		if e = gjson.Get(ev.Data, "error"); !e.IsObject() {
			e = gjson.Parse(ev.Data)
		}
	}
	code = e.Get("code").String()
	if code == "" && e.Get("type").Str != "error" {
		code = e.Get("type").Str
	}
	return strings.Clone(code), strings.Clone(e.Get("message").Str)
}

// TextBytes returns the number of bytes of the model's text that ev brings, as
// they are written in its JSON.
func (ev *Event) TextBytes() int {
	if ev.Class != ClassOther {
		return 0
	}
	return max(0, len(ev.members()[memberDelta].of(ev.Data))-len(`""`))
}

// Response returns the event's response object as it stands in its data, or "".
// It aliases the event.
func (ev *Event) Response() string { return ev.members()[memberResponse].of(ev.Data) }

// FinishedItem returns the item of a response.output_item.done event as it
// stands in its data, or "". It aliases the event.
func (ev *Event) FinishedItem() string {
	if ev.Type != "response.output_item.done" {
		return ""
	}
	return ev.members()[memberItem].of(ev.Data)
}
