package simulate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The client leaves; the handler has to return at once, whatever it is doing.
func TestServeClientLeaves(t *testing.T) {
	tests := []struct {
		name string
		sc   Scenario
		body string
	}{
		{"between frames", Scenario{Delay: time.Hour}, streamBody},
		{"hang after the end", Scenario{End: EndHang}, streamBody},
		{"hang after a few frames", Scenario{End: EndHang, Limit: 3}, streamBody},
		{"hang before the first", Scenario{End: EndHang, Frames: []string{}}, streamBody},
		{"silence after a loop", Scenario{Loop: &Loop{Deltas: 3}}, streamBody},
		{"endless loop", Scenario{Loop: &Loop{}, Delay: time.Millisecond}, streamBody},
		{"endless loop at full speed, nobody reads", Scenario{Loop: &Loop{}}, streamBody},
		{"plain, waiting", Scenario{Delay: time.Hour}, plainBody},
		{"plain, hanging", Scenario{End: EndHang}, plainBody},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, requests := serve(t, tt.sc)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				res, err := send(ctx, srv, http.MethodPost, "/v1/responses", tt.body, nil)
				if err != nil {
					return // left before the headers
				}
				defer func() { _ = res.Body.Close() }()
				_, _ = io.ReadFull(res.Body, make([]byte, 10))
				<-ctx.Done()
			}()
			req := await(t, "request", requests)
			if closed(req.Gone) || closed(req.Done) {
				t.Error("Gone or Done is closed already")
			}
			cancel()
			await(t, "Gone", req.Gone)
			await(t, "Done", req.Done)
			await(t, "client", answered)
		})
	}
}

// A script that blocks is an upstream slow to send its headers.
func TestServeClientLeavesScript(t *testing.T) {
	requests := make(chan *Request, 1)
	srv := start(t, &Server{Script: func(_ int, req *Request) Scenario {
		requests <- req
		<-req.Gone
		return Scenario{}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		res, err := send(ctx, srv, http.MethodPost, "/responses", streamBody, nil)
		if err == nil {
			_ = res.Body.Close()
		}
		failed <- err
	}()
	req := await(t, "request", requests)
	cancel()
	await(t, "Done", req.Done)
	if err := await(t, "client", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("client got %v, want canceled", err)
	}
	if n, _ := req.Sent(); n != 0 {
		t.Errorf("%d writes to a client that has gone", n)
	}
}

// leaver is a client that leaves at one write, as soon as it has the bytes, or
// (broken) whose connection fails at that write before anyone has noticed.
type leaver struct {
	*httptest.ResponseRecorder
	at     int
	broken bool
	leave  func()
	writes int
}

func (l *leaver) Write(p []byte) (int, error) { return l.WriteString(string(p)) }

func (l *leaver) WriteString(p string) (int, error) {
	l.writes++
	if l.writes == l.at && l.broken {
		return 0, io.ErrClosedPipe
	}
	if l.writes == l.at {
		l.leave()
		synctest.Wait() // until the server has noticed
	}
	return len(p), nil
}

// Gone is closed if the client leaves before it was sent all, and only then:
// one that closes its connection right after the terminal event has had all.
func TestServeGone(t *testing.T) {
	all := len(Scenario{}.Stream(0, []byte(streamBody)))
	tests := []struct {
		name   string
		sc     Scenario
		body   string
		at     int
		broken bool
		gone   bool
	}{
		{"stays", Scenario{}, streamBody, 0, false, false},
		{"first frame", Scenario{}, streamBody, 1, false, true},
		{"last frame but one", Scenario{}, streamBody, all - 1, false, true},
		{"last frame", Scenario{}, streamBody, all, false, false},
		{"last write fails", Scenario{}, streamBody, all, true, true},
		{"first write fails", Scenario{}, streamBody, 1, true, true},
		{"last frame, but more was to come", Scenario{End: EndHang}, streamBody, all, false, true},
		{"last frame of a loop", Scenario{Loop: &Loop{Deltas: 2}}, streamBody, 6, false, true},
		{"last raw frame", Scenario{Frames: []string{"a", ""}}, streamBody, 1, false, false},
		{"plain", Scenario{}, plainBody, 1, false, false},
		{"plain, write fails", Scenario{}, plainBody, 1, true, true},
		{"dropped", Scenario{Limit: 2, End: EndAbort}, streamBody, 0, false, false},
		{"refused", Scenario{End: EndRefuse}, streamBody, 0, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := &Server{Script: func(int, *Request) Scenario { return tt.sc }}
				w := &leaver{ResponseRecorder: httptest.NewRecorder(), at: tt.at, broken: tt.broken, leave: cancel}
				func() {
					defer func() {
						v := recover()
						if err, _ := v.(error); v != nil && !errors.Is(err, http.ErrAbortHandler) {
							t.Errorf("handler panics: %v", v)
						}
					}()
					s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/responses", strings.NewReader(tt.body)))
				}()
				cancel() // as net/http does when the handler has returned
				synctest.Wait()
				req := s.Requests()[0]
				if got := closed(req.Gone); got != tt.gone || !closed(req.Done) {
					t.Errorf("Gone is closed: %v, want %v; Done: %v", got, tt.gone, closed(req.Done))
				}
			})
		})
	}
}
