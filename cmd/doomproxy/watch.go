package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doomproxy/doomproxy/simulate"
	"github.com/doomproxy/doomproxy/sseframe"
)

// watched is how many frames, or requests, can be taken down before somebody
// reads them. Past it those who send wait.
const watched = 4096

// frame is one frame of a stream.
type frame struct {
	at  time.Time
	raw []byte
}

// watcher looks over the shoulder of the simulated upstream.
type watcher struct {
	next     func(ordinal int, req *simulate.Request) simulate.Scenario
	attempts chan *attempt
	over     atomic.Bool // nobody looks any more
	running  sync.WaitGroup
}

// attempt is one request as the upstream sees it.
type attempt struct {
	*simulate.Request
	// frames are those sent, as they are sent. It is closed when the answer has
	// ended; from then on gone is set, if the connection was closed before that.
	frames chan frame
	gone   time.Time

	begun time.Time // when the write under way was begun
	known int       // bytes of the reply that are in frames
}

func newWatcher(script func(int, *simulate.Request) simulate.Scenario) *watcher {
	return &watcher{next: script, attempts: make(chan *attempt, watched)}
}

// script is for simulate.Server.
func (w *watcher) script(ordinal int, req *simulate.Request) simulate.Scenario {
	sc := w.next(ordinal, req)
	if w.over.Load() {
		return sc
	}
	a := &attempt{Request: req, frames: make(chan frame, watched)}
	sc.Before = func(int) {
		a.take()
		a.begun = time.Now()
	}
	w.running.Go(func() {
		gone := req.Gone
		for ended := false; !ended; {
			select {
			case <-gone:
				a.gone, gone = time.Now(), nil
			case <-req.Done:
				ended = true
			}
		}
		a.take()
		close(a.frames)
	})
	w.attempts <- a
	return sc
}

// take takes down what was sent since the last time: one frame, since each is
// written by itself.
func (a *attempt) take() {
	sent := a.Reply()[a.known:]
	if len(sent) == 0 {
		return
	}
	a.known += len(sent)
	select {
	case a.frames <- frame{a.begun, sent}:
	case <-a.Gone:
		// Nobody may be there to read it, but there is room in all likelihood.
		select {
		case a.frames <- frame{a.begun, sent}:
		default:
		}
	}
}

// wait returns when the watcher's goroutines have ended.
func (w *watcher) wait() { w.running.Wait() }

// client is a request and its answer, as the agent sees them.
type client struct {
	asked  time.Time
	body   string
	frames chan frame    // closed when the answer has ended
	err    error         // how it ended, once frames is closed; nil for a regular end
	ended  chan struct{} // closed after frames
}

// ask sends a request for a response and reads the answer frame by frame.
func ask(ctx context.Context, base, body string) *client {
	c := &client{asked: time.Now(), body: body, frames: make(chan frame, watched), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer close(c.frames)
		c.err = c.read(ctx, base)
	}()
	return c
}

func (c *client) read(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/responses", strings.NewReader(c.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "doomproxy-demo")
	resp, err := direct().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // for the message alone
		return fmt.Errorf("status %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	var s sseframe.Scanner
	s.Reset(resp.Body)
	for {
		f, err := s.Next()
		if err == io.EOF { //nolint:errorlint // the scanner returns its reader's error as it is
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case c.frames <- frame{time.Now(), bytes.Clone(f.Raw)}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// direct returns a client for addresses of this machine: it asks no proxy and
// keeps no connection.
func direct() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}
