package recovery

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Default budgets of what a cut attempt is replayed with, in bytes.
const (
	DefaultReasoningBytes = 8 << 10
	DefaultTextBytes      = 4 << 10
)

// Capture keeps what an attempt thought, for its replay should it be cut. Use a
// fresh one per attempt.
type Capture struct {
	// ReasoningBytes is the budget of reasoning text and encrypted_content,
	// TextBytes that of other text; zero means the defaults.
	ReasoningBytes, TextBytes int

	items    []capturedItem
	used     int  // of ReasoningBytes, by finished items
	usedText int  // of TextBytes
	full     bool // unfinished items have no room for more text
	veto     bool // something was made that must not be replayed
}

// capturedItem is an output item: finished, or as far as its deltas tell.
type capturedItem struct {
	typ       string // "reasoning" or "message"
	index     int    // output_index, -1 if there is none
	id        string // JSON value, or ""
	encrypted string // JSON string, or ""
	finished  bool
	raw       []capturedPart // content: raw reasoning text, or a message's
	summary   []capturedPart
}

// capturedPart is the text of one part.
type capturedPart struct {
	index int
	text  []byte
	// half is the first half of a surrogate pair, as an escape, if a delta
	// ended between the two.
	half string
}

// Absorb takes in what ev adds to the attempt's reasoning.
func (c *Capture) Absorb(ev *Event) {
	switch {
	case ev.Class == ClassTerminal:
		c.absorbOutput(ev.responseMember("output"))
	case ev.Class != ClassOther:
	case ev.Type == "response.output_item.added":
		typ := ev.itemMember("type").Str
		c.veto = c.veto || typ != "reasoning" && typ != "message"
	case ev.Type == "response.output_item.done":
		c.finish(ev.number(ev.members()[memberOutputIndex]), gjson.Parse(ev.members()[memberItem].of(ev.Data)))
	case !c.full && ev.hasReasoningType():
		c.absorbText(ev)
	}
}

// absorbOutput takes the output of a terminal event for what the attempt
// finished, unless it is empty: one backend always sends it so.
func (c *Capture) absorbOutput(output gjson.Result) {
	if !output.IsArray() || !output.Get("0").Exists() {
		return
	}
	before := c.items
	c.items, c.used, c.usedText = nil, 0, 0
	index := 0
	output.ForEach(func(_, item gjson.Result) bool {
		c.finish(index, item)
		index++
		return true
	})
	for _, it := range before {
		if !it.finished && it.index >= index {
			c.add(it)
		}
	}
}

// finish takes in a finished item, which replaces what its deltas told.
func (c *Capture) finish(index int, item gjson.Result) {
	done := capturedItem{
		typ:      strings.Clone(item.Get("type").Str),
		index:    index,
		id:       ownedID(item.Get("id").Raw),
		finished: true,
	}
	switch done.typ {
	case "reasoning":
		done.finishReasoning(item, c.reasoningBytes()-c.used)
		c.used += done.size()
	case "message":
		done.raw = finishedText(item.Get("content"), c.textBytes()-c.usedText)
		c.usedText += done.size()
	default:
		c.veto = true
		return
	}
	if i := c.find(index, done.id); i >= 0 {
		c.items = slices.Delete(c.items, i, i+1)
	}
	c.add(done) // in the order in which they share the budget
	c.full = c.used > c.reasoningBytes()
}

// finishReasoning takes from a finished reasoning item what has room.
func (it *capturedItem) finishReasoning(item gjson.Result, room int) {
	if enc := item.Get("encrypted_content"); enc.Str != "" {
		if len(enc.Str) > room {
			return // it could only come back parted from its content
		}
		it.encrypted = ownedString(enc.Raw)
		room -= len(enc.Str)
	}
	if it.raw = finishedText(item.Get("content"), room); len(it.raw) == 0 {
		it.summary = finishedText(item.Get("summary"), room)
	}
}

// finishedText returns the text parts of an array, no more than room bytes and
// one more, so that it shows that there was more.
func finishedText(parts gjson.Result, room int) []capturedPart {
	var kept []capturedPart
	parts.ForEach(func(_, part gjson.Result) bool {
		if room < 0 {
			return false
		}
		text := part.Get("text").Str
		text = text[:min(len(text), room+1)]
		if text != "" {
			kept = append(kept, capturedPart{text: []byte(text)})
		}
		room -= len(text)
		return true
	})
	return kept
}

// absorbText takes in a delta of reasoning text, or the whole of a part's text.
func (c *Capture) absorbText(ev *Event) {
	at := ev.members()
	delta, whole := at[memberDelta].of(ev.Data), at[memberText].of(ev.Data)
	if at[memberPart].present() && strings.HasSuffix(ev.Type, ".done") {
		whole = gjson.Get(at[memberPart].of(ev.Data), "text").Raw
	}
	if !holdsText(delta) && !holdsText(whole) {
		return
	}
	index := ev.number(at[memberOutputIndex])
	i := c.find(index, ev.ownerID())
	if i < 0 {
		i = c.add(capturedItem{typ: "reasoning", index: index, id: strings.Clone(ev.ownerID())})
	}
	if i < 0 || c.items[i].finished {
		return
	}
	parts, n := &c.items[i].raw, 0
	if at[memberSummaryIndex].present() || strings.Contains(ev.Type, "summary") {
		parts, n = &c.items[i].summary, ev.number(at[memberSummaryIndex])
	} else {
		n = ev.number(at[memberContentIndex])
	}
	j := slices.IndexFunc(*parts, func(p capturedPart) bool { return p.index == n })
	if j < 0 {
		if len(*parts) == maxOpen {
			return
		}
		j = len(*parts)
		*parts = append(*parts, capturedPart{index: n})
	}
	room := c.reasoningBytes() - c.used - length(*parts)
	(*parts)[j].absorb(delta, whole, room)
	c.full = room < 0
}

// holdsText reports whether raw is a JSON string that is not empty.
func holdsText(raw string) bool { return strings.HasPrefix(raw, `"`) && raw != `""` }

// absorb appends delta, or puts whole in the place of all before, if they hold
// text. It stops one byte behind room, so that it shows that there was more.
func (p *capturedPart) absorb(delta, whole string, room int) {
	if holdsText(whole) {
		room += len(p.text)
		p.text, p.half = p.text[:0], ""
		delta = whole
	}
	if room < 0 || !holdsText(delta) {
		return
	}
	if p.half != "" {
		delta = `"` + p.half + delta[1:]
	}
	delta, p.half = splitSurrogate(delta)
	text := unquote(delta)
	text = text[:min(len(text), room+1)]
	if len(p.text)+len(text) > cap(p.text) {
		p.grow(len(text), room)
	}
	p.text = append(p.text, text...)
}

// grow makes room for n bytes more. Most texts are short or fill all of the room
// that is left, so it takes large steps.
func (p *capturedPart) grow(n, room int) {
	const least, factor = 256, 4
	size := max(least, factor*cap(p.text), len(p.text)+n)
	grown := make([]byte, len(p.text), max(min(size, len(p.text)+room+1), len(p.text)+n))
	copy(grown, p.text)
	p.text = grown
}

// splitSurrogate takes the first half of a surrogate pair off the end of a JSON
// string: its other half is in the next delta.
func splitSurrogate(s string) (head, half string) {
	const escape = len(`\ud83d`)
	at := len(s) - 1 - escape
	if at < 1 || s[at] != '\\' || s[at+1] != 'u' || s[at+2] != 'd' && s[at+2] != 'D' ||
		strings.IndexByte("89abAB", s[at+3]) < 0 {
		return s, ""
	}
	// An escaped backslash is no escape.
	slashes := 0
	for s[at-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 1 {
		return s, ""
	}
	return s[:at] + `"`, strings.Clone(s[at : at+escape])
}

// find returns the index in items of the one with the given output index or,
// where the upstream sends none, the given id or, where it sends neither, the
// one that is not finished yet; -1 if there is none.
func (c *Capture) find(index int, id string) int {
	return slices.IndexFunc(c.items, func(it capturedItem) bool {
		switch {
		case index >= 0 && it.index >= 0:
			return it.index == index
		case id != "":
			return it.id == id
		}
		return index < 0 && !it.finished
	})
}

// add appends an item and returns its index, or -1 if there are too many.
func (c *Capture) add(it capturedItem) int {
	if len(c.items) == maxOpen {
		return -1
	}
	c.items = append(c.items, it)
	return len(c.items) - 1
}

// text returns what of the item is replayed: the raw text, or the summary
// where that holds none.
func (it *capturedItem) text() []capturedPart {
	if length(it.raw) > 0 {
		return it.raw
	}
	return it.summary
}

// size returns what the item takes of a budget.
func (it *capturedItem) size() int { return len(unquote(it.encrypted)) + length(it.text()) }

func length(parts []capturedPart) int {
	n := 0
	for _, p := range parts {
		n += len(p.text)
	}
	return n
}

func (c *Capture) reasoningBytes() int {
	if c.ReasoningBytes > 0 {
		return c.ReasoningBytes
	}
	return DefaultReasoningBytes
}

func (c *Capture) textBytes() int {
	if c.TextBytes > 0 {
		return c.TextBytes
	}
	return DefaultTextBytes
}
