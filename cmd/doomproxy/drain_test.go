package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/simulate"
)

// The times of a shutdown that the test ends itself.
const (
	theDelay = time.Hour
	theGrace = 2 * time.Hour
)

// steps lets a test end the delay and the grace of a shutdown.
type steps map[time.Duration]chan struct{}

func newSteps() steps {
	return steps{theDelay: make(chan struct{}), theGrace: make(chan struct{}), 0: make(chan struct{})}
}

func (s steps) end(d time.Duration) { close(s[d]) }

// change is for begin.
func (s steps) change(t *testing.T) func(*app) {
	close(s[0])
	return func(a *app) {
		a.env = append(a.env, "DOOMPROXY_SHUTDOWN_GRACE="+theGrace.String())
		a.timeout = func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				select {
				case <-s[d]:
				case <-ctx.Done():
				case <-t.Context().Done():
				}
			}()
			return ctx, cancel
		}
	}
}

// gated is an upstream whose first so many streams send the second frame and all
// after it once they are told to. The others never do.
func gated(t *testing.T, finishing int) (sim *simulate.Server, base string, finish func()) {
	t.Helper()
	told := make(chan struct{})
	sim = &simulate.Server{Script: func(n int, req *simulate.Request) simulate.Scenario {
		return simulate.Scenario{Before: func(write int) {
			switch {
			case write != 1:
			case n < finishing:
				select {
				case <-told:
				case <-req.Gone:
				}
			default:
				<-req.Gone
			}
		}}
	}}
	srv := httptest.NewServer(sim)
	t.Cleanup(srv.Close)
	return sim, srv.URL + "/v1", func() { close(told) }
}

func (c *command) address(t *testing.T) string {
	t.Helper()
	return c.stdout.find(t, `listening +(\S+)`)
}

// wantRefused waits until no connection is accepted any more.
func wantRefused(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(time.Millisecond) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v of a new connection, want it refused", err)
		}
	}
}

func wantStatus(t *testing.T, url string, want int) {
	t.Helper()
	if got, _ := get(t, url); got != want {
		t.Errorf("got status %d of %s, want %d", got, url, want)
	}
}

// wantEnd waits for the end of a command, which has to be a regular one.
func (c *command) wantEnd(t *testing.T) {
	t.Helper()
	if code := report(&c.stderr, c.wait(t)); code != 0 {
		t.Errorf("got exit code %d, want 0; it printed:\n%s", code, &c.stderr)
	}
}

func TestDrain(t *testing.T) {
	const all, finishing = 100, 60
	sim, upstream, finish := gated(t, finishing)
	times := newSteps()
	c := serve(t, times.change(t), upstream)

	// A client with an idle connection, which is to be closed and not waited for.
	kept := &http.Client{Transport: &http.Transport{}}
	defer kept.CloseIdleConnections()
	root := strings.TrimSuffix(c.base(t), "/v1") + "/"
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, root, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := kept.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}

	type result struct {
		raw string
		err error
	}
	results := make(chan result, all)
	for range all {
		stream := post(t, c.base(t))
		go func() {
			raw, err := io.ReadAll(stream)
			results <- result{string(raw), err}
		}()
	}
	c.stop()
	c.stderr.find(t, `shutting down.*running=100`)
	wantStatus(t, c.admin(t)+"/readyz", http.StatusServiceUnavailable)
	wantRefused(t, c.address(t))
	if err := ask(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v of a client with a kept connection, want it refused", err)
	}

	finish()
	for range finishing {
		if r := <-results; r.err != nil || !strings.Contains(r.raw, "response.completed") {
			t.Fatalf("a stream ended with %v within the grace, in:\n%s", r.err, r.raw)
		}
	}
	wantStatus(t, c.admin(t)+"/readyz", http.StatusServiceUnavailable)
	select {
	case r := <-results:
		t.Fatalf("a stream ended with %v before the grace did", r.err)
	default:
	}

	times.end(theGrace)
	for range all - finishing {
		if r := <-results; !errors.Is(r.err, io.ErrUnexpectedEOF) {
			t.Errorf("a dropped stream ended with %v, want %v, in:\n%s", r.err, io.ErrUnexpectedEOF, r.raw)
		}
	}
	c.wantEnd(t)
	log := c.stderr.String()
	for outcome, want := range map[string]int{"clean": finishing, "cancelled": all - finishing} {
		if got := strings.Count(log, "outcome="+outcome); got != want {
			t.Errorf("got %d requests logged as %s, want %d", got, outcome, want)
		}
	}
	for _, req := range sim.Requests() {
		if req.Ordinal >= finishing {
			<-req.Gone // the upstream's side was closed, too
		}
	}
}

// A connection that is kept alive is closed behind the answer that was running.
func TestDrainClosesKeptConnection(t *testing.T) {
	_, upstream, finish := gated(t, 1)
	c := serve(t, nil, upstream)
	conn, err := net.Dial("tcp", c.address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base(t)+"/responses", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c.stop()
	c.stderr.find(t, `shutting down.*running=1`)
	wantRefused(t, c.address(t))
	finish()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	wantText(t, string(raw), "response.completed")
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v behind the answer, want the connection closed", err)
	}
	c.wantEnd(t)
}

func TestDrainDelay(t *testing.T) {
	_, upstream, finish := gated(t, 2)
	times := newSteps()
	manual := times.change(t)
	c := serve(t, func(a *app) {
		manual(a)
		a.env = append(a.env, "DOOMPROXY_SHUTDOWN_DELAY="+theDelay.String())
	}, upstream)
	wantStatus(t, c.admin(t)+"/readyz", http.StatusOK)
	before := post(t, c.base(t))
	c.stop()
	c.stderr.find(t, `shutting down.*delay=1h0m0s`)
	wantStatus(t, c.admin(t)+"/readyz", http.StatusServiceUnavailable)
	wantStatus(t, c.admin(t)+"/healthz", http.StatusOK)
	during := post(t, c.base(t))

	times.end(theDelay)
	wantRefused(t, c.address(t))
	finish()
	for _, stream := range []io.Reader{before, during} {
		raw, err := io.ReadAll(stream)
		if err != nil {
			t.Error(err)
		}
		wantText(t, string(raw), "response.completed")
	}
	c.wantEnd(t)
}

// As a process, with signals.
func TestDrainBySignal(t *testing.T) {
	_, upstream, _ := gated(t, 0)
	t.Run("the first drains", func(t *testing.T) {
		t.Setenv("DOOMPROXY_SHUTDOWN_GRACE", "50ms")
		cmd, stdout, stderr := process(t, "serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin-listen", "")
		stream := post(t, stdout.find(t, `base URL +(\S+)`))
		send(t, cmd, syscall.SIGTERM)
		if _, err := io.ReadAll(stream); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the stream ended with %v, want %v", err, io.ErrUnexpectedEOF)
		}
		wantExit(t, cmd, 0)
		wantText(t, stderr.String(), "outcome=cancelled")
	})
	t.Run("the second ends the delay and all", func(t *testing.T) {
		t.Setenv("DOOMPROXY_SHUTDOWN_DELAY", "1h")
		cmd, stdout, stderr := process(t, "serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		base := stdout.find(t, `base URL +(\S+)`)
		admin := stdout.find(t, `admin +(http://\S+)`)
		send(t, cmd, os.Interrupt)
		stderr.find(t, "shutting down")
		wantStatus(t, admin+"/readyz", http.StatusServiceUnavailable)
		stream := post(t, base)
		send(t, cmd, syscall.SIGTERM)
		wantExit(t, cmd, 1)
		if _, err := io.ReadAll(stream); err == nil {
			t.Error("the stream ended as if it were complete")
		}
	})
}
