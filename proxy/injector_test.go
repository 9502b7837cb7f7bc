package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// fault is the harm that an injector does to the answers on one connection.
type fault struct {
	at     int    // bytes of the answer that come through before it, head and all
	do     string // what happens then; "" is nothing
	insert string // bytes that come first
}

const (
	faultReset   = "reset"   // the connection is reset
	faultClose   = "close"   // it is closed in order, both ways
	faultHalf    = "half"    // no more comes, but what is sent is still read
	faultStall   = "stall"   // no more comes, and the connection stays
	faultTrickle = "trickle" // the rest comes byte by byte
)

// injector is a TCP relay in front of an upstream that does harm to its answers.
type injector struct {
	url    string
	faults func(connection int) fault

	mu    sync.Mutex
	first []byte // what the first connection brought; guarded by mu
}

// newInjector starts an injector in front of an HTTP server.
func newInjector(t *testing.T, upstream string, faults func(connection int) fault) *injector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := &injector{url: "http://" + l.Addr().String(), faults: faults}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // it ends in the cleanup
	t.Cleanup(func() {
		l.Close()
		cancel()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		within(t, 5*time.Second, "the end of all upstream connections", done)
	})
	wg.Go(func() {
		for n := 0; ; n++ {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { in.relay(ctx, n, down.(*net.TCPConn), strings.TrimPrefix(upstream, "http://")) })
		}
	})
	return in
}

// relay passes one connection on, with its fault.
func (in *injector) relay(ctx context.Context, n int, down *net.TCPConn, upstream string) {
	defer down.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", upstream)
	if err != nil {
		return
	}
	up := conn.(*net.TCPConn)
	defer up.Close()
	gone := make(chan struct{})
	go func() {
		io.Copy(up, down) //nolint:errcheck // it ends when one of the two is gone
		up.CloseWrite()   //nolint:errcheck // likewise
		close(gone)
	}()
	f := in.faults(n)
	var through io.Writer = down
	if n == 0 {
		through = io.MultiWriter((*recorder)(in), down) // so that what has arrived is kept
	}
	switch {
	case f.do == "":
		io.Copy(through, up) //nolint:errcheck // likewise
		up.Close()
		down.Close()
		<-gone
		return
	case f.at == 0: // not before there is a request
		if _, err := bufio.NewReader(up).Peek(1); err != nil {
			return
		}
	default:
		io.CopyN(through, up, int64(f.at)) //nolint:errcheck // likewise
	}
	io.WriteString(down, f.insert) //nolint:errcheck // likewise
	switch f.do {
	case faultReset:
		down.SetLinger(0) //nolint:errcheck // it is TCP
	case faultHalf:
		down.CloseWrite() //nolint:errcheck // likewise
		<-gone
		return
	case faultStall:
		<-gone
		return
	case faultTrickle:
		for b := make([]byte, 1); ; {
			if _, err := up.Read(b); err != nil {
				break
			}
			if _, err := down.Write(b); err != nil {
				break
			}
		}
	}
	down.Close()
	up.Close()
	<-gone
}

// recorder keeps what an injector's first connection brought.
type recorder injector

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = append(r.first, p...)
	return len(p), nil
}

var marker = regexp.MustCompile(`(?m)^: doomproxy (?:resample|retry)=\d+ \S+\n\n`)

// judge returns what is wrong with what a client got: it must be the upstream's
// last answer, complete and in order, or an error that can't be mistaken for one.
func judge(t *testing.T, resp head, raw string, err error, attempts []*simulate.Request) error {
	t.Helper()
	switch {
	case err != nil:
		return nil // dropped
	case resp.StatusCode != http.StatusOK:
		if !strings.Contains(raw, `"error"`) {
			return fmt.Errorf("status %d with %q", resp.StatusCode, raw)
		}
		return nil
	}
	evs := events(t, raw)
	if len(evs) == 0 {
		return fmt.Errorf("a clean end behind no event: %q", raw)
	}
	last := evs[len(evs)-1]
	if last.typ() == "error" {
		return nil
	}
	if strings.Contains(raw, `"response.created"`) || last.typ() != "response.failed" {
		if err := checkI3(raw, evs); err != nil {
			return fmt.Errorf("%w in:\n%s", err, raw)
		}
	}
	if last.typ() == "response.failed" {
		return nil
	}
	if len(attempts) == 0 {
		return errors.New("an answer to a request that did not get there")
	}
	reply := string(attempts[len(attempts)-1].Reply())
	splices := marker.FindAllString(raw, -1)
	if len(splices) == 0 {
		reply = strings.Join(slices.DeleteFunc(frames(t, reply), func(f string) bool {
			return strings.HasPrefix(f, "event: response.doom_loop_check")
		}), "")
		if strings.TrimRight(raw, "\n") != strings.TrimRight(reply, "\n") { // the end may have been lost
			return fmt.Errorf("got %d bytes:\n%s\nwant the upstream's %d:\n%s", len(raw), raw, len(reply), reply)
		}
		return nil
	}
	return spliced(t, raw, splices[len(splices)-1], reply)
}

// answerScenario is an answer with all that a stream can have, and not long.
var answerScenario = simulate.Scenario{ReasoningItems: 2, Thinking: []string{"hm ", "well "}, Message: "fine", Calls: []simulate.Call{{Name: "f"}}}

// injected runs a request through an injector with the given faults and returns
// what is wrong with its answer.
func injected(t *testing.T, faults func(n int) fault, body string, headers ...string) {
	t.Helper()
	sim := &simulate.Server{Script: func(int, *simulate.Request) simulate.Scenario { return answerScenario }}
	up := httptest.NewServer(sim)
	t.Cleanup(up.Close)
	in := newInjector(t, up.URL, faults)
	r := newRigFor(t, in.url, func(c *proxy.Config) {
		retries(c)
		c.Silence = 40 * time.Millisecond
		c.Transport.(*http.Transport).ResponseHeaderTimeout = 40 * time.Millisecond
	})
	r.sim = sim
	resp, raw, err := r.stream(body, headers...)
	if body == plainBody {
		if err == nil && resp.StatusCode == http.StatusOK && !strings.Contains(raw, "fine") {
			t.Errorf("plain: got %q", raw)
		}
		return
	}
	if wrong := judge(t, resp, raw, err, sim.Requests()); wrong != nil {
		t.Error(wrong)
	}
	if n := len(sim.Requests()); n > 3 {
		t.Errorf("got %d upstream requests", n)
	}
}

// recorded returns the bytes of the answer as they come over the wire.
func recorded(t *testing.T) []byte {
	t.Helper()
	up := httptest.NewServer(&simulate.Server{Script: func(int, *simulate.Request) simulate.Scenario { return answerScenario }})
	defer up.Close()
	in := newInjector(t, up.URL, func(int) fault { return fault{} })
	r := newRigFor(t, in.url, nil)
	r.answer(streamBody)
	// The end of the answer may come a moment after its client needs no more.
	tick, late := time.NewTicker(time.Millisecond), time.After(5*time.Second)
	defer tick.Stop()
	for {
		in.mu.Lock()
		first := bytes.Clone(in.first)
		in.mu.Unlock()
		if bytes.HasSuffix(first, []byte("\r\n0\r\n\r\n")) {
			return first
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the answer has no end: %q", first)
		}
	}
}

// TestInjectedFaults does each harm at each place where a frame begins or ends,
// and in its middle: once, and each time.
func TestInjectedFaults(t *testing.T) {
	wire := string(recorded(t))
	places := []int{0, 1, len("HTTP/1.1 200 OK\r\n")}
	for at := strings.Index(wire, "\r\n\r\n") + 4; at < len(wire); {
		places = append(places, at)
		n := strings.Index(wire[at:], "\n\n")
		if n < 0 {
			break
		}
		places = append(places, at+n/2, at+n+1, at+n+2)
		at += n + 2
	}
	places = append(places, len(wire)-2, len(wire))
	for _, do := range []string{faultReset, faultClose, faultHalf, faultStall, faultTrickle} {
		for i, at := range places {
			if (do == faultStall || do == faultTrickle) && i%4 != 0 || testing.Short() && i%5 != 0 {
				continue // these take their time
			}
			for _, times := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s at %d, %d times", do, at, times), func(t *testing.T) {
					t.Parallel()
					faults := func(n int) fault {
						if n < times {
							return fault{at: at, do: do}
						}
						return fault{}
					}
					injected(t, faults, streamBody)
					injected(t, faults, streamBody, "x-doomproxy-delivery", "hold")
					injected(t, faults, plainBody)
				})
			}
		}
	}
}

// TestInjectedGarbage puts bytes where they do not belong.
func TestInjectedGarbage(t *testing.T) {
	wire := string(recorded(t))
	body := strings.Index(wire, "\r\n\r\n") + 4
	middle := body + (len(wire)-body)/3
	var all strings.Builder
	for i := range 4096 {
		all.WriteByte(byte(i * 7919 >> 3))
	}
	for name, f := range map[string]fault{
		"instead of an answer":     {0, faultClose, all.String()},
		"endless instead":          {0, faultClose, strings.Repeat("garbage", 1<<20)},
		"in the head":              {10, faultClose, all.String()},
		"instead of the stream":    {body, faultClose, all.String()},
		"chunked garbage":          {body, faultClose, "1000\r\n" + all.String() + "\r\n0\r\n\r\n"},
		"chunked text":             {body, faultClose, "8\r\nwhat is?\r\n0\r\n\r\n"},
		"in the middle":            {middle, faultTrickle, all.String()},
		"a huge chunk":             {middle, faultHalf, "7fffffffffffffff\r\n"},
		"a second answer":          {len(wire), faultClose, wire},
		"no answer at all":         {0, faultClose, "HTTP/1.1 204 No Content\r\n\r\n"},
		"a redirect":               {0, faultClose, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"},
		"an HTML page":             {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"},
		"a document":               {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"},
		"an unknown thing":         {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 2\r\n\r\n{}"},
		"plain text":               {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nsorry"},
		"too short":                {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 40\r\n\r\n" + createdA + doneA},
		"too long":                 {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 4000\r\n\r\n" + createdA},
		"two lengths":              {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n" + createdA},
		"an endless head":          {0, faultClose, "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 4000)},
		"informational answers":    {0, faultClose, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)},
		"a stream that is packed":  {0, faultClose, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nwhat?"},
		"line ends and no events":  {body, faultClose, "4\r\n\n\n\n\n\r\n0\r\n\r\n"},
		"a NUL in a header":        {0, faultClose, "HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n"},
		"a response without a dot": {0, faultClose, "HTTP/2 200\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch name {
			case "no answer at all", "a redirect", "a stream that is packed": // passed on as they are
				sim := httptest.NewServer(&simulate.Server{})
				t.Cleanup(sim.Close)
				in := newInjector(t, sim.URL, func(int) fault { return f })
				r := newRigFor(t, in.url, retries)
				noRedirect := *client
				noRedirect.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				resp, err := noRedirect.Post(r.url+"/v1/responses", "application/json", strings.NewReader(streamBody))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				if want := f.insert[len("HTTP/1.1 "):][:3]; err != nil || resp.Status[:3] != want || !strings.HasSuffix(f.insert, string(raw)) {
					t.Errorf("got %s, %q, %v, want the upstream's answer", resp.Status, raw, err)
				}
				return
			}
			for _, headers := range [][]string{nil, {"x-doomproxy-delivery", "hold"}} {
				sim := &simulate.Server{Script: func(int, *simulate.Request) simulate.Scenario { return answerScenario }}
				up := httptest.NewServer(sim)
				t.Cleanup(up.Close)
				in := newInjector(t, up.URL, func(int) fault { return f })
				r := newRigFor(t, in.url, func(c *proxy.Config) { retries(c); c.Silence = 100 * time.Millisecond })
				resp, raw, err := r.stream(streamBody, headers...)
				evs := events(t, raw)
				switch {
				case name == "a second answer":
					if wrong := judge(t, resp, raw, err, sim.Requests()); wrong != nil || err != nil {
						t.Errorf("got %v, %v", err, wrong)
					}
				case err != nil:
				case resp.StatusCode == http.StatusOK && (len(evs) == 0 || evs[len(evs)-1].typ() != "response.failed"):
					t.Errorf("got 200 and a clean end behind:\n%q", raw)
				}
			}
		})
	}
}

// A frame without end, or comments without end, take up no memory, and end when
// their client leaves.
func TestEndlessStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, again string
		bytes        int
	}{
		"a frame of 64 MiB":            {createdA + "data: ", strings.Repeat("x", 1<<16), 64 << 20},
		"comments":                     {createdA, ": still thinking\n\n", 8 << 20},
		"one comment":                  {createdA + ": ", strings.Repeat("x", 1<<16), 64 << 20},
		"blank lines":                  {createdA, "\n\n\n\n", 1 << 20},
		"empty frames before an event": {"", "data: \n\n", 4 << 20},
	} {
		for _, headers := range [][]string{nil, {"x-doomproxy-delivery", "hold"}} {
			t.Run(fmt.Sprint(name, headers), func(t *testing.T) {
				gone := make(chan struct{})
				up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(gone)
					w.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(w, tc.begin) //nolint:errcheck // see below
					for block := strings.Repeat(tc.again, 1+(1<<16)/len(tc.again)); ; {
						if _, err := io.WriteString(w, block); err != nil || r.Context().Err() != nil {
							return
						}
					}
				}))
				t.Cleanup(up.Close)
				r := newRigFor(t, up.URL, nil)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				resp, err := r.post(ctx, streamBody, headers...)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := io.CopyN(io.Discard, resp.Body, int64(tc.bytes)); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				// A frame is kept up to 16 MiB, in a buffer that doubles; held
				// back are 8 MiB.
				if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 100<<20 {
					t.Errorf("the heap grew by %d MiB", grown>>20)
				}
				cancel()
				within(t, 200*time.Millisecond, "closing the upstream", gone)
			})
		}
	}
}
