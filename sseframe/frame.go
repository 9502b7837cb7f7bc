package sseframe

import "bytes"

// bom is the byte order mark that a stream, and only its first frame, may
// begin with.
var bom = []byte{0xEF, 0xBB, 0xBF}

// Frame is one frame as it was received. It aliases the buffer of the Scanner
// that returned it and is valid until that Scanner's next call of Next.
type Frame struct {
	// Raw is the whole frame: a byte order mark, fields, comments, and the
	// line end of the blank line (absent in an unterminated tail).
	Raw []byte
	// BOM is the number of bytes at the start of Raw that are a byte order
	// mark and no part of the first line: 0 or 3.
	BOM int
}

// Event returns the value of the last `event` field, or nil if the frame has
// none. It aliases the frame.
func (f Frame) Event() []byte {
	var event []byte
	for l := f.lines(); l.scan(); {
		if v, ok := field(l.line(), "event"); ok {
			event = v
		}
	}
	return event
}

// Data returns the frame's data: the values of its `data` fields joined by LF,
// or nil if it has none, in which case a client dispatches no event for it.
// With a single field, the usual case, the result aliases the frame. Several
// are joined in *scratch, which is grown if need be.
func (f Frame) Data(scratch *[]byte) []byte {
	var data []byte
	fields := 0
	for l := f.lines(); l.scan(); {
		v, ok := field(l.line(), "data")
		if !ok {
			continue
		}
		switch fields++; fields {
		case 1:
			data = v
			continue
		case 2:
			*scratch = append((*scratch)[:0], data...)
		}
		*scratch = append(append(*scratch, '\n'), v...)
		data = *scratch
	}
	return data
}

// RawOffset translates the offset of a byte of Data into its offset in Raw, or
// -1 if the data is shorter. The LF that joins two fields has none of its own
// and translates to the end of the first one's line.
func (f Frame) RawOffset(offset int) int {
	for l := f.lines(); l.scan(); {
		v, ok := field(l.line(), "data")
		if !ok {
			continue
		}
		if offset <= len(v) {
			return l.end - len(v) + offset
		}
		offset -= len(v) + 1
	}
	return -1
}

// lines walks over the lines of a frame.
type lines struct {
	b          []byte
	start, end int // the current line, without its line end
	next       int // the line behind it
	cr, lf     int // as in Scanner
}

func (f Frame) lines() lines { return lines{b: f.Raw, next: f.BOM} }

func (l *lines) line() []byte { return l.b[l.start:l.end] }

func (l *lines) scan() bool {
	if l.next >= len(l.b) {
		return false
	}
	l.cr = seek(l.b, max(l.cr, l.next), '\r')
	l.lf = seek(l.b, max(l.lf, l.next), '\n')
	l.start, l.end = l.next, min(l.cr, l.lf)
	l.next = l.end + 1
	if l.cr+1 == l.lf {
		l.next++
	}
	return true
}

// seek returns the index of the first c in b at or behind pos, or len(b).
func seek(b []byte, pos int, c byte) int {
	if pos < len(b) && b[pos] != c {
		i := bytes.IndexByte(b[pos:], c)
		if i < 0 {
			return len(b)
		}
		return pos + i
	}
	return pos
}

// field returns the value of line if its field name is name: what follows the
// colon, without the one space that may stand behind it. A line without a
// colon is a field with an empty value.
func field(line []byte, name string) (value []byte, ok bool) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	value = line[len(name):]
	if len(value) == 0 {
		return value, true
	}
	if value[0] != ':' {
		return nil, false
	}
	value = value[1:]
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return value, true
}
