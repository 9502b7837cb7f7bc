package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// shutdownGrace is how long a running stream may go on after the first
	// signal. Container platforms kill after the same 30 s by default.
	shutdownGrace = 30 * time.Second

	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 1 << 20
)

// listen opens a TCP listener. key is where its address was set.
func listen(ctx context.Context, key, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %s is in use by another process; stop it, or choose another address: %w", key, address, err)
	case err != nil:
		return nil, fmt.Errorf("%s: cannot listen on %s: %w", key, address, err)
	}
	return l, nil
}

// origin is the URL of a listener as it is reached from this machine.
func origin(l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + l.Addr().String()
	}
	return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
}

// loopback reports whether only this machine reaches a listener.
func loopback(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// server is an HTTP server that is running.
type server struct {
	http    http.Server
	running atomic.Int64 // requests
	ended   chan struct{}
}

// start serves h on l. Should that end before stop, failed gets the reason; it
// needs room for one error of each server. There is no bound on how long a
// request or an answer may take: models think long.
func start(l net.Listener, h http.Handler, log *slog.Logger, failed chan<- error) *server {
	s := &server{ended: make(chan struct{})}
	s.http = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.running.Add(1)
			defer s.running.Add(-1)
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
	}()
	return s
}

// stop closes the listener and returns when all requests have ended. Those that
// still run after the grace are dropped, so that none looks complete.
func (s *server) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close() //nolint:errcheck // of connections that are given up
		// What was dropped still has a log record to write.
		for i := 0; i < 100 && s.running.Load() > 0; i++ {
			time.Sleep(10 * time.Millisecond)
		}
	}
	<-s.ended
}
