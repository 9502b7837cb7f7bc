package proxy_test

import (
	"context"
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

// numbered sets the sequence numbers that frame leaves open.
func numbered(stream ...string) []string {
	for i := range stream {
		stream[i] = strings.Replace(stream[i], `"sequence_number":#`, fmt.Sprintf(`"sequence_number":%d`, i), 1)
	}
	return stream
}

var (
	createdA = frame("response.created", `"response":{"id":"resp_a"}`)
	addedMsg = frame("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message"}`)
	deltaMsg = frame("response.output_text.delta", `"output_index":0,"delta":"hi"`)
	failedEv = frame("error", `"code":"server_error","message":"hm"`)
	doneA    = frame("response.completed", `"response":{"id":"resp_a","output":[]}`)
)

// What came before an answer broke off reaches the client, also when all of it
// came at once.
func TestBrokenAnswerIsSentAsFarAsItCame(t *testing.T) {
	stream := strings.Join(numbered(createdA, addedMsg, deltaMsg), "")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(stream)))
		io.WriteString(w, stream) //nolint:errcheck // the client sees it
	}))
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, nil)
	for range 20 {
		if _, raw, err := r.stream(streamBody); err == nil || raw != stream {
			t.Fatalf("got %q and %v, want %q and a dropped connection", raw, err, stream)
		}
	}
}

// An error event is the end only if the stream ends behind it.
func TestErrorEventThatIsNotTheEnd(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Frames: numbered(createdA, failedEv, addedMsg, deltaMsg)})
	if _, raw, err := r.stream(streamBody); err == nil {
		t.Errorf("got a clean end, want a dropped connection, behind:\n%s", raw)
	}
	want := numbered(createdA, failedEv, "event: ping\ndata: {}\n\n")
	r = newRig(t, nil, simulate.Scenario{Frames: want})
	if got := r.answer(streamBody); got != strings.Join(want, "") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A further attempt that says nothing is no answer, although nothing of the
// response was sent before.
func TestNothingBehindACut(t *testing.T) {
	for name, b := range map[string][]string{"empty": {}, "comment": {": hm\n\n"}, "ping": {"event: ping\ndata: {}\n\n"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, simulate.Scenario{Frames: []string{check("tail_repetition:8@thinking")}}, simulate.Scenario{Frames: b})
			raw := r.answer(streamBody)
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.failed" {
				t.Errorf("got %v, %v, want response.failed at the end", types(evs), err)
			}
		})
	}
}

// A frame that is too long does no harm behind the terminal event.
func TestOversizedFrameBehindTheEnd(t *testing.T) {
	long := "data: " + strings.Repeat("x", 5000) + "\n\n"
	for name, tc := range map[string]struct {
		scenarios []simulate.Scenario
		outcome   string
	}{
		"first attempt": {[]simulate.Scenario{{Frames: append(numbered(createdA, doneA), long), End: simulate.EndHang}}, "clean"},
		"resample":      {[]simulate.Scenario{loop(), {Frames: append(numbered(createdA, doneA), long)}}, "recovered"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) { c.MaxFrame, c.Linger = 4096, 50*time.Millisecond }, tc.scenarios...)
			r.answer(streamBody)
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", tc.outcome)
		})
	}
}

// Nothing the upstream writes gets into the log, whatever net/http makes of it.
func TestLogTellsNothingOfTheUpstream(t *testing.T) {
	for name, answer := range map[string]string{
		"status":   "HTTP/1.1 2x0-SECRET OK\r\n\r\n",
		"protocol": "SECRET\r\n\r\n",
		"header":   "HTTP/1.1 200 OK\r\nSECRET header\r\n\r\n",
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: SECRET\r\n\r\n",
		"encoding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: SECRET\r\n\r\n",
		"chunk":    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nSECRET\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			url := rawUpstream(t, func(_ int, conn net.Conn, _ *http.Request) { io.WriteString(conn, answer) }) //nolint:errcheck // see the answer
			r := newRigFor(t, url, nil)
			for _, body := range []string{streamBody, plainBody, "no JSON"} {
				if resp, err := r.post(t.Context(), body); err == nil { // it may well be dropped
					io.Copy(io.Discard, resp.Body) //nolint:errcheck // likewise
					resp.Body.Close()
				}
			}
			r.settled(3)
			if log := r.log.String(); strings.Contains(log, "SECRET") || strings.Count(log, `"error":`) == 0 {
				t.Errorf("the log tells too much, or nothing: %s", log)
			}
		})
	}
}

// A status that is no final one is no answer.
func TestStatusThatIsNoAnswer(t *testing.T) {
	for _, status := range []string{"000", "042", "099", "101"} {
		url := rawUpstream(t, func(_ int, conn net.Conn, _ *http.Request) {
			fmt.Fprintf(conn, "HTTP/1.1 %s What\r\nContent-Length: 0\r\n\r\n", status)
		})
		r := newRigFor(t, url, nil)
		for _, body := range []string{streamBody, "no JSON"} {
			if status == "101" && body != streamBody {
				continue // net/http's own affair
			}
			if resp, raw, err := r.stream(body); err != nil || resp.StatusCode != http.StatusBadGateway {
				t.Errorf("%s: got %d, %q, %v, want 502", status, resp.StatusCode, raw, err)
			}
		}
	}
}

// The request id is on each answer, also behind informational ones.
func TestRequestIDBehindInformationalAnswers(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, nil)
	for _, path := range []string{"/v1/models", "/", "/v1/responses"} {
		resp, err := client.Get(r.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if ids := resp.Header.Values("X-Doomproxy-Request-Id"); len(ids) != 1 || len(ids[0]) != 24 {
			t.Errorf("%s: got request ids %q", path, ids)
		}
	}
}

// A handler that panics is no success.
func TestPanicIsNotClean(t *testing.T) {
	h := inProcess(t, func(*http.Request) io.Reader { panic("a fault") })
	func() {
		defer func() {
			if cause := recover(); cause != "a fault" {
				t.Errorf("got %v, want the panic passed on", cause)
			}
		}()
		ask(h)
	}()
}

// Who leaves while it sends its request is gone, not rejected.
func TestClientLeavesWhileItSends(t *testing.T) {
	r := newRig(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	conn.Close()
	r.settled(1)
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "client_gone")
	r.wantRequests(0)
}

// A log record is short, whatever a client sends.
func TestLogRecordIsBounded(t *testing.T) {
	r := newRig(t, nil)
	req, err := http.NewRequest(strings.Repeat("M", 10_000), r.url+"/"+strings.Repeat("p", 100_000), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	r.settled(1)
	if n := len(r.log.String()); n > 2000 {
		t.Errorf("got a record of %d bytes", n)
	}
}

// The line end of a swallowed event may come in two parts; the second is no
// sign of life.
func TestKeepAliveBehindASplitLineEnd(t *testing.T) {
	b := simulate.Scenario{LineEnd: "\r\n"}
	r := newRig(t, func(c *proxy.Config) { c.KeepAlive = 5 * time.Millisecond })
	reached, release := make(chan struct{}), make(chan struct{})
	r.sim.Script = func(n int, req *simulate.Request) simulate.Scenario {
		if n == 0 {
			return loop()
		}
		sc := b
		sc.Split = func(stream []byte) [][]byte {
			cut := strings.Index(string(stream), "\r\n\r\n") + 3 // in the line end of response.created
			return [][]byte{stream[:cut], stream[cut : cut+1], stream[cut+1:]}
		}
		sc.Before = func(write int) {
			if write == 2 {
				close(reached)
				select {
				case <-release:
				case <-req.Gone:
				}
			}
		}
		return sc
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := r.post(ctx, streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-reached
	for range 5 {
		waitFor(resp.Body, ": keepalive\n\n")
	}
	close(release)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
}

// Of a key that is there twice the last one counts, as it does for clients.
func TestDuplicateType(t *testing.T) {
	double := "data: {\"type\":\"response.output_text.delta\",\"type\":\"response.doom_loop_check\",\"doom_loop_check\":{\"triggers\":[\"low_logprob@thinking\"]}}\n\n"
	stream := numbered(createdA, doneA)
	r := newRig(t, nil, simulate.Scenario{Frames: []string{stream[0], double, stream[1]}})
	if got := r.answer(streamBody); got != stream[0]+stream[1] {
		t.Errorf("got %q, want the check frame swallowed", got)
	}
}
