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
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// A stream that brings nothing for long is ended, unmistakably.
func TestSilence(t *testing.T) {
	silent := func(c *proxy.Config) { c.Silence = 50 * time.Millisecond }
	off := func(c *proxy.Config) { silent(c); c.Mode = proxy.ModeOff }
	thinking := simulate.Scenario{Limit: 5, End: simulate.EndHang}
	visible := simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndHang}
	for _, tc := range []struct {
		name    string
		change  func(*proxy.Config)
		a       simulate.Scenario
		headers []string
		dropped bool
	}{
		{"thinking", silent, thinking, nil, false},
		{"held", silent, thinking, []string{"x-doomproxy-delivery", "hold"}, false},
		{"visible", silent, visible, nil, true},
		{"off", off, thinking, nil, true},
		{"deferred", silent, thinking, []string{"x-grok-doom-loop-check", "1024"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.change, tc.a)
			_, raw, err := r.stream(streamBody, tc.headers...)
			if tc.dropped != errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v, want dropped %v", err, tc.dropped)
			}
			if failed := strings.Contains(raw, "event: response.failed"); failed == tc.dropped {
				t.Errorf("got response.failed %v in:\n%s", failed, raw)
			}
			within(t, time.Second, "closing the upstream", r.upstream(0).Done)
			r.settled(1)
			r.wantMetric(0, "doomproxy_requests_total", "outcome", "clean")
		})
	}
	// A stream that says something now and then is not silent.
	r := newRig(t, func(c *proxy.Config) { c.Silence = 200 * time.Millisecond }, simulate.Scenario{Message: "fine", Delay: 40 * time.Millisecond})
	if raw := r.answer(streamBody); !strings.Contains(raw, "response.completed") {
		t.Errorf("got no whole answer:\n%s", raw)
	}
}

// endless is a stream that goes on until its client leaves, visible or not.
func endless(visible bool) http.Handler {
	typ := map[bool]string{true: "response.output_text.delta", false: "response.reasoning_text.delta"}[visible]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		item := map[bool]string{true: "message", false: "reasoning"}[visible]
		io.WriteString(w, createdA+frame("response.output_item.added", `"output_index":0,"item":{"id":"i","type":%q}`, item)) //nolint:errcheck // see below
		delta := frame(typ, `"output_index":0,"item_id":"i","content_index":0,"delta":%q`, strings.Repeat("x", 4000))
		for {
			if _, err := io.WriteString(w, delta); err != nil || r.Context().Err() != nil {
				return
			}
		}
	})
}

// A client that stops to read is cut off, and so is its upstream.
func TestClientThatDoesNotRead(t *testing.T) {
	for name, change := range map[string]func(*proxy.Config){
		"protected": nil,
		"off":       func(c *proxy.Config) { c.Mode = proxy.ModeOff },
	} {
		for _, visible := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, visible %v", name, visible), func(t *testing.T) {
				gone := make(chan struct{})
				stream := endless(visible)
				up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					stream.ServeHTTP(w, r)
					close(gone)
				}))
				t.Cleanup(up.Close)
				r := newRigFor(t, up.URL, func(c *proxy.Config) {
					c.ClientTimeout = 100 * time.Millisecond
					if change != nil {
						change(c)
					}
				})
				conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(streamBody), streamBody)
				within(t, 2*time.Second, "closing the upstream", gone)
				r.settled(1)
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "client_gone", "code", "499")
			})
		}
	}
}

// The same over HTTP/2, where the connection lives on.
func TestHTTP2ClientThatDoesNotRead(t *testing.T) {
	gone := make(chan struct{})
	stream := endless(true)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream.ServeHTTP(w, r)
		close(gone)
	}))
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, func(c *proxy.Config) { c.ClientTimeout = 100 * time.Millisecond })
	srv := httptest.NewUnstartedServer(r.proxy)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/responses", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatalf("got %s, want HTTP/2", resp.Proto)
	}
	within(t, 2*time.Second, "closing the upstream", gone)
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("got a clean end")
	}
}

// A deadline holds for one write. What is quiet for longer is served as before,
// and so is the next request on the same connection.
func TestDeadlinesMoveOn(t *testing.T) {
	for name, change := range map[string]func(*proxy.Config){
		"protected": func(c *proxy.Config) {},
		"off":       func(c *proxy.Config) { c.Mode = proxy.ModeOff },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) { change(c); c.ClientTimeout = 150 * time.Millisecond },
				simulate.Scenario{Reasoning: simulate.ReasoningNone, Message: "fine", Before: func(write int) {
					if write == 3 || write == 6 {
						<-time.After(200 * time.Millisecond) // longer than a deadline holds
					}
				}})
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for i := range 2 {
				if i > 0 {
					<-time.After(200 * time.Millisecond) // let the deadline of the first pass
				}
				// In two parts that are far apart, but not too far.
				fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(streamBody))
				for n, part := range []string{streamBody[:1], streamBody[1:2], streamBody[2:3], streamBody[3:]} {
					if n > 0 {
						<-time.After(60 * time.Millisecond)
					}
					io.WriteString(conn, part) //nolint:errcheck // see the answer
				}
				resp, err := http.ReadResponse(answers, nil)
				if err == nil && resp.StatusCode == http.StatusContinue {
					resp, err = http.ReadResponse(answers, nil)
				}
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				raw, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !strings.Contains(string(raw), "response.completed") {
					t.Fatalf("request %d: got %v and %d bytes", i, err, len(raw))
				}
			}
		})
	}
}

// A body that does not come is not waited for.
func TestBodyThatDoesNotCome(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.ClientTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(raw), `"request_timeout"`) {
		t.Errorf("got %d, %s, want 408", resp.StatusCode, raw)
	}
	r.settled(1)
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "rejected", "code", "408")
	r.wantRequests(0)
}

// Nor is one whose request was refused without looking at it.
func TestRefusedBodyThatDoesNotCome(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) {
		c.ClientTimeout = 50 * time.Millisecond
		c.Authorize = func(string) bool { return false }
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	if raw, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 401 ") {
		t.Errorf("got %q, %v, want 401 and the end of the connection", raw, err)
	}
}

// What does not fit into the memory of all requests together passes through
// unchanged, and is counted.
func TestMemoryLimit(t *testing.T) {
	large := `{"stream":true,"input":"` + strings.Repeat("long ", 20_000) + `"}`
	packed := encode(t, "gzip", large)
	for _, tc := range []struct {
		name, body string
		chunked    bool
		headers    []string
	}{
		{"announced", large, false, nil},
		{"chunked", large, true, nil},
		{"decoded", packed, false, []string{"Content-Encoding", "gzip"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) { c.MaxMemory = 64 << 10 }, loop())
			var body io.Reader = strings.NewReader(tc.body)
			if tc.chunked {
				body = io.MultiReader(body)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/responses", body)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(tc.headers); i += 2 {
				req.Header.Set(tc.headers[i], tc.headers[i+1])
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			waitFor(resp.Body, "response.in_progress")
			if got := string(r.upstream(0).Body); got != tc.body {
				t.Errorf("got %d bytes upstream, want %d as they are", len(got), len(tc.body))
			}
			r.wantMetric(1, "doomproxy_unprotected_total", "reason", "memory")
			cancel()
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "protection", "passthrough")
		})
	}
}

// Memory is given back once the request can't be made again.
func TestMemoryIsGivenBack(t *testing.T) {
	body := `{"stream":true,"input":"` + strings.Repeat("x", 100_000) + `"}`
	for name, tc := range map[string]struct {
		scenario simulate.Scenario
		wait     string
		least    int64
	}{
		"thinking": {simulate.Scenario{Limit: 6, End: simulate.EndHang}, "reasoning_summary_text.delta", 100_000},
		"visible":  {simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndHang}, "output_text.delta", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, tc.scenario)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := r.post(ctx, body)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			waitFor(resp.Body, tc.wait)
			// What is sent counts until the transport lets go of it.
			tick, late := time.NewTicker(time.Millisecond), time.After(5*time.Second)
			defer tick.Stop()
			for used := r.proxy.MemoryUsed(); used < tc.least || used > tc.least+200; used = r.proxy.MemoryUsed() {
				select {
				case <-tick.C:
				case <-late:
					t.Fatalf("got %d bytes taken, want %d", used, tc.least)
				}
			}
		})
	}
}

// Held events count, too. Without memory for them the delivery is live.
func TestHoldWithinMemory(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.MaxMemory, c.Delivery = 1000, proxy.DeliveryHold }, loop(), simulate.Scenario{Message: "fine"})
	raw := r.answer(streamBody)
	if err := checkI3(raw, events(t, raw)); err != nil || !strings.Contains(raw, ": doomproxy resample=1") {
		t.Errorf("got %v, want a live splice in:\n%s", err, raw)
	}
}

// Of protected requests only so many run at a time.
func TestConcurrencyLimit(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.MaxConcurrent = 1 }, simulate.Scenario{Limit: 6, End: simulate.EndHang}, simulate.Scenario{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, err := r.post(ctx, streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	resp, raw, err := r.stream(streamBody)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !strings.Contains(raw, `"type":"proxy_error"`) {
		t.Errorf("got %d, %v, %s, %v, want 503", resp.StatusCode, resp.Header, raw, err)
	}
	r.wantRequests(1)
	if resp, _, _ := r.stream(`{"stream":true,"background":true}`); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d for a request that is not protected", resp.StatusCode)
	}
	cancel()
	r.settled(3)
	r.answer(streamBody)
}

// With tokens a request needs one of them, which goes no further.
func TestAuthorize(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) {
		c.Authorize = func(token string) bool { return token == "open sesame" }
	})
	for _, path := range []string{"/", "/v1/models", "/v1/responses"} {
		for token, want := range map[string]int{"": 401, "wrong": 401, "open sesame": 200} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(streamBody))
			if err != nil {
				t.Fatal(err)
			}
			if path == "/" {
				req.Method = http.MethodGet
			}
			if token != "" {
				req.Header.Set("x-doomproxy-token", token)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if path == "/v1/models" && want == 200 {
				want = resp.StatusCode // the upstream's affair
			}
			if err != nil || resp.StatusCode != want || want == 401 && !bytes.Contains(raw, []byte(`"code":"unauthorized"`)) {
				t.Errorf("%s with %q: got %d, %s, %v, want %d", path, token, resp.StatusCode, raw, err, want)
			}
		}
	}
	for _, req := range r.sim.Requests() {
		if _, ok := req.Header["X-Doomproxy-Token"]; ok {
			t.Error("the token was sent on")
		}
	}
	if strings.Contains(r.log.String(), "sesame") {
		t.Error("the token was logged")
	}
}

// A request that is cancelled on this side is dropped, in each state, and counted
// as what it is.
func TestCancelled(t *testing.T) {
	thinking := simulate.Scenario{Limit: 6, End: simulate.EndHang}
	visible := simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndHang}
	for _, tc := range []struct {
		name   string
		change func(*proxy.Config)
		a      simulate.Scenario
		body   string
		wait   string
	}{
		{"thinking", nil, thinking, streamBody, "reasoning_summary_text.delta"},
		{"visible", nil, visible, streamBody, "output_text.delta"},
		{"back-off", func(c *proxy.Config) { c.CutJitter = time.Hour }, loop(), streamBody, "doomproxy resample"},
		{"held", func(c *proxy.Config) { c.Delivery, c.KeepAlive = proxy.DeliveryHold, time.Millisecond }, thinking, streamBody, "keepalive"},
		{"off", func(c *proxy.Config) { c.Mode = proxy.ModeOff }, thinking, streamBody, "reasoning_summary_text.delta"},
		{"plain", nil, thinking, plainBody, ""},
		{"retry", func(c *proxy.Config) { retries(c); c.Retry.FirstWait = time.Hour }, status(503), streamBody, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.change, tc.a)
			if tc.wait == "" {
				go func() {
					tick := time.NewTicker(time.Millisecond)
					defer tick.Stop()
					for r.metric("doomproxy_requests_in_flight", "phase", "backoff")+r.metric("doomproxy_requests_in_flight", "phase", "thinking") == 0 {
						<-tick.C
					}
					r.cancel(proxy.ErrCancelled)
				}()
			}
			resp, err := r.post(t.Context(), tc.body)
			if err == nil {
				defer resp.Body.Close()
				if tc.wait != "" {
					waitFor(resp.Body, tc.wait)
					r.cancel(proxy.ErrCancelled)
				}
				_, err = io.Copy(io.Discard, resp.Body)
			}
			if err == nil {
				t.Error("got a clean end")
			}
			within(t, time.Second, "closing the upstream", r.upstream(0).Done)
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "cancelled")
		})
	}
}
