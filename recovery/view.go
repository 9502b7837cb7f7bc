package recovery

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Close is how the items of a discarded attempt are closed for a client.
type Close uint8

const (
	// CloseTombstone closes each open item, with a tombstone that is told
	// when the client sends it back.
	CloseTombstone Close = iota
	// CloseDangling sends nothing, for clients that tolerate an item without
	// an end but would keep a tombstone in their history for good.
	CloseDangling
)

// Action is what became of a frame.
type Action uint8

// The actions, named as in the frame metric.
const (
	Forwarded Action = iota
	Swallowed
	Rewritten
	Discarded   // received in an attempt that was cut, never sent on
	Synthesized // made here
	actions
)

// Actions is the number of actions, for counting in an array.
const Actions = int(actions)

// String returns the action's name in the frame metric.
func (a Action) String() string {
	return [...]string{"forwarded", "swallowed", "rewritten", "discarded", "synthesized"}[a]
}

// maxOpen bounds the items of an attempt and the parts of an item that a View
// keeps account of. Real attempts have a handful; an attempt that has more can
// no longer be discarded.
const maxOpen = 256

// Response is what identifies a response object. Its fields are JSON values
// as they stand in an event; "" if unknown.
type Response struct{ ID, Model, CreatedAt string }

// View is what the client of one request has been sent so far. It decides what
// the client is sent for each event, and makes the events that keep its picture
// whole when an attempt is discarded. It assumes that what it returns is
// written.
type View struct {
	// Visible is set once something was forwarded that cannot be taken back.
	Visible bool
	// Terminal is set once a terminal event was sent.
	Terminal bool
	// Errored is set while the last event forwarded is an error. It is terminal
	// if the stream ends behind it.
	Errored bool

	spliced  bool // an attempt was discarded: events must be rewritten
	preamble bool // only lifecycle events came from the current attempt
	sequence int  // the last sequence_number sent, -1 before the first

	closing  Close
	response Response // as the client knows it; until then what it would be told
	named    bool     // response is the upstream's
	current  string   // the current attempt's own response id, a JSON value
	sent     [len(lifecycleTypes)]bool

	base  int        // added to the output indexes of the current attempt
	items []viewItem // of the current attempt, while nothing is visible
	out   []byte     // what the last method call returned
}

var lifecycleTypes = [...]string{"response.created", "response.queued", "response.in_progress"}

// viewItem is a reasoning item. Any other item makes the stream visible, and
// then there is nothing left to close.
type viewItem struct {
	index  int    // output_index as sent to the client; -1 if there is none
	id     string // JSON value, or ""
	added  bool   // its response.output_item.added was sent
	status bool   // it began with a status: some clients want one at its end, too
	done   bool   // its response.output_item.done was sent
	parts  []viewPart
}

// viewPart is what an event named stem.added or stem.delta opened and one named
// stem.done closes.
type viewPart struct {
	stem     string
	indexKey string // content_index, summary_index, or ""
	index    int
	partType string // JSON value; "" for what a delta opened
	done     bool
}

// NewView returns the view of a client that was sent nothing. What identifies
// the response is taken from the first event that tells it; own stands in when
// an event has to be made before that.
func NewView(closing Close, own Response) *View {
	return &View{closing: closing, response: own, preamble: true, sequence: -1}
}

// tell takes down the current attempt's own response id, a JSON value.
func (v *View) tell(id string) {
	if id != "" && v.current == "" {
		v.current = strings.Clone(id)
	}
}

// ResponseIDs returns the response's id as the client knows it, and as the
// upstream of the current attempt does; "" where none was told.
func (v *View) ResponseIDs() (client, upstream string) {
	if v.named {
		client = unquote(v.response.ID)
	}
	return client, unquote(v.current)
}

// Created reports whether the client was sent a response.created.
func (v *View) Created() bool { return v.sent[0] }

// Spliced reports whether an attempt was discarded, so that events of the
// current one have to be rewritten.
func (v *View) Spliced() bool { return v.spliced }

// Shows reports whether forwarding ev makes the stream visible.
func (v *View) Shows(ev *Event) bool {
	switch ev.Class {
	case ClassTerminal, ClassError:
		return true
	case ClassOther:
		return ev.carriesOutput() && !v.isReasoning(ev)
	case ClassNone, ClassCheck, ClassLifecycle, ClassDone:
	}
	return false
}

func (v *View) isReasoning(ev *Event) bool {
	switch {
	case ev.hasReasoningType():
		return true
	case ev.members()[memberItem].present():
		return ev.itemMember("type").Str == "reasoning"
	case strings.HasPrefix(ev.Type, "response.output_item."), strings.HasPrefix(ev.Type, "response.content_part."):
		return v.find(ev) >= 0
	}
	// Text, a call, or something unknown: it shows, even where an upstream gives
	// it the index of a reasoning item.
	return false
}

// find returns the index in items of the one that ev belongs to, or -1. An
// output index tells it, and of several with the same it is the last; only where
// the upstream sends none, an id does, and where it sends neither, the order.
func (v *View) find(ev *Event) int {
	index, id := v.outputIndex(ev), ev.ownerID()
	for i := len(v.items) - 1; i >= 0; i-- {
		it := &v.items[i]
		same := id == "" || it.id == id
		if index >= 0 && it.index >= 0 {
			same = it.index == index
		}
		if same {
			return i
		}
	}
	return -1
}

// outputIndex returns the output index of ev as the client sees it, or -1.
func (v *View) outputIndex(ev *Event) int {
	if n := ev.number(ev.members()[memberOutputIndex]); n >= 0 {
		return n + v.base
	}
	return -1
}

// Forward returns what the client is sent for ev: with the action Forwarded bytes
// of the frame itself, with Rewritten others, which are valid until the next method
// call, or none.
func (v *View) Forward(ev *Event) ([]byte, Action) {
	if v.spliced && v.preamble && ev.Class == ClassLifecycle && v.sent[ev.lifecycle()] {
		return nil, Swallowed
	}
	raw, action := ev.Frame.Raw, Forwarded
	if v.spliced {
		raw, action = v.rewrite(ev)
	}
	v.note(ev)
	return raw, action
}

// note takes down that ev is sent.
func (v *View) note(ev *Event) {
	if ev.same {
		// All but the number was taken down with the one before.
		if !v.spliced && !v.Visible {
			v.sequence = max(v.sequence, ev.number(ev.members()[memberSequence]))
		}
		return
	}
	switch ev.Class {
	case ClassTerminal:
		v.Terminal = true
	case ClassError:
		v.Errored = true
	case ClassOther:
		v.preamble = false
		v.Errored = v.Errored && !ev.carriesOutput()
	case ClassLifecycle:
		v.sent[ev.lifecycle()] = true
		if !v.named {
			told := ev.response()
			v.named = told.ID != ""
			v.response = Response{
				ID:        cmp.Or(told.ID, v.response.ID),
				Model:     cmp.Or(told.Model, v.response.Model),
				CreatedAt: cmp.Or(told.CreatedAt, v.response.CreatedAt),
			}
		}
	case ClassNone, ClassCheck, ClassDone:
	}
	if v.Visible {
		return
	}
	if !v.spliced {
		v.sequence = max(v.sequence, ev.number(ev.members()[memberSequence]))
	}
	if v.Shows(ev) {
		v.Visible, v.items = true, nil
	} else if ev.Class == ClassOther && v.isReasoning(ev) {
		v.noteItem(ev)
	}
}

// noteItem takes down what ev opens or closes of a reasoning item.
func (v *View) noteItem(ev *Event) {
	i := v.find(ev)
	if i < 0 || v.items[i].done && ev.Type == "response.output_item.added" {
		i = len(v.items)
		v.items = append(v.items, viewItem{index: v.outputIndex(ev), id: ownedString(ev.ownerID())})
	}
	it := &v.items[i]
	switch ev.Type {
	case "response.output_item.added":
		it.added = true
		it.status = ev.itemMember("status").Type == gjson.String
	case "response.output_item.done":
		it.done = true
	default:
		it.notePart(ev)
	}
	v.Visible = v.Visible || len(v.items) > maxOpen || len(it.parts) > maxOpen
}

func (it *viewItem) notePart(ev *Event) {
	dot := strings.LastIndexByte(ev.Type, '.')
	if dot < 0 {
		return
	}
	stem, verb := ev.Type[:dot], ev.Type[dot+1:]
	indexKey, index := ev.partIndex()
	i := slices.IndexFunc(it.parts, func(p viewPart) bool {
		return p.stem == stem && p.index == index && p.indexKey == indexKey
	})
	opens := verb == "added" || verb == "delta"
	switch {
	case i >= 0 && opens:
		it.parts[i].done = false
	case i >= 0 && verb == "done":
		it.parts[i].done = true
		if it.parts[i].partType == "" {
			break
		}
		// A part's end is that of the text in it, too.
		for j := range it.parts {
			if p := &it.parts[j]; p.index == index && p.indexKey == indexKey {
				p.done = true
			}
		}
	case opens && SanitizeLabel(stem) == stem:
		p := viewPart{stem: strings.Clone(stem), indexKey: indexKey, index: index}
		if verb == "added" {
			p.partType = ev.partType()
		}
		it.parts = append(it.parts, p)
	}
}

// opened returns the number of output indexes that are taken on the client's
// side.
func (v *View) opened() int {
	n := v.base + len(v.items)
	for _, it := range v.items {
		n = max(n, it.index+1)
	}
	return n
}
