package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pathResponses is the path that doomproxy protects, and body the smallest request.
	pathResponses = "/v1/responses"
	requestBody   = `{"model":"m","stream":true,"input":"hi"}`
	// wait is how long a client waits for the next bytes.
	wait = 30 * time.Second
)

// conn is a client's connection.
type conn struct {
	net.Conn
	in   *bufio.Reader
	buf  []byte
	body io.Reader // of the answer
}

// dial connects to a port. What is read at a time is at most size bytes.
func dial(ctx context.Context, port string, size int) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, size), buf: make([]byte, size)}, nil
}

// readSize is what a client reads at a time if there are few.
const readSize = 32 << 10

// ask sends a request for a stream and reads the head of the answer.
func (c *conn) ask(p plan) error { return c.post(p, requestBody) }

func (c *conn) post(p plan, body string) error {
	_, err := fmt.Fprintf(c, "POST "+pathResponses+" HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+headerPlan+": %s\r\nContent-Length: %d\r\n\r\n%s",
		c.RemoteAddr(), p, len(body), body)
	if err != nil {
		return err
	}
	return c.head()
}

func (c *conn) head() error {
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil) //nolint:bodyclose // the connection is
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("got status %d, want 200", resp.StatusCode)
	}
	c.body = resp.Body
	return nil
}

// read returns the next piece of the answer; it holds until the next call.
func (c *conn) read() ([]byte, error) {
	n, err := c.body.Read(c.buf)
	return c.buf[:n], err
}

// drain reads an answer to its end. each is called for each piece that comes.
func (c *conn) drain(each func(piece []byte)) error {
	for {
		piece, err := c.read()
		if len(piece) > 0 {
			each(piece)
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// counter counts the events in what comes in pieces. Events end in a blank line.
type counter struct {
	events  int
	newline bool // the last piece ended in one
}

func (c *counter) add(piece []byte) (events int) {
	if c.newline && piece[0] == '\n' {
		events, piece = 1, piece[1:]
	}
	events += bytes.Count(piece, []byte("\n\n"))
	end := len(piece) - len(bytes.TrimRight(piece, "\n"))
	c.newline = end%2 == 1
	c.events += events
	return events
}

// together runs n clients until they end, and returns their first error.
func together(n int, client func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		wg.Go(func() {
			if err := client(i); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// load is what some clients did.
type load struct {
	requests, events             int // in all
	requestsInTime, eventsInTime int // in the time that was given
	latency                      []time.Duration
	cpu                          time.Duration // that it took the target
}

// closedLoop has clients ask for one stream after the other for some time. What is
// under way then is waited for.
func (p *probe) closedLoop(ctx context.Context, clients int, each time.Duration, next func(client, n int) plan) (load, error) {
	var over atomic.Bool
	defer time.AfterFunc(each, func() { over.Store(true) }).Stop()
	var mu sync.Mutex
	var sum load
	before, err := p.cpu()
	if err != nil {
		return sum, err
	}
	err = together(clients, func(i int) error {
		c, err := dial(ctx, p.port, readSize)
		if err != nil {
			return err
		}
		defer c.Close()
		var l load
		for n := 0; !over.Load() && ctx.Err() == nil; n++ {
			if err := c.ask(next(i, n)); err != nil {
				return err
			}
			var count counter
			err := c.drain(func(piece []byte) {
				events := count.add(piece)
				if !over.Load() {
					l.eventsInTime += events
				}
			})
			if err != nil {
				return err
			}
			l.requests++
			l.events += count.events
			if !over.Load() {
				l.requestsInTime++
			}
		}
		mu.Lock()
		defer mu.Unlock()
		sum.requests += l.requests
		sum.events += l.events
		sum.requestsInTime += l.requestsInTime
		sum.eventsInTime += l.eventsInTime
		return nil
	})
	if err != nil {
		return sum, err
	}
	after, err := p.cpu()
	sum.cpu = after - before
	return sum, err
}

// open opens streams that do not end, once each has sent something.
func (p *probe) open(ctx context.Context, n int, like plan) (all []*conn, err error) {
	size := readSize
	if n > 100 {
		size = 4 << 10 // many take much memory, and little is read at a time
	}
	first := p.ids(n)
	all = make([]*conn, n)
	const workers = 64
	err = together(workers, func(w int) error {
		for i := w; i < n; i += workers {
			c, err := dial(ctx, p.port, size)
			if err != nil {
				return fmt.Errorf("stream %d of %d: %w", i+1, n, err)
			}
			all[i] = c
			own := like
			own.id = first + int64(i)
			err = c.ask(own)
			if err == nil {
				_, err = c.read()
			}
			if err != nil {
				return fmt.Errorf("stream %d of %d: %w", i+1, n, err)
			}
		}
		return nil
	})
	if err != nil {
		closeAll(all)
		return nil, err
	}
	return all, nil
}

func closeAll(all []*conn) {
	for _, c := range all {
		if c != nil {
			c.Close()
		}
	}
}

// steady watches streams that do not end for some time, after they have settled.
func (p *probe) steady(ctx context.Context, n int, like plan, settle, each time.Duration) (load, error) {
	var l load
	like.deltas = endless
	all, err := p.open(ctx, n, like)
	if err != nil {
		return l, err
	}
	var watched, over atomic.Bool
	var mu sync.Mutex
	ended := make(chan error, 1)
	go func() {
		ended <- together(n, func(i int) error {
			var count counter
			var latency []time.Duration
			c := all[i]
			for {
				piece, err := c.read()
				if watched.Load() && len(piece) > 0 {
					latency = append(latency, delays(piece, time.Now())...)
					count.add(piece)
				}
				if over.Load() {
					break
				}
				if err != nil {
					return fmt.Errorf("a stream ended: %w", err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			l.events += count.events
			l.latency = append(l.latency, latency...)
			return nil
		})
	}()
	pause(ctx, settle)
	before, err := p.cpu()
	watched.Store(true)
	pause(ctx, each)
	watched.Store(false)
	after, err2 := p.cpu()
	over.Store(true)
	closeAll(all)
	l.cpu = after - before
	return l, errors.Join(err, err2, <-ended, ctx.Err())
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// delays returns how long ago the deltas of a piece were sent. A stamp that is cut
// in two is left out.
func delays(piece []byte, now time.Time) (all []time.Duration) {
	for {
		i := bytes.Index(piece, []byte(marker))
		if i < 0 || len(piece) < i+len(marker)+stampLen {
			return all
		}
		piece = piece[i+len(marker):]
		if sent, err := strconv.ParseInt(string(piece[:stampLen]), 10, 64); err == nil {
			all = append(all, now.Sub(time.Unix(0, sent)))
		}
	}
}

// leaveLimit is how long the upstream is waited for that has not noticed.
const leaveLimit = 2 * time.Second

// leave opens a stream, leaves it, and returns how long the upstream went on, at most
// leaveLimit.
func (p *probe) leave(ctx context.Context) (time.Duration, error) {
	all, err := p.open(ctx, 1, plan{batch: 1, silent: true})
	if err != nil {
		return 0, err
	}
	id := p.lastID - 1
	left := time.Now()
	all[0].Close()
	for time.Since(left) < leaveLimit {
		at, err := p.leftAt(ctx, id)
		if err != nil {
			return 0, err
		}
		if !at.IsZero() {
			return at.Sub(left), nil
		}
		pause(ctx, time.Millisecond)
	}
	return leaveLimit, ctx.Err()
}

// leftAt asks the upstream, past all proxies, when a stream was left; zero: not yet.
func (b *bench) leftAt(ctx context.Context, id int64) (time.Time, error) {
	c, err := dial(ctx, b.upstream.port, readSize)
	if err != nil {
		return time.Time{}, err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET %s%d HTTP/1.1\r\nHost: %s\r\n\r\n", pathLeft, id, c.RemoteAddr()); err != nil {
		return time.Time{}, err
	}
	if err := c.head(); err != nil {
		return time.Time{}, err
	}
	text, err := io.ReadAll(c.body)
	if err != nil || string(text) == "-" {
		return time.Time{}, err
	}
	ns, err := strconv.ParseInt(string(text), 10, 64)
	return time.Unix(0, ns), err
}

// cut asks for a stream that loops once, and returns how long it took from the cut,
// as far as the client sees it, to the first event after it.
func (p *probe) cut(ctx context.Context, id int64) (gap time.Duration, err error) {
	c, err := dial(ctx, p.port, readSize)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.ask(plan{deltas: 4, batch: 1, loops: true, id: id}); err != nil {
		return 0, err
	}
	var at time.Time
	err = c.drain(func(piece []byte) {
		switch {
		case at.IsZero() && bytes.Contains(piece, []byte(": doomproxy resample=1")):
			at = time.Now()
		case !at.IsZero() && gap == 0:
			gap = time.Since(at)
		}
	})
	if err == nil && gap == 0 {
		err = errors.New("there was no cut")
	}
	return gap, err
}
