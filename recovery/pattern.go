package recovery

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/doomproxy/doomproxy/sseframe"
)

// pattern is what the deltas of an item have in common. Most frames of a stream
// differ from the one before in a number and a piece of text alone: they are told
// by comparing the rest, which costs a tenth of finding it out again.
type pattern struct {
	// Each frame touches these.
	raw    []byte // the frame that was learned from; empty if there is none
	data   int    // where its data begins, and its end counted from the frame's end
	after  int
	count  int                 // of parts
	parts  [maxVarying]varying // in their order in raw
	recent bool                // the last frame was like it
	missed int                 // frames learned from since one was like it
	moved  moved               // of the last frame that was like it
	last   int                 // the last of moved that counts for a member

	typ    string
	at     eventMembers
	behind [memberCount]uint8 // how many of parts a member is behind
}

// moved is how far what stands behind so many of the varying parts is from where it
// was learned.
type moved [maxVarying + 1]int

// maxVarying is the number of members that may differ: sequence_number, delta, and
// what some APIs pad events with.
const maxVarying = 3

// varying is the value of a member that may differ.
type varying struct {
	member int8  // -1 for one that no decision needs
	lo, hi int16 // in raw, which is no longer than maxPattern
}

// maxMissed is how many frames are learned from in vain before the stream is taken
// for one whose deltas are not alike.
const maxMissed = 16

// padding is the member that some APIs hide the length of a delta with.
const padding = "obfuscation"

// maxPattern bounds the frames that are learned from, in bytes: deltas are shorter.
const maxPattern = 2048

// learn takes down ev if events like it may follow.
func (p *pattern) learn(ev *Event) {
	p.raw, p.recent = p.raw[:0], false
	raw := ev.Frame.Raw
	delta := ev.at[memberDelta].of(ev.Data)
	if ev.Class != ClassOther || ev.mentions || p.missed == maxMissed || ev.Frame.BOM > 0 || len(raw) > maxPattern ||
		!strings.HasPrefix(delta, `"`) || !strings.HasSuffix(ev.Type, ".delta") {
		return
	}
	data := ev.Frame.RawOffset(0)
	if data < 0 || unsafe.StringData(ev.Data) != &raw[data] { // #nosec G103 -- compared only
		return // it has several lines of data
	}
	p.data, p.after = data, len(raw)-data-len(ev.Data)
	p.at, p.count = ev.at, 0
	members(ev.Data, 0, func(key string, value span) {
		member := int8(-1)
		switch {
		case value == ev.at[memberDelta]:
			member = memberDelta
		case value == ev.at[memberSequence] && ev.number(value) >= 0:
			member = memberSequence
		case key != padding || ev.Data[value.lo] != '"':
			return
		}
		if p.count < maxVarying {
			p.parts[p.count] = varying{member, int16(data + value.lo), int16(data + value.hi)} // #nosec G115 -- below maxPattern
			p.count++
		}
	})
	p.last = 0
	for i, at := range p.at {
		p.behind[i] = 0
		for j := range p.count {
			if at.present() && data+at.lo >= int(p.parts[j].hi) {
				p.behind[i]++
			}
		}
		p.last = max(p.last, int(p.behind[i]))
	}
	if p.typ != ev.Type {
		p.typ = strings.Clone(ev.Type)
	}
	ev.Type = p.typ // it is that of the events to come, too
	p.raw, p.recent, p.moved = append(p.raw, raw...), true, moved{}
	p.missed++
}

// match makes ev, the event before, that of a frame that is like the one learned
// from. It reports false, and changes nothing, for any other frame.
func (p *pattern) match(f sseframe.Frame, ev *Event) bool {
	if len(p.raw) == 0 || f.BOM > 0 {
		return false
	}
	raw, pos, from := f.Raw, 0, 0
	var by moved
	var found [maxVarying]span
	for i := range p.count {
		lo, hi := int(p.parts[i].lo), int(p.parts[i].hi)
		same := lo - from
		if len(raw)-pos <= same || !bytes.Equal(raw[pos:pos+same], p.raw[from:lo]) {
			return false
		}
		pos += same
		end := skipDigits(raw, pos)
		if p.raw[lo] == '"' {
			end = skipText(raw, pos)
		}
		if end < 0 {
			return false
		}
		found[i] = span{pos - p.data, end - p.data}
		pos, from = end, hi
		by[i+1] = pos - from
	}
	if !bytes.Equal(raw[pos:], p.raw[from:]) {
		return false
	}
	if !p.recent {
		*ev = Event{Class: ClassOther, Type: p.typ}
	}
	ev.Frame, ev.Data, ev.same = f, alias(raw[p.data:len(raw)-p.after]), p.recent
	if !p.recent || !slices.Equal(by[:p.last+1], p.moved[:p.last+1]) {
		p.place(ev, by)
	}
	for i := range p.count {
		if m := p.parts[i].member; m >= 0 {
			ev.at[m] = found[i]
		}
	}
	p.recent, p.missed = true, 0
	return true
}

// place says where the members of ev are.
func (p *pattern) place(ev *Event, by moved) {
	p.moved = by
	for i, at := range p.at {
		if at.present() {
			n := by[p.behind[i]&maxVarying]
			ev.at[i] = span{at.lo + n, at.hi + n}
		}
	}
}

// skipDigits returns the index behind the whole number at i, or -1 if there is
// none that every reader of JSON keeps exact.
func skipDigits(raw []byte, i int) int {
	end := i
	for end < len(raw) && '0' <= raw[end] && raw[end] <= '9' {
		end++
	}
	if end == i || end-i > 15 || raw[i] == '0' && end-i > 1 {
		return -1
	}
	return end
}

// skipText returns the index behind the JSON string at i, or -1 if there is none on
// this line.
func skipText(raw []byte, i int) int {
	if i >= len(raw) || raw[i] != '"' {
		return -1
	}
	for i++; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
			if i < len(raw) && raw[i] < ' ' {
				return -1
			}
		case c < ' ':
			return -1
		}
	}
	return -1
}
