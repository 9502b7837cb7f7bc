package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
)

// Limits of a server that says nothing else.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 1 << 20
)

// How long is waited for what needs next to no time, unless a client takes
// nothing: for requests that were cancelled to be logged, and for the last bytes
// of those that had just ended by themselves.
const (
	dropTime  = 2 * time.Second
	flushTime = 100 * time.Millisecond
)

// server is an HTTP server that is running.
type server struct {
	http    *http.Server
	log     *slog.Logger
	running crowd                   // requests
	drop    context.CancelCauseFunc // ends them
	ended   chan struct{}
}

// newServer returns a server of h to be started, with the usual limits.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		IdleTimeout:       idleTimeout,
	}
}

// start serves h, which it completes and keeps, on l, with TLS if it is
// configured. Should that end before stop, failed gets the reason; it needs room
// for one error of each server. There is no bound on how long a request or an
// answer may take: models think long.
func start(l net.Listener, h *http.Server, log *slog.Logger, failed chan<- error) *server {
	base, drop := context.WithCancelCause(context.Background())
	s := &server{http: h, log: log, drop: drop, ended: make(chan struct{})}
	handler := h.Handler
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.enter()
		defer s.running.leave()
		if base.Err() != nil { // nobody waits for this one any more
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	})
	h.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	h.BaseContext = func(net.Listener) context.Context { return base }
	serve := h.Serve
	if h.TLSConfig != nil {
		serve = func(l net.Listener) error { return h.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(s.ended)
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
	}()
	return s
}

// stop closes the listener and returns when all requests have ended. Those that
// still run when grace ends are dropped, so that none looks complete.
func (s *server) stop(grace context.Context) {
	s.http.Shutdown(grace) //nolint:errcheck // what it waited for in vain is looked at below
	select {
	case <-s.running.gone(): // also those whose connection is no longer the server's
	case <-grace.Done():
	}
	if n := s.running.size(); n > 0 {
		s.log.Info("the grace is over, what still runs is dropped", "running", n)
	}
	s.drop(proxy.ErrCancelled)
	within(dropTime, s.running.gone())
	flushed, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	s.http.Shutdown(flushed) //nolint:errcheck // see above
	s.http.Close()           //nolint:errcheck // of connections that are given up
	within(dropTime, s.running.gone())
	<-s.ended
}

// stopWithin is stop with a grace of d.
func (s *server) stopWithin(d time.Duration) {
	grace, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	s.stop(grace)
}

// within waits for done, but for d at most.
func within(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// crowd counts what runs, and tells when nothing does. The zero value is empty.
// It is safe for concurrent use.
type crowd struct {
	mu    sync.Mutex // guards all below
	n     int
	empty chan struct{} // closed when n falls to 0; nil while nobody waits for that
}

func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.empty != nil {
		close(c.empty)
		c.empty = nil
	}
}

func (c *crowd) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// gone returns a channel that is closed once nothing runs.
func (c *crowd) gone() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		empty := make(chan struct{})
		close(empty)
		return empty
	}
	if c.empty == nil {
		c.empty = make(chan struct{})
	}
	return c.empty
}
