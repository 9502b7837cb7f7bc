package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// headerPlan tells the upstream what a stream is to be like. All targets pass it on.
	headerPlan = "X-Bench"
	// pathLeft and an id is where the upstream says when that stream was left.
	pathLeft = "/left/"
	// reminder is a part of what doomproxy tells an attempt that follows a cut.
	reminder = "had begun to repeat itself"
)

// errLeft ends a connection whose stream was not to end.
var errLeft = errors.New("the stream was left")

// endless is a number of deltas that no run gets to the end of.
const endless = 1 << 40

// plan is what a stream is like. It opens with two events; then come the deltas,
// the last quarter of them text and all others reasoning; four more events, of which
// the second stands between reasoning and text, make 6 in all.
type plan struct {
	deltas int
	batch  int           // deltas in one write
	pace   time.Duration // between two writes; 0: as fast as they can be written
	loops  bool          // a loop is reported after 20 deltas, unless this is the attempt after a cut
	silent bool          // nothing comes after three deltas, until the stream is left
	id     int64         // streams with other numbers have other text; for the time at which it was left
}

// aroundDeltas is the number of events besides the deltas.
const aroundDeltas = 6

func (p plan) String() string {
	return fmt.Sprintf("%d,%d,%d,%t,%t,%d", p.deltas, p.batch, p.pace, p.loops, p.silent, p.id)
}

func parsePlan(s string) (p plan, err error) {
	fields := strings.Split(s, ",")
	if len(fields) != 6 {
		return p, fmt.Errorf("%s: got %d fields, want 6", headerPlan, len(fields))
	}
	number := func(i int) int64 {
		n, e := strconv.ParseInt(fields[i], 10, 64)
		err = errors.Join(err, e)
		return n
	}
	p.deltas, p.batch, p.pace = int(number(0)), int(number(1)), time.Duration(number(2))
	p.loops, p.silent, p.id = fields[3] == "true", fields[4] == "true", number(5)
	if err == nil && (p.batch < 1 || p.pace < 0 || p.id < 0) {
		err = fmt.Errorf("%s: %s: want a batch of 1 or more, and no negative number", headerPlan, s)
	}
	return p, err
}

// upstream serves streams. It is a plain TCP server of events that were made before,
// so that it costs little beside what is measured.
type upstream struct {
	*frames

	mu   sync.Mutex
	left map[int64]int64 // when silent streams were left, by id, in Unix nanoseconds
}

func newUpstream() *upstream {
	return &upstream{frames: newFrames(), left: map[int64]int64{}}
}

// serve accepts connections until the listener is closed.
func (u *upstream) serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for u.handle(conn, in) == nil { // an error is the end of a connection
			}
		}()
	}
}

// handle answers one request.
func (u *upstream) handle(conn net.Conn, in *bufio.Reader) error {
	req, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	if id, ok := strings.CutPrefix(req.URL.Path, pathLeft); ok {
		return u.tell(conn, id)
	}
	p, err := parsePlan(req.Header.Get(headerPlan))
	if err != nil {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		return err
	}
	p.loops = p.loops && !bytes.Contains(body, []byte(reminder))
	s := &stream{w: conn}
	s.head("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	if p.silent || p.loops {
		return u.silence(s, in, p)
	}
	return u.answer(s, p)
}

// tell says when a stream was left, or "-".
func (u *upstream) tell(w io.Writer, id string) error {
	text := "-"
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		u.mu.Lock()
		if at, ok := u.left[n]; ok {
			text = strconv.FormatInt(at, 10)
		}
		u.mu.Unlock()
	}
	_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	return err
}

// begin of text in the pools: streams do not go in step.
func (p *plan) first() int { return int(p.id % poolLen * 7919 % poolLen) }

// silence begins a stream and waits until it is left.
func (u *upstream) silence(s *stream, in *bufio.Reader, p plan) error {
	n := 3
	if p.loops {
		n = 20
	}
	s.add(&u.created)
	s.add(&u.thought)
	for i := range n {
		s.add(&u.thoughts[(p.first()+i)%poolLen])
	}
	if p.loops {
		s.add(&u.check)
	}
	if err := s.send(); err != nil {
		return err
	}
	if _, err := in.Peek(1); err == nil {
		return errors.New("a request came before the answer's end")
	}
	if p.silent {
		u.mu.Lock()
		u.left[p.id] = time.Now().UnixNano()
		u.mu.Unlock()
	}
	return errLeft
}

// answer sends a stream to its end.
func (u *upstream) answer(s *stream, p plan) error {
	var tick *time.Ticker
	s.add(&u.created)
	s.add(&u.thought)
	if p.pace > 0 {
		if err := s.send(); err != nil {
			return err
		}
		// Streams that begin together would send together, too.
		time.Sleep(p.pace * time.Duration(p.first()) / poolLen)
		tick = time.NewTicker(p.pace)
		defer tick.Stop()
	}
	thoughts := p.deltas - p.deltas/4
	for i := range p.deltas {
		if tick != nil && i%p.batch == 0 {
			<-tick.C
			s.now(time.Now())
		}
		pool := u.thoughts
		if i >= thoughts {
			pool = u.texts
		}
		if i == thoughts {
			u.between(s)
		}
		s.add(&pool[(p.first()+i)%poolLen])
		if (i+1)%p.batch == 0 && i+1 < p.deltas {
			if err := s.send(); err != nil {
				return err
			}
		}
	}
	if thoughts == p.deltas {
		u.between(s)
	}
	s.add(&u.messageDone)
	s.add(&u.completed)
	return s.end()
}

func (u *upstream) between(s *stream) {
	s.add(&u.thoughtDone)
	s.add(&u.message)
}

// chunkHead is a chunk's size in six digits, which are filled in when the chunk is
// sent.
const chunkHead = "000000\r\n"

// stream writes events in chunks, each with one write.
type stream struct {
	w      io.Writer
	buf    []byte
	chunk  int // where it begins in buf
	number int // of the next event
	stamp  []byte
}

// head puts an answer's head in front of the first chunk.
func (s *stream) head(text string) {
	s.buf = append(s.buf[:0], text...)
	s.chunk = len(s.buf)
	s.buf = append(s.buf, chunkHead...)
	s.stamp = bytes.Repeat([]byte("0"), stampLen)
}

// now is the time that deltas tell from here on. The system's clock is the same for
// all processes, and only a step of it while a frame is on its way would be seen.
func (s *stream) now(t time.Time) { s.stamp = strconv.AppendInt(s.stamp[:0], t.UnixNano(), 10) }

func (s *stream) add(e *event) {
	s.buf = e.append(s.buf, s.number, s.stamp)
	s.number++
}

func (s *stream) send() error { return s.write("") }

func (s *stream) end() error { return s.write("0\r\n\r\n") }

func (s *stream) write(last string) error {
	const digits = "0123456789abcdef"
	size := len(s.buf) - s.chunk - len(chunkHead)
	for i := s.chunk + len("000000") - 1; i >= s.chunk; i-- {
		s.buf[i] = digits[size&15]
		size >>= 4
	}
	s.buf = append(append(s.buf, "\r\n"...), last...)
	_, err := s.w.Write(s.buf)
	s.buf, s.chunk = append(s.buf[:0], chunkHead...), 0
	return err
}
