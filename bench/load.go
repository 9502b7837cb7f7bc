package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// requestBody is the smallest request that doomproxy protects.
const requestBody = `{"model":"m","stream":true,"input":"hi"}`

// conn is a client's connection.
type conn struct {
	net.Conn
	in   *bufio.Reader
	port string
	buf  []byte
	tail []byte // of the last piece, for what is cut in two
}

func dial(port string) (*conn, error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 32<<10), port: port, buf: make([]byte, 32<<10)}, nil
}

// ask sends a request for a stream and returns its body.
func (c *conn) ask(p plan) (io.Reader, error) {
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
		pathStreams, c.port, headerStream, p, len(requestBody), requestBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("got status %d", resp.StatusCode)
	}
	if len(resp.TransferEncoding) == 0 {
		return nil, fmt.Errorf("the answer is not chunked")
	}
	return resp.Body, nil
}

// drain reads a stream to its end and returns the number of its events. each, if
// not nil, is called for each piece that comes.
func (c *conn) drain(body io.Reader, each func(piece []byte)) (events int, err error) {
	newline := false // the last piece ended in one
	for {
		n, err := body.Read(c.buf)
		piece := c.buf[:n]
		events += bytes.Count(piece, []byte("\n\n"))
		if newline && n > 0 && piece[0] == '\n' {
			events++
		}
		if n > 0 {
			newline = piece[n-1] == '\n' && (n < 2 || piece[n-2] != '\n')
			if each != nil {
				each(piece)
			}
		}
		if err == io.EOF { //nolint:errorlint // it is bare
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
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
	requests, events int
	took             time.Duration
	latency          []time.Duration // of events that tell when they were sent
}

// closedLoop has clients ask for one stream after the other.
func closedLoop(port string, clients int, each time.Duration, p func(client, n int) plan) (load, error) {
	var mu sync.Mutex
	var sum load
	start := time.Now()
	err := together(clients, func(i int) error {
		c, err := dial(port)
		if err != nil {
			return err
		}
		defer c.Close()
		requests, events := 0, 0
		for ; time.Since(start) < each; requests++ {
			body, err := c.ask(p(i, requests))
			if err != nil {
				return err
			}
			n, err := c.drain(body, nil)
			if err != nil {
				return err
			}
			events += n
		}
		mu.Lock()
		defer mu.Unlock()
		sum.requests += requests
		sum.events += events
		return nil
	})
	sum.took = time.Since(start)
	return sum, err
}

// paced has clients take one stream each, at its pace, and looks how late it is.
func paced(port string, clients int, each, pace time.Duration) (load, error) {
	var mu sync.Mutex
	var sum load
	frames := int(each / pace)
	start := time.Now()
	err := together(clients, func(i int) error {
		c, err := dial(port)
		if err != nil {
			return err
		}
		defer c.Close()
		latency := make([]time.Duration, 0, frames)
		body, err := c.ask(plan{frames: frames, batch: 1, pace: pace, id: int64(i)})
		if err != nil {
			return err
		}
		events, err := c.drain(body, func(piece []byte) {
			now := time.Now()
			for rest := piece; ; {
				at := bytes.Index(rest, []byte(marker))
				if at < 0 || len(rest) < at+len(marker)+stampLen {
					return // a stamp that is cut in two is left out
				}
				rest = rest[at+len(marker):]
				if sent, err := strconv.ParseInt(string(rest[:stampLen]), 10, 64); err == nil {
					latency = append(latency, now.Sub(time.Unix(0, sent)))
				}
			}
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		sum.requests++
		sum.events += events
		sum.latency = append(sum.latency, latency...)
		return nil
	})
	sum.took = time.Since(start)
	return sum, err
}

// open opens streams that stay open, once each has sent something.
func open(port string, n int, id int64) (all []*conn, err error) {
	var mu sync.Mutex
	const workers = 64
	err = together(workers, func(w int) error {
		for i := w; i < n; i += workers {
			c, err := dial(port)
			if err != nil {
				return err
			}
			c.buf = c.buf[:512:512]
			body, err := c.ask(plan{frames: -1, batch: 1, id: id + int64(i)})
			if err == nil {
				_, err = body.Read(c.buf)
			}
			if err != nil {
				c.Close()
				return err
			}
			mu.Lock()
			all = append(all, c)
			mu.Unlock()
		}
		return nil
	})
	return all, err
}

// aborted opens a stream, leaves it, and returns how long the upstream was kept
// in the dark.
func (b *bench) aborted(port string, id int64) (time.Duration, error) {
	all, err := open(port, 1, id)
	if err != nil {
		return 0, err
	}
	left := time.Now()
	all[0].Close()
	for time.Since(left) < 5*time.Second {
		text, err := b.askUpstream(fmt.Sprintf("/left/%d", id))
		if err != nil {
			return 0, err
		}
		if at, err := strconv.ParseInt(text, 10, 64); err == nil {
			return time.Unix(0, at).Sub(left), nil
		}
		time.Sleep(time.Millisecond)
	}
	return 0, fmt.Errorf("the upstream was not left within 5 s")
}

// askUpstream asks the upstream something, past all proxies.
func (b *bench) askUpstream(path string) (string, error) {
	resp, err := http.Get("http://127.0.0.1:" + b.upstream + path) //nolint:noctx // of this machine
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// cut asks for a stream that loops once, and returns how long it took from the
// cut, as far as the client sees it, to the next attempt's first event.
func cut(port string, id int64) (gap time.Duration, err error) {
	c, err := dial(port)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	body, err := c.ask(plan{frames: 1, batch: 1, loops: true, id: id})
	if err != nil {
		return 0, err
	}
	var at time.Time
	_, err = c.drain(body, func(piece []byte) {
		switch {
		case at.IsZero() && bytes.Contains(piece, []byte(": doomproxy resample=1")):
			at = time.Now()
		case !at.IsZero() && gap == 0:
			gap = time.Since(at)
		}
	})
	if err == nil && gap == 0 {
		err = fmt.Errorf("there was no cut")
	}
	return gap, err
}
