package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The upstream is a plain TCP server, so that it costs little beside what is
// measured. What a stream is like stands in a header of the request, which all
// targets pass on.
const (
	headerStream = "X-Bench"
	// marker stands in front of the time, in nanoseconds, at which a frame was sent. It
	// is a member that some APIs pad events with, so that no detector reads it.
	marker   = "\"obfuscation\":\""
	stampLen = 19 // digits of such a time, until the year 2286
	// reminder is a part of what doomproxy tells an attempt that follows a cut.
	reminder = "had begun to repeat itself"
)

// plan is what a stream is like.
type plan struct {
	frames int           // events between the first two and the last two; -1: none more, ever
	batch  int           // events in one write
	pace   time.Duration // between two writes
	loops  bool          // it reports a loop, unless it is told of one
	id     int64         // for the time at which it was left
}

func (p plan) String() string {
	return fmt.Sprintf("frames=%d batch=%d pace=%d loops=%t id=%d", p.frames, p.batch, p.pace, p.loops, p.id)
}

func parsePlan(s string) (p plan, err error) {
	_, err = fmt.Sscanf(s, "frames=%d batch=%d pace=%d loops=%t id=%d", &p.frames, &p.batch, &p.pace, &p.loops, &p.id)
	if err == nil && p.batch < 1 {
		err = fmt.Errorf("batch=%d: want 1 or more", p.batch)
	}
	return p, err
}

const (
	created = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_0123456789abcdef\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n" +
		"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"id\":\"rs_0123456789abcdef\",\"type\":\"reasoning\",\"summary\":[]}}\n\n"
	completed = "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"sequence_number\":9000001,\"output_index\":0,\"item\":{\"id\":\"rs_0123456789abcdef\",\"type\":\"reasoning\",\"summary\":[]}}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":9000003,\"response\":{\"id\":\"resp_0123456789abcdef\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"completed\",\"model\":\"m\",\"output\":[{\"id\":\"msg_0123456789abcdef\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}],\"usage\":{\"input_tokens\":9,\"output_tokens\":9}}}\n\n"
	report = "event: response.doom_loop_check\ndata: {\"sequence_number\":30,\"type\":\"response.doom_loop_check\",\"doom_loop_check\":{\"triggers\":[\"tail_repetition:8@thinking\"]}}\n\n"
	// around a stream's own events.
	extraFrames = 4
)

// textLen is the text of a delta: a few tokens. The whole event has some 230 bytes.
const textLen = 24

// deltas are events of a model that thinks, no two alike, in which nothing repeats.
func deltas(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same in each run
	all := make([][]byte, n)
	for i := range all {
		var text strings.Builder
		for text.Len() < textLen {
			text.WriteByte("etaoinshrdlu    "[r.IntN(16)])
		}
		all[i] = fmt.Appendf(nil, "event: response.reasoning_text.delta\ndata: {\"type\":\"response.reasoning_text.delta\",\"sequence_number\":%d,\"item_id\":\"rs_0123456789abcdef\",\"output_index\":0,\"delta\":\"%s\",%s%0*d\"}\n\n",
			i+2, text.String(), marker, stampLen, 0)
	}
	return all
}

// manyDeltas is how many there are: more text than a detector looks back on.
const manyDeltas = 8192

// upstream serves streams.
type upstream struct {
	deltas [][]byte

	mu   sync.Mutex
	left map[int64]int64 // when streams were left, by id, in Unix nanoseconds
}

func newUpstream() *upstream {
	return &upstream{deltas: deltas(manyDeltas), left: map[int64]int64{}}
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
			u.handle(conn) // an error is the end of a connection
		}()
	}
}

// handle answers the requests of one connection.
func (u *upstream) handle(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if req.Method == http.MethodGet {
			if u.tell(conn, req.URL.Path) != nil {
				return
			}
			continue
		}
		p, err := parsePlan(req.Header.Get(headerStream))
		if err != nil {
			return
		}
		p.loops = p.loops && !bytes.Contains(body, []byte(reminder))
		if u.stream(conn, in, p) != nil {
			return
		}
	}
}

// tell says when a stream was left, or "-".
func (u *upstream) tell(w io.Writer, path string) error {
	id, _ := strconv.ParseInt(strings.TrimPrefix(path, "/left/"), 10, 64)
	u.mu.Lock()
	text := "-"
	if at, ok := u.left[id]; ok {
		text = strconv.FormatInt(at, 10)
	}
	u.mu.Unlock()
	_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	return err
}

// stream answers with one.
func (u *upstream) stream(conn net.Conn, in *bufio.Reader, p plan) error {
	out := &chunks{w: conn}
	out.begin("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	out.add([]byte(created))
	if p.loops {
		for i := range 20 {
			out.add(u.deltas[i])
		}
		out.add([]byte(report))
	}
	if p.loops || p.frames < 0 {
		if err := out.send(); err != nil {
			return err
		}
		in.Peek(1) //nolint:errcheck // it is left, one way or the other
		u.mu.Lock()
		u.left[p.id] = time.Now().UnixNano()
		u.mu.Unlock()
		return io.EOF
	}
	first := int(p.id) * 7919 // streams do not go in step
	var tick *time.Ticker
	if p.pace > 0 {
		tick = time.NewTicker(p.pace)
		defer tick.Stop()
	}
	for i := 0; i < p.frames; i += p.batch {
		if tick != nil {
			<-tick.C
		}
		for j := i; j < min(i+p.batch, p.frames); j++ {
			out.add(u.deltas[(first+j)%len(u.deltas)])
		}
		if tick != nil {
			out.stamp(time.Now())
		}
		if i+p.batch < p.frames {
			if err := out.send(); err != nil {
				return err
			}
		}
	}
	out.add([]byte(completed))
	return out.end()
}

// chunks writes a chunked body, each chunk with one write.
type chunks struct {
	w    io.Writer
	head []byte // what goes out before the chunk
	buf  []byte
	data []byte
}

func (c *chunks) begin(head string) { c.head = append(c.head, head...) }

func (c *chunks) add(frame []byte) { c.data = append(c.data, frame...) }

// stamp puts the time into the frames that are to be sent.
func (c *chunks) stamp(now time.Time) {
	var digits [stampLen]byte
	strconv.AppendInt(digits[:0], now.UnixNano(), 10)
	for rest := c.data; ; {
		i := bytes.Index(rest, []byte(marker))
		if i < 0 {
			return
		}
		rest = rest[i+len(marker):]
		copy(rest, digits[:])
	}
}

func (c *chunks) send() error {
	c.buf = append(c.buf[:0], c.head...)
	if len(c.data) > 0 {
		c.buf = strconv.AppendInt(c.buf, int64(len(c.data)), 16)
		c.buf = append(c.buf, "\r\n"...)
		c.buf = append(append(c.buf, c.data...), "\r\n"...)
	}
	c.head, c.data = c.head[:0], c.data[:0]
	_, err := c.w.Write(c.buf)
	return err
}

func (c *chunks) end() error {
	if len(c.data) > 0 {
		c.buf = strconv.AppendInt(c.buf[:0], int64(len(c.data)), 16)
		c.head = append(append(append(append(c.head, c.buf...), "\r\n"...), c.data...), "\r\n"...)
		c.data = c.data[:0]
	}
	c.head = append(c.head, "0\r\n\r\n"...)
	return c.send()
}
