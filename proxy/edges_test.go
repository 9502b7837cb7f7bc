package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// Here are the places where two mechanisms meet: retries and cuts, the ladder and
// held events, errors and their bodies, deadlines and waits.

var (
	fine       = simulate.Scenario{Message: "fine"}
	drop       = simulate.Scenario{Limit: 6, End: simulate.EndAbort}
	held       = []string{"x-doomproxy-delivery", "hold"}
	chatFrames = []string{"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", "data: [DONE]\n\n"}
)

// wantWhole checks that a request ends in one whole response.
func wantWhole(t *testing.T, r *rig, requests int, headers ...string) string {
	t.Helper()
	raw := r.answer(streamBody, headers...)
	if err := checkI3(raw, events(t, raw)); err != nil || !strings.Contains(raw, "fine") {
		t.Errorf("%v in:\n%s", err, raw)
	}
	r.wantRequests(requests)
	return raw
}

// An attempt that is refused inside of its stream leaves nothing behind.
func TestRefusedInItsStream(t *testing.T) {
	for _, code := range []string{"invalid_encrypted_content", "locked"} {
		refused := simulate.Scenario{Failure: &simulate.Failure{After: 2, Event: simulate.FailureError, Code: code}}
		for _, headers := range [][]string{nil, held} {
			wantWhole(t, newRig(t, retries, loop(), refused, fine), 3, headers...)
			wantWhole(t, newRig(t, retries, loop(), drop, refused, fine), 4, headers...)
		}
	}
	// Nor its id: the one that the client saw stands for the accepted attempt's.
	id := func(c string) string { return "resp_" + strings.Repeat(c, 20) }
	created := func(c string) string {
		return frame("response.created", `"response":{"id":%q}`, id(c))
	}
	cut := numbered(created("a"), check("tail_repetition:8@thinking"))
	refused := numbered(created("b"), frame("response.in_progress", `"response":{"id":%q}`, id("b")), frame("error", `"code":"invalid_prompt","message":"m"`))
	done := numbered(created("c"), addedMsg, deltaMsg, frame("response.completed", `"response":{"id":%q,"output":[]}`, id("c")))
	r := newRig(t, nil, simulate.Scenario{Frames: cut}, simulate.Scenario{Frames: refused}, simulate.Scenario{Frames: done}, fine)
	r.answer(streamBody)
	r.answer(`{"stream":true,"previous_response_id":"` + id("a") + `","input":"x"}`)
	if got := string(r.upstream(3).Body); !strings.Contains(got, id("c")) {
		t.Errorf("got %s upstream, want %s", got, id("c"))
	}
}

// What comes in part behind the end is passed on as it is: a blank line behind it
// would make an event of it.
func TestPartBehindTheEnd(t *testing.T) {
	stream := append(numbered(createdA, addedMsg, deltaMsg, doneA), "data: {\"ta")
	r := newRig(t, retries, simulate.Scenario{Frames: stream, End: simulate.EndAbort})
	if raw := r.answer(streamBody); raw != strings.Join(stream, "") {
		t.Errorf("got %q", raw)
	}
	// But the end itself is made whole.
	stream = numbered(createdA, addedMsg, deltaMsg, doneA)
	stream[3] = strings.TrimRight(stream[3], "\n")
	r = newRig(t, retries, simulate.Scenario{Frames: stream, End: simulate.EndAbort})
	if raw := r.answer(streamBody); raw != strings.Join(stream, "")+"\n\n" {
		t.Errorf("got %q", raw)
	}
}

// A client that closes its side while its answer runs, and one whose request
// ends for any other reason, never see a clean end.
func TestNoCleanEndForWhoIsThere(t *testing.T) {
	request := fmt.Sprintf("POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(streamBody), streamBody)
	for name, wait := range map[string]string{"thinking": "reasoning_summary_part.added", "at once": ""} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, simulate.Scenario{Limit: 5, End: simulate.EndHang})
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, request) //nolint:errcheck // see the answer
			if wait != "" {
				waitFor(conn, wait)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if raw, err := io.ReadAll(conn); err == nil && (strings.HasSuffix(string(raw), "0\r\n\r\n") || strings.Contains(string(raw), "Content-Length: 0")) {
				t.Errorf("got a clean end: %q", raw)
			}
		})
	}
	r := newRig(t, nil, simulate.Scenario{Limit: 5, End: simulate.EndHang})
	resp, err := r.post(t.Context(), streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waitFor(resp.Body, "reasoning_summary_part.added")
	r.cancel(nil)
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("got a clean end")
	}
}

// A client of HTTP/1.0 takes the end of the connection for that of the answer: it
// gets a reset.
func TestDroppedHTTP10Client(t *testing.T) {
	for _, mode := range []proxy.Mode{proxy.ModeEnforce, proxy.ModeOff} {
		r := newRig(t, func(c *proxy.Config) { c.Mode = mode }, simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndAbort})
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/responses HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(streamBody), streamBody)
		if raw, err := io.ReadAll(conn); err == nil {
			t.Errorf("%s: got a clean end behind %q", mode, raw)
		}
	}
}

// Silence counts as idle only where the request can still be made again.
func TestIdleOnlyIfItHelps(t *testing.T) {
	idle := func(c *proxy.Config) {
		c.Retry = proxy.Retry{MaxRetries: 1, On: proxy.Failures(), IdleTimeout: 50 * time.Millisecond, FirstWait: time.Millisecond}
	}
	pause := func(write int) simulate.Scenario {
		return simulate.Scenario{Message: "fine", Before: func(n int) {
			if n == write {
				<-time.After(200 * time.Millisecond)
			}
		}}
	}
	for name, tc := range map[string]struct {
		change    func(*proxy.Config)
		scenarios []simulate.Scenario
		requests  int
	}{
		"no retries":   {func(c *proxy.Config) { idle(c); c.Retry.MaxRetries = 0 }, []simulate.Scenario{pause(4)}, 1},
		"observed":     {func(c *proxy.Config) { idle(c); c.Mode = proxy.ModeObserve }, []simulate.Scenario{pause(4)}, 1},
		"last attempt": {idle, []simulate.Scenario{{Limit: 4, End: simulate.EndHang}, pause(4)}, 2},
		"visible":      {idle, []simulate.Scenario{{Reasoning: simulate.ReasoningNone, Message: "fine", Before: pause(6).Before}}, 1},
	} {
		t.Run(name, func(t *testing.T) { wantWhole(t, newRig(t, tc.change, tc.scenarios...), tc.requests) })
	}
}

// Streams of other dialects are left alone behind a retry of which the client
// saw nothing, and stay what they are in all other cases.
func TestOtherDialects(t *testing.T) {
	chat := simulate.Scenario{Frames: chatFrames}
	broken := simulate.Scenario{Frames: chatFrames[:1], End: simulate.EndAbort}
	r := newRig(t, retries, status(503), chat)
	if raw := r.answer(streamBody); raw != strings.Join(chatFrames, "") {
		t.Errorf("got %q", raw)
	}
	r.wantRequests(2)
	r = newRig(t, retries, broken)
	if _, raw, err := r.stream(streamBody); err == nil || raw != chatFrames[0] {
		t.Errorf("got %q, %v, want it dropped as it was", raw, err)
	}
	r.wantRequests(1)
	r = newRig(t, nil, chat)
	if resp, raw, _ := r.stream(plainBody); resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, "upstream_broke_off") {
		t.Errorf("got %d, %s, want 502 for a client without a stream", resp.StatusCode, raw)
	}
	// With a report in it, it is no stream of another dialect.
	r = newRig(t, func(c *proxy.Config) { c.Policy.MaxRetries = 0 }, simulate.Scenario{Frames: append([]string{check("tail_repetition:8@thinking")}, chatFrames...)})
	if raw := r.answer(streamBody); !strings.Contains(raw, "response.failed") {
		t.Errorf("got %q, want response.failed", raw)
	}
}

type panics struct {
	http.RoundTripper
	on, n int32
}

func (p *panics) RoundTrip(r *http.Request) (*http.Response, error) {
	if atomic.AddInt32(&p.n, 1) == p.on {
		panic("a fault")
	}
	return p.RoundTripper.RoundTrip(r) //nolint:wrapcheck // it stands for that
}

// A fault in one request ends that request, wherever it happens, and nothing is
// lost with it.
func TestPanicEndsOneRequest(t *testing.T) {
	for on := range int32(2) {
		r := newRig(t, func(c *proxy.Config) { c.Transport = &panics{RoundTripper: c.Transport, on: on + 1} }, loop())
		var said bytes.Buffer
		srv := httptest.NewUnstartedServer(r.proxy)
		srv.Config.ErrorLog = log.New(&said, "", 0)
		srv.Start()
		resp, err := client.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(streamBody))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		srv.Close()
		if err == nil || !strings.Contains(said.String(), "a fault") {
			t.Errorf("got %v, and the server said %q", err, said.String())
		}
		if used := r.proxy.MemoryUsed(); used != 0 {
			t.Errorf("%d bytes were lost", used)
		}
	}
}

// An error answer that does not come to its end holds nothing up.
func TestErrorAnswerThatStalls(t *testing.T) {
	var n atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // it is not looked at
		if n.Add(1) > 1 && r.Header.Get("X-Always") == "" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, strings.Join(numbered(createdA, addedMsg, deltaMsg, doneA), "")) //nolint:errcheck // the client sees it
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "oops")             //nolint:errcheck // likewise
		http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		<-r.Context().Done()
	}))
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, func(c *proxy.Config) { retries(c); c.Linger = 20 * time.Millisecond })
	if raw := r.answer(streamBody); !strings.Contains(raw, "response.completed") {
		t.Errorf("got %s", raw)
	}
	// Where it is not made again its head is passed on at once.
	for _, change := range []func(*proxy.Config){
		func(c *proxy.Config) { c.Mode = proxy.ModeObserve },
		func(c *proxy.Config) { c.Retry.MaxRetries = 0 },
	} {
		r := newRigFor(t, up.URL, change)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		resp, err := r.post(ctx, streamBody, "X-Always", "1")
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("got %v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
		cancel()
	}
}

// What is passed on is the last answer, or none: not an earlier one, nor a part.
func TestLastAnswerIsWholeOrNone(t *testing.T) {
	large := status(502)
	large.Body = strings.Repeat("x", 70_000)
	r := newRig(t, func(c *proxy.Config) { retries(c); c.Retry.MaxRetries = 1 }, loop(), status(503), large)
	if resp, raw, _ := r.stream(plainBody); resp.StatusCode != http.StatusBadGateway || strings.Contains(raw, "sorry for 503") {
		t.Errorf("got %d, %.100s, want 502", resp.StatusCode, raw)
	}
	large.Status = 503
	r = newRig(t, retries, large, simulate.Scenario{End: simulate.EndRefuse})
	if resp, raw, err := r.stream(streamBody); err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, "proxy_error") {
		t.Errorf("large: got %d, %v, %.100s, want an error of ours", resp.StatusCode, err, raw)
	}
	r = newRigFor(t, rawUpstream(t, func(n int, c net.Conn, _ *http.Request) {
		if n == 0 {
			io.WriteString(c, "HTTP/1.1 503 x\r\nContent-Length: 50\r\n\r\nshort") //nolint:errcheck // see the answer
		}
	}), retries)
	if resp, raw, err := r.stream(streamBody); err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, "proxy_error") {
		t.Errorf("truncated: got %d, %v, %.100s, want an error of ours", resp.StatusCode, err, raw)
	}
	r = newRig(t, retries, status(503), simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndAbort})
	if resp, raw, _ := r.stream(plainBody); resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, "upstream_broke_off") {
		t.Errorf("behind a stream: got %d, %s, want 502", resp.StatusCode, raw)
	}
}

// Held attempts leave no trace, also where no loop is ever cut.
func TestHoldForRetriesAlone(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { retries(c); c.Policy.MaxRetries = 0 }, drop, fine)
	if raw := wantWhole(t, r, 2, held...); strings.Contains(raw, "doomproxy") {
		t.Errorf("got a trace of the first attempt:\n%s", raw)
	}
}

// An answer to a client without a stream is judged by its end.
func TestWholeAnswerIsJudgedByItsEnd(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.MaxFrame = 4096 },
		simulate.Scenario{Frames: append(numbered(createdA, doneA), "data: "+strings.Repeat("x", 5000)+"\n\n")})
	if resp, raw, err := r.stream(plainBody); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a large event behind the end: got %d, %s, %v", resp.StatusCode, raw, err)
	}
	r = newRig(t, nil, simulate.Scenario{Frames: numbered(createdA, addedMsg, frame("error", `"code":"warn","message":"hm"`), deltaMsg, doneA)})
	if resp, raw, err := r.stream(plainBody); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("an error on the way: got %d, %s, %v", resp.StatusCode, raw, err)
	}
	r = newRig(t, retries, status(503, "Content-Type", "text/event-stream"))
	if resp, _, _ := r.stream(plainBody); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a status with a stream's type: got %d", resp.StatusCode)
	}
	r.wantRequests(3)
	r = newRig(t, retries, status(400), status(503)) // the client's own request, unprotected
	if resp, _, _ := r.stream(plainBody); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("unprotected: got %d", resp.StatusCode)
	}
	r.wantRequests(2)
	unended := strings.TrimRight(strings.Join(numbered(createdA, addedMsg, deltaMsg, doneA), ""), "\n")
	r = newRig(t, nil, simulate.Scenario{Frames: []string{unended}, End: simulate.EndAbort})
	if resp, raw, err := r.stream(plainBody); err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(raw, "{") {
		t.Errorf("without its last line end: got %d, %q, %v", resp.StatusCode, raw, err)
	}
}

// Bodies of requests that pass through are let go as well.
func TestMemoryOfPassedRequests(t *testing.T) {
	visible := simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndHang}
	body := `{"stream":true,"input":"` + strings.Repeat("x", 100_000) + `"}`
	for _, header := range []string{"x-grok-doom-loop-check", "x-doomproxy-recovery"} {
		r := newRig(t, nil, visible)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		resp, err := r.post(ctx, body, header, "off")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		waitFor(resp.Body, "output_text.delta")
		until(t, "letting go of the body", func() bool { return r.proxy.MemoryUsed() == 0 })
		cancel()
	}
}

// What a client was sent of an attempt that breaks off behind a large event does
// not come back.
func TestDroppedAttemptIsDiscarded(t *testing.T) {
	const id = "rs_0123456789abcdef0123"
	const item = `"output_index":0,"item":{"id":"` + id + `","type":"reasoning","summary":[]}`
	r := newRig(t, func(c *proxy.Config) { c.MaxFrame = 4096 }, simulate.Scenario{
		Frames: append(numbered(createdA, frame("response.output_item.added", item), frame("response.output_item.done", item)), "data: "+strings.Repeat("x", 5000)+"\n\n"),
		End:    simulate.EndAbort,
	}, fine)
	if _, _, err := r.stream(streamBody); err == nil {
		t.Error("got a clean end")
	}
	r.answer(`{"stream":true,"input":[{"type":"reasoning","id":"` + id + `","summary":[]},{"role":"user","content":"go on"}]}`)
	if got := string(r.upstream(1).Body); strings.Contains(got, id) {
		t.Errorf("got %s upstream", got)
	}
}

// An upstream that does not want a request again is not asked again, whatever
// became of its answer; and an error that comes too late is passed on.
func TestNotAgain(t *testing.T) {
	asked := drop
	asked.Header = map[string]string{"X-Should-Retry": "false"}
	r := newRig(t, retries, asked, fine)
	r.stream(streamBody) //nolint:errcheck // the test counts
	r.wantRequests(1)
	r = newRig(t, retries, simulate.Scenario{Frames: numbered(createdA, addedMsg, deltaMsg, failedEv)}, fine)
	r.stream(streamBody) //nolint:errcheck // likewise
	r.wantRequests(1)
	for _, code := range []int{400, 401, 404, 409} {
		r = newRig(t, retries, drop, status(code))
		raw := r.answer(streamBody)
		evs := events(t, raw)
		if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].get("response", "error", "message") != fmt.Sprintf("sorry for %d", code) {
			t.Errorf("%d: got %v in:\n%s", code, err, raw)
		}
		r.wantRequests(2)
	}
	// What came last before the end is passed on, too.
	r = newRig(t, retries, simulate.Scenario{Frames: append(numbered(createdA, addedMsg, deltaMsg), "data: {\"ta"), End: simulate.EndAbort})
	if _, raw, err := r.stream(streamBody); err == nil || !strings.HasSuffix(raw, `{"ta`) {
		t.Errorf("got %v behind:\n%s", err, raw)
	}
	// A client that left takes nothing from the budget of those that are there.
	r = newRigFor(t, rawUpstream(t, func(_ int, c net.Conn, _ *http.Request) { io.Copy(io.Discard, c) }), retries) //nolint:errcheck // until it goes
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if resp, err := r.post(ctx, streamBody); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, %v", resp, err)
	} else if resp != nil {
		resp.Body.Close()
	}
	r.settled(1)
	r.wantMetric(1, "doomproxy_attempts_total", "result", "client_gone")
}

// Waits are as long as the longer of what is asked for and the back-off, which
// grows; and the limit itself is no too long.
func TestWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		retry     proxy.Retry
		scenarios []simulate.Scenario
		least     time.Duration
	}{
		"asked for as much as allowed": {proxy.Retry{MaxWait: time.Second}, []simulate.Scenario{status(429, "Retry-After", "1"), fine}, time.Second},
		"longer than asked for":        {proxy.Retry{Backoff: proxy.BackoffFixed, FirstWait: 1500 * time.Millisecond}, []simulate.Scenario{status(503, "Retry-After", "1"), fine}, 1500 * time.Millisecond},
		"growing":                      {proxy.Retry{Backoff: proxy.BackoffLinear, FirstWait: 100 * time.Millisecond}, []simulate.Scenario{status(503), status(503), fine}, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *proxy.Config) { c.Retry = tc.retry; c.Retry.MaxRetries = 2 }, tc.scenarios...)
			start := time.Now()
			wantWhole(t, r, len(tc.scenarios))
			if took := time.Since(start); took < tc.least {
				t.Errorf("took %v, want at least %v", took, tc.least)
			}
		})
	}
}

// Healthy requests make room for retries, a fifth of their number.
func TestRetryBudgetGrowsWithRequests(t *testing.T) {
	r := newRig(t, retries)
	r.sim.Script = func(n int, _ *simulate.Request) simulate.Scenario {
		if n < 100 {
			return fine
		}
		return status(503)
	}
	for range 110 {
		r.stream(streamBody) //nolint:errcheck // the test counts
	}
	r.wantRequests(130) // ten requests with two retries each
}

// The last bytes have their time, also behind a quiet end.
func TestQuietEnd(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.ClientTimeout, c.Linger = 50*time.Millisecond, 200*time.Millisecond },
		simulate.Scenario{Frames: numbered(createdA, addedMsg, deltaMsg, doneA), End: simulate.EndHang})
	r.answer(streamBody)
}

// A body that passes through may take its time between its parts, but not for
// ever.
func TestPassedBodyThatDoesNotCome(t *testing.T) {
	for _, path := range []string{"/v1/files", "/v1/responses"} {
		r := newRig(t, func(c *proxy.Config) { c.MaxMemory, c.ClientTimeout = 64<<10, time.Second })
		head := "POST " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100001\r\n\r\n" + strings.Repeat("x", 100_000)
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, head) //nolint:errcheck // see the answer
		<-time.After(50 * time.Millisecond)
		io.WriteString(conn, "x") //nolint:errcheck // likewise
		if raw, err := io.ReadAll(conn); err != nil || len(r.upstream(0).Body) != 100_001 {
			t.Errorf("%s: got %v behind %.200q", path, err, raw)
		}
		conn, err = net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, head) //nolint:errcheck // likewise
		r.settled(2)
	}
}

// Observing changes nothing of an answer.
func TestObservedDocument(t *testing.T) {
	url := rawUpstream(t, func(_ int, c net.Conn, _ *http.Request) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}") //nolint:errcheck // see the answer
	})
	r := newRigFor(t, url, func(c *proxy.Config) { c.Mode = proxy.ModeObserve })
	if resp, raw, err := r.stream(streamBody); err != nil || resp.StatusCode != http.StatusOK || raw != "{}" {
		t.Errorf("got %d, %q, %v", resp.StatusCode, raw, err)
	}
}

// An upstream whose certificate is not trusted is asked once.
func TestUntrustedCertificateIsNotTriedAgain(t *testing.T) {
	var handshakes atomic.Int32
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.Config.ErrorLog = log.New(io.Discard, "", 0)
	up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			handshakes.Add(1)
		}
	}
	up.StartTLS()
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, retries)
	if resp, raw, err := r.stream(streamBody); err != nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
	}
	if n := handshakes.Load(); n != 1 {
		t.Errorf("got %d connections, want 1", n)
	}
}
