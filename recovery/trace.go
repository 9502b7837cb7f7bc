package recovery

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Trace is what a reasoning item, or a reference to one, is told by when a
// client sends it back. Clients keep different parts of it; what is not there
// is "".
type Trace struct {
	ID      string
	Sealed  string // encrypted_content
	Text    string // of the item's raw reasoning, all parts one after the other
	Summary string // of its summary
}

// traceOf returns the trace of an item given as JSON.
func traceOf(item string) Trace {
	return Trace{
		ID:      strings.Clone(unquote(member(item, 0, "id").of(item))),
		Sealed:  strings.Clone(unquote(member(item, 0, "encrypted_content").of(item))),
		Text:    joinText(member(item, 0, "content").of(item)),
		Summary: joinText(member(item, 0, "summary").of(item)),
	}
}

// joinText returns the texts of a JSON array of parts.
func joinText(list string) string {
	parts := gjson.Parse(list)
	if !parts.IsArray() {
		return ""
	}
	var b strings.Builder
	parts.ForEach(func(_, part gjson.Result) bool {
		b.WriteString(part.Get("text").Str)
		return true
	})
	return b.String()
}

// Trace returns the trace of the reasoning item that ev tells of as a whole, as
// it begins or ends. ok is false for all other events.
func (ev *Event) Trace() (t Trace, ok bool) {
	switch ev.Type {
	case "response.output_item.added", "response.output_item.done":
		if ev.itemMember("type").Str == "reasoning" {
			return traceOf(ev.members()[memberItem].of(ev.Data)), true
		}
	}
	return t, false
}

// Returned is an item of a request that an attempt may have sent before: a
// reasoning item or a reference to any item.
type Returned struct {
	Trace
	// Tombstone is set for an item that closed a discarded one.
	Tombstone bool

	at span
}

// ReturnedItems returns such items of the `input` and `items` arrays of a
// request body, which must be valid JSON.
func ReturnedItems(body string) []Returned {
	if !strings.Contains(body, "reasoning") && !strings.Contains(body, "item_reference") {
		return nil
	}
	var all []Returned
	members(body, 0, func(key string, value span) {
		if key != "input" && key != "items" {
			return
		}
		elements(body, value.lo, func(at span) {
			item := at.of(body)
			switch unquote(member(item, 0, "type").of(item)) {
			case "reasoning", "item_reference":
				r := Returned{Trace: traceOf(item), at: at}
				r.Tombstone = strings.HasPrefix(r.Sealed, TombstonePrefix)
				all = append(all, r)
			}
		})
	})
	return all
}

// Drop returns body without the given items, which ReturnedItems returned for
// it. All other bytes stay.
func Drop(body string, items []Returned) string {
	if len(items) == 0 {
		return body
	}
	var cuts []span
	members(body, 0, func(key string, value span) {
		if key == "input" || key == "items" {
			cuts = append(cuts, cutElements(body, value.lo, func(at span) bool {
				return slices.ContainsFunc(items, func(r Returned) bool { return r.at == at })
			})...)
		}
	})
	var out strings.Builder
	from := 0
	for _, c := range cuts {
		out.WriteString(body[from:c.lo])
		from = c.hi
	}
	out.WriteString(body[from:])
	return out.String()
}

// cutElements returns the parts of s to leave out so that the array at the
// given place loses the elements that drop names, with the commas they need.
func cutElements(s string, at int, drop func(element span) bool) []span {
	var cuts []span
	kept, run, last := 0, span{}, 0 // end of the last element kept; elements dropped behind it; end of all
	elements(s, at, func(value span) {
		last = value.hi
		switch {
		case drop(value):
			if !run.present() {
				run = value
			}
		default:
			if run.present() {
				cuts = append(cuts, span{run.lo, value.lo})
				run = span{}
			}
			kept = value.hi
		}
	})
	if run.present() {
		if kept > 0 {
			run.lo = kept // with the comma behind the last element kept
		}
		cuts = append(cuts, span{run.lo, last})
	}
	return cuts
}
