package sseframe

import (
	"bytes"
	"errors"
	"io"
)

const (
	// DefaultMaxFrame is the bound of a frame in bytes when Scanner.MaxFrame is
	// zero. The largest real frames are terminal events that repeat the whole
	// output, inlined images included.
	DefaultMaxFrame = 16 << 20

	// minBuffer holds a dozen delta frames of about 200 bytes: what models send
	// at a time. A stream that fills it once gets fastBuffer, so that one read
	// takes in what one TLS record can bring.
	minBuffer  = 4 << 10
	fastBuffer = 16 << 10

	// keepBuffer is the largest buffer that Reset keeps, so that one large
	// frame does not pin its memory to a pooled Scanner.
	keepBuffer = 64 << 10

	// maxEmptyReads is how many reads without data or error are accepted in a
	// row, as in package bufio.
	maxEmptyReads = 100
)

// ErrFrameTooLong is returned by Next when a frame outgrows Scanner.MaxFrame.
// What was read so far is in Rest; the reader holds the remainder.
var ErrFrameTooLong = errors.New("sseframe: frame exceeds the size limit")

// Scanner reads frames from a stream. It looks at each byte once, however the
// stream is cut into reads: it goes on where it stopped and never starts a
// frame over. Call Reset before the first use. A Scanner is not safe for
// concurrent use.
type Scanner struct {
	// MaxFrame is the bound of one frame in bytes; zero means DefaultMaxFrame.
	MaxFrame int

	r   io.Reader
	buf []byte // buf[start:] is read and not yet returned
	err error  // sticky; returned once buf holds no whole frame

	start int // first byte of the frame being collected
	line  int // first byte of the line being collected
	next  int // first byte behind the last line end found
	end   int // end of the frame at start, once it is found; else 0

	// cr and lf are where the search for the next CR and the next LF stands:
	// at one, or at the end of what was searched. There is one for each,
	// because most streams have only one of the two, and looking for the other
	// from the start of each line would be quadratic.
	cr, lf int

	fast    bool // a read filled the buffer
	first   bool // no frame was returned yet: a byte order mark may come
	splitCR bool // the last line ended in a CR at the end of buf: an LF may follow
}

// Reset makes s read from r, as new but for MaxFrame and the buffer, which is
// used again.
func (s *Scanner) Reset(r io.Reader) {
	buf := s.buf[:0]
	if cap(buf) > keepBuffer {
		buf = nil
	}
	*s = Scanner{MaxFrame: s.MaxFrame, r: r, buf: buf, first: true}
}

// Next returns the next frame, reading only when the buffer holds none. At the
// end it returns the reader's error, io.EOF for a regular end; Rest then holds
// the unterminated tail. After an error each further call returns the same.
func (s *Scanner) Next() (Frame, error) {
	for !s.scan() {
		switch {
		case s.err != nil:
		case len(s.buf)-s.start > s.maxFrame():
			s.err = ErrFrameTooLong
		default:
			s.fill()
			continue
		}
		return Frame{}, s.err
	}
	if s.end-s.start > s.maxFrame() {
		s.err = ErrFrameTooLong
		return Frame{}, s.err
	}
	f := s.frame(s.end)
	s.start, s.end, s.first = s.end, 0, false
	return f, nil
}

// Buffered reports whether Next will return without reading.
func (s *Scanner) Buffered() bool {
	return s.scan() || s.err != nil || len(s.buf)-s.start > s.maxFrame()
}

// Push takes in the next bytes of a stream that s does not read itself: someone
// forwards it as it comes, and looks into it beside that. It copies p. Call Next
// only while Buffered, and Reset with a nil reader before the first Push.
func (s *Scanner) Push(p []byte) {
	s.compact()
	if n := len(s.buf) + len(p); n > cap(s.buf) {
		s.grow(n)
	}
	s.buf = append(s.buf, p...)
}

// Rest returns what was read and not returned by Next: after an error, the
// unterminated tail. It is valid until the next Reset.
func (s *Scanner) Rest() []byte { return s.buf[s.start:] }

// Tail returns Rest as a frame, to look at its fields. A client never
// dispatches it, since no blank line ends it.
func (s *Scanner) Tail() Frame { return s.frame(len(s.buf)) }

func (s *Scanner) frame(end int) Frame {
	f := Frame{Raw: s.buf[s.start:end]}
	if s.first && bytes.HasPrefix(f.Raw, bom) {
		f.BOM = len(bom)
	}
	return f
}

// scan looks for the end of the frame from where it last stopped, and reports
// whether the buffer holds it.
func (s *Scanner) scan() bool {
	for s.end == 0 {
		if s.splitCR && s.next < len(s.buf) {
			if s.buf[s.next] == '\n' {
				s.next++
				s.line++
			}
			s.splitCR = false
		}
		s.cr = seek(s.buf, max(s.cr, s.next), '\r')
		s.lf = seek(s.buf, max(s.lf, s.next), '\n')
		i := min(s.cr, s.lf)
		if i == len(s.buf) {
			return false
		}
		blank := i == s.line ||
			s.first && s.line == s.start && bytes.Equal(s.buf[s.line:i], bom)
		s.next = i + 1
		if s.buf[i] == '\r' {
			switch {
			case s.next == len(s.buf):
				// Do not wait for an LF. Behind a blank line it becomes a
				// frame of its own, which is harmless: one more blank line.
				s.splitCR = !blank
			case s.buf[s.next] == '\n':
				s.next++
			}
		}
		s.line = s.next
		if blank {
			s.end = s.next
		}
	}
	return true
}

// compact moves what is buffered to the front of the buffer.
func (s *Scanner) compact() {
	if s.start == 0 {
		return
	}
	n := copy(s.buf, s.buf[s.start:])
	s.buf = s.buf[:n]
	s.line -= s.start
	s.next -= s.start
	s.cr -= s.start
	s.lf -= s.start
	s.end = max(0, s.end-s.start)
	s.start = 0
}

// grow makes the buffer larger, to n bytes at least.
func (s *Scanner) grow(n int) {
	grown := make([]byte, len(s.buf), max(minBuffer, 2*cap(s.buf), n))
	copy(grown, s.buf)
	s.buf = grown
}

// fill reads once, behind what is buffered, and makes room for it first.
func (s *Scanner) fill() {
	s.compact()
	switch {
	case s.fast && cap(s.buf) < fastBuffer:
		s.grow(fastBuffer)
	case len(s.buf) == cap(s.buf):
		s.grow(0)
	}
	for range maxEmptyReads {
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		s.fast = s.fast || len(s.buf) == cap(s.buf)
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

func (s *Scanner) maxFrame() int {
	if s.MaxFrame > 0 {
		return s.MaxFrame
	}
	return DefaultMaxFrame
}
