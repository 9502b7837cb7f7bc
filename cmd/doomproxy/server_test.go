package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
)

// running starts a server with a handler and sends it one request, whose answer
// nobody reads.
func running(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	s := start(l, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		h(w, r)
	})}, slog.New(slog.DiscardHandler), make(chan error, 1))
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	return s
}

// A handler that took over its connection has the grace, too, and is told to end
// after it.
func TestStopWaitsForUpgradedConnections(t *testing.T) {
	for name, test := range map[string]struct {
		takes, grace time.Duration
		want         error
	}{
		"ends by itself":    {50 * time.Millisecond, time.Minute, nil},
		"runs for too long": {time.Minute, 20 * time.Millisecond, proxy.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			cause := make(chan error, 1)
			s := running(t, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				select {
				case <-time.After(test.takes):
				case <-r.Context().Done():
				}
				cause <- context.Cause(r.Context())
			})
			s.stopWithin(test.grace)
			select {
			case err := <-cause:
				if !errors.Is(err, test.want) {
					t.Errorf("the request was ended by %v, want %v", err, test.want)
				}
			default:
				t.Error("the handler still runs")
			}
		})
	}
}

// A handler that is stuck in a write to a client that takes nothing ends with
// its connection.
func TestStopEndsStuckWrites(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := running(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				close(ended)
				panic(http.ErrAbortHandler)
			}
		}
	})
	s.stopWithin(0)
	select {
	case <-ended:
	default:
		t.Error("the handler still runs")
	}
}

func TestCrowd(t *testing.T) {
	var c crowd
	empty := func(gone <-chan struct{}) bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}
	if !empty(c.gone()) {
		t.Error("a new crowd is not empty")
	}
	c.enter()
	c.enter()
	one, other := c.gone(), c.gone()
	c.leave()
	if c.size() != 1 || empty(one) || empty(c.gone()) {
		t.Errorf("got size %d, empty: %v; want one left", c.size(), empty(one))
	}
	c.leave()
	if !empty(one) || !empty(other) || !empty(c.gone()) {
		t.Error("all have left and it is not empty")
	}
	c.enter()
	if empty(c.gone()) {
		t.Error("one has come back and it is empty")
	}
}
