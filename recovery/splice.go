package recovery

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// Splice ends the current attempt on the client's side and makes way for the
// next one: it returns the events that close what the attempt left open, and a
// comment line that marks the place, and the number of frames these are. The
// bytes are valid until the next method call. The comment must hold no line
// end.
func (v *View) Splice(comment string) (raw []byte, frames int) {
	v.out = v.out[:0]
	base := v.opened()
	if v.closing == CloseTombstone {
		slices.SortStableFunc(v.items, func(a, b viewItem) int { return cmp.Compare(a.index, b.index) })
		for i := range v.items {
			frames += v.closeItem(&v.items[i])
		}
	}
	v.out = append(append(append(v.out, ": "...), comment...), "\n\n"...)
	v.spliced, v.preamble = true, true
	v.base, v.items, v.current = base, nil, ""
	return v.out, frames + 1
}

// closeItem appends the events that close it, parts first, and returns their
// number. An item that was never announced is not closed either.
func (v *View) closeItem(it *viewItem) (frames int) {
	if !it.added || it.done {
		return 0
	}
	for _, p := range slices.Backward(it.parts) {
		if p.done {
			continue
		}
		v.beginEvent(p.stem + ".done")
		if it.id != "" {
			v.out = append(append(v.out, `,"item_id":`...), it.id...)
		}
		v.appendNumber("output_index", it.index)
		v.appendNumber(p.indexKey, p.index)
		if p.partType == "" {
			v.out = append(v.out, `,"text":""`...)
		} else {
			v.out = append(append(append(v.out, `,"part":{"type":`...), p.partType...), `,"text":""}`...)
		}
		v.endEvent()
		frames++
	}
	v.beginEvent("response.output_item.done")
	v.appendNumber("output_index", it.index)
	v.out = append(v.out, `,"item":{`...)
	if it.id != "" {
		v.out = append(append(append(v.out, `"id":`...), it.id...), ',')
	}
	v.out = append(v.out, `"type":"reasoning",`...)
	if it.status {
		v.out = append(v.out, `"status":"completed",`...)
	}
	v.out = append(append(append(v.out, `"summary":[],"encrypted_content":"`...), newTombstone()...), `"}`...)
	v.endEvent()
	return frames + 1
}

// Fail returns a response.failed with the given code and message, behind a
// response.created if the client was sent none, and the number of frames these
// are. An empty code means server_error. It is for a stream in which nothing is
// visible: of others the sequence is not kept. The bytes are valid until the
// next method call.
func (v *View) Fail(code, message string) (raw []byte, frames int) {
	v.out = v.out[:0]
	if !v.Created() {
		v.beginEvent("response.created")
		v.appendResponse("in_progress", "null")
		v.endEvent()
		v.sent[0] = true
		frames++
	}
	failure := gjson.AppendJSONString([]byte(`{"code":`), cmp.Or(code, "server_error"))
	failure = append(gjson.AppendJSONString(append(failure, `,"message":`...), message), '}')
	v.beginEvent("response.failed")
	v.appendResponse("failed", string(failure))
	v.endEvent()
	v.Visible, v.Terminal = true, true
	return v.out, frames + 1
}

// Progress returns a response.in_progress for a client whose idle timer does
// not count comments. It carries no sequence_number, so that it takes none.
func (v *View) Progress() []byte {
	const name = "response.in_progress"
	v.sent[slices.Index(lifecycleTypes[:], name)] = true
	v.out = append(v.out[:0], "event: "+name+"\ndata: {\"type\":\""+name+"\""...)
	v.appendResponse("in_progress", "null")
	v.endEvent()
	return v.out
}

// beginEvent appends the head of an event up to and including its
// sequence_number, which it only has if the upstream numbers its events.
func (v *View) beginEvent(name string) {
	v.out = append(append(append(v.out, "event: "...), name...), "\ndata: {\"type\":\""...)
	v.out = append(append(v.out, name...), '"')
	if v.sequence >= 0 {
		v.sequence++
	}
	v.appendNumber("sequence_number", v.sequence)
}

func (v *View) endEvent() { v.out = append(v.out, "}\n\n"...) }

// appendNumber appends a member with the value n, if key is not empty and n not
// negative.
func (v *View) appendNumber(key string, n int) {
	if key == "" || n < 0 {
		return
	}
	v.out = append(append(append(v.out, `,"`...), key...), `":`...)
	v.out = strconv.AppendInt(v.out, int64(n), 10)
}

func (v *View) appendResponse(status, failure string) {
	r := &v.response
	v.out = append(append(v.out, `,"response":{"id":`...), orNull(r.ID)...)
	v.out = append(append(v.out, `,"object":"response","created_at":`...), orNull(r.CreatedAt)...)
	v.out = append(append(append(v.out, `,"status":"`...), status...), '"')
	v.out = append(append(v.out, `,"error":`...), failure...)
	v.out = append(append(v.out, `,"incomplete_details":null,"model":`...), orNull(r.Model)...)
	v.out = append(v.out, `,"output":[]}`...)
}

func orNull(value string) string {
	if value == "" {
		return "null"
	}
	return value
}

// edit replaces a value of an event's data: by text or, if that is empty, by
// number.
type edit struct {
	at     span
	text   string
	number int
}

// rewrite returns ev as it continues the client's stream: with the client's
// response id, the next sequence number, and output indexes behind those taken.
// Only these values change, and a byte order mark goes.
func (v *View) rewrite(ev *Event) ([]byte, Action) {
	var all [3]edit
	edits := all[:0]
	at := ev.members()
	if ev.isNumber(at[memberSequence]) {
		v.sequence++
		edits = append(edits, edit{at: at[memberSequence], number: v.sequence})
	}
	if i := ev.number(at[memberOutputIndex]); i >= 0 {
		edits = append(edits, edit{at: at[memberOutputIndex], number: i + v.base})
	}
	id := ev.responseID()
	v.tell(id.of(ev.Data))
	if id.present() && v.named {
		edits = append(edits, edit{at: id, text: v.response.ID})
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.at.lo, b.at.lo) })
	raw, from := ev.Frame.Raw, ev.Frame.BOM
	v.out = v.out[:0]
	for _, e := range edits {
		v.out = append(v.out, raw[from:ev.Frame.RawOffset(e.at.lo)]...)
		if e.text != "" {
			v.out = append(v.out, e.text...)
		} else {
			v.out = strconv.AppendInt(v.out, int64(e.number), 10)
		}
		from = ev.Frame.RawOffset(e.at.hi)
	}
	v.out = append(v.out, raw[from:]...)
	if raw = raw[ev.Frame.BOM:]; bytes.Equal(v.out, raw) {
		return raw, Forwarded
	}
	return v.out, Rewritten
}
