package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/simulate"
	"github.com/klauspost/compress/zstd"
)

// bomb returns a body of 10 GiB as it is sent with an encoding: many times the
// same compressed 64 MiB, as both formats allow.
func bomb(t *testing.T, encoding string) []byte {
	t.Helper()
	const size, times = 64 << 20, 160
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if encoding == "zstd" {
		enc, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = enc
	}
	blank := bytes.Repeat([]byte{' '}, 1<<20)
	for range size / len(blank) {
		if _, err := w.Write(blank); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(b.Bytes(), times)
}

// A small body that would become 10 GiB is refused at the limit.
func TestDecompressionBombs(t *testing.T) {
	for _, encoding := range []string{"gzip", "zstd", "gzip, gzip"} {
		t.Run(encoding, func(t *testing.T) {
			body := string(bomb(t, strings.TrimPrefix(encoding, "gzip, ")))
			if encoding == "gzip, gzip" {
				body = encode(t, "gzip", body)
			}
			r := newRig(t, nil)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			resp, raw, err := r.stream(body, "Content-Encoding", encoding)
			runtime.ReadMemStats(&after)
			if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(raw, `"request_too_large"`) {
				t.Errorf("got %d, %s, %v, want 413", resp.StatusCode, raw, err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v for %d bytes", took, len(body))
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 400<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
			r.wantRequests(0)
		})
	}
}

// exchangeRaw sends bytes to a proxy and returns all that it answers.
func exchangeRaw(t *testing.T, url, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // it is TCP
	io.WriteString(conn, request)                      //nolint:errcheck // see the answer
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("got %v behind %q", err, answer)
	}
	return string(answer)
}

// What two readers could take for different requests reaches the upstream in one
// reading, or not at all.
func TestRequestSmuggling(t *testing.T) {
	const line = "POST /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(streamBody), streamBody)
	for name, tc := range map[string]struct {
		request string
		status  string // "" if there may be none
		bodies  []string
	}{
		"both lengths":         {line + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, "200", []string{streamBody}},
		"two lengths":          {line + "Content-Length: 4\r\nContent-Length: 40\r\n\r\n" + streamBody, "400", nil},
		"a length of two":      {line + "Content-Length: 4, 40\r\n\r\n" + streamBody, "400", nil},
		"a signed length":      {line + "Content-Length: +4\r\n\r\n" + streamBody, "400", nil},
		"an unknown encoding":  {line + "Transfer-Encoding: xchunked\r\n\r\n" + chunked, "501", nil},
		"two encodings":        {line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked, "501", nil},
		"a blank in a name":    {line + "Content-Length : 4\r\n\r\n" + streamBody, "400", nil},
		"a bare line feed":     {line + "X: a\nContent-Length: 0\r\n\r\n", "", []string{""}},
		"a bad chunk size":     {line + "Transfer-Encoding: chunked\r\n\r\n" + "4 \r\nwhat\r\nG\r\n\r\n", "400", nil},
		"a request in a chunk": {line + "Transfer-Encoding: chunked\r\n\r\n" + "1a\r\nGET /admin HTTP/1.1\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			answer := exchangeRaw(t, r.url, tc.request)
			if !strings.HasPrefix(answer, "HTTP/1.1 "+tc.status) {
				t.Errorf("got %.200q, want status %s", answer, tc.status)
			}
			for i, req := range r.sim.Requests() {
				if req.Path != "/v1/responses" || tc.bodies != nil && (i >= len(tc.bodies) || string(req.Body) != tc.bodies[i]) {
					t.Errorf("the upstream got %s with %q", req.Path, req.Body)
				}
			}
			if tc.status >= "400" {
				r.wantRequests(0)
			}
		})
	}
}

// Headers that speak of a connection end at it, both ways, also those that a
// Connection header names; nobody gets to name the upstream.
func TestHeadersOfAConnectionEndThere(t *testing.T) {
	seen := make(chan *http.Request, 2)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the test looks at the headers
		seen <- r
		w.Header().Set("Connection", "X-Inner")
		w.Header().Set("X-Inner", "secret")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("X-Doomproxy-Request-Id", "forged")
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, createdA+doneA) //nolint:errcheck // likewise
	}))
	t.Cleanup(up.Close)
	for _, body := range []string{streamBody, "no JSON"} {
		r := newRigFor(t, up.URL, nil)
		answer := exchangeRaw(t, r.url, "POST /v1/responses HTTP/1.1\r\nHost: elsewhere.example\r\n"+
			"Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: gzip\r\nProxy-Authorization: Basic x\r\nProxy-Connection: close\r\n"+
			"X-Forwarded-Host: elsewhere.example\r\nForwarded: host=elsewhere.example\r\nX-Doomproxy-Upstream: http://elsewhere.example\r\n"+
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
		got := <-seen
		if got.Host != strings.TrimPrefix(up.URL, "http://") {
			t.Errorf("got host %q upstream", got.Host)
		}
		for _, name := range []string{"X-Hop", "Keep-Alive", "Te", "Proxy-Authorization", "Proxy-Connection", "X-Forwarded-Host", "Forwarded", "X-Doomproxy-Upstream"} {
			if _, ok := got.Header[name]; ok {
				t.Errorf("got %s upstream", name)
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for _, name := range []string{"X-Inner", "Keep-Alive", "Proxy-Authenticate"} {
			if _, ok := resp.Header[name]; ok {
				t.Errorf("the client got %s", name)
			}
		}
		if ids := resp.Header.Values("X-Doomproxy-Request-Id"); len(ids) != 1 || ids[0] == "forged" {
			t.Errorf("got request ids %q", ids)
		}
	}
}

// What an upstream writes into its headers makes no further header or answer.
func TestResponseHeadersInjectNothing(t *testing.T) {
	for name, header := range map[string]string{
		"a bare carriage return": "X-A: a\rX-B: injected\r\n",
		"a folded line":          "X-A: a\r\n X-B: injected\r\n",
		"a NUL":                  "X-A: a\x00X-B: injected\r\n",
		"a colon in front":       ": X-B: injected\r\n",
		"a blank in a name":      "X B: injected\r\n",
		"escapes":                "X-A: %0d%0aX-B:%20injected\r\n",
		"other line ends":        "X-A: a\u2028X-B: injected\u0085X-B: injected\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			url := rawUpstream(t, func(_ int, conn net.Conn, _ *http.Request) {
				stream := createdA + doneA
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: id\u2028\x1b[31m\r\n%sContent-Length: %d\r\n\r\n%s", header, len(stream), stream)
			})
			r := newRigFor(t, url, nil)
			for _, body := range []string{streamBody, "no JSON"} {
				resp, _, err := r.stream(body)
				if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusBadGateway {
					t.Errorf("got %d, %v", resp.StatusCode, err)
				}
				if resp.Header.Get("X-B") != "" {
					t.Errorf("got headers %v", resp.Header)
				}
			}
			r.settled(2)
			if log := r.log.String(); strings.Contains(log, "\x1b") || strings.Contains(log, `\u001b`) || strings.Contains(log, "injected") {
				t.Errorf("the log repeats what the upstream wrote: %s", log)
			}
		})
	}
}

// Neither the log nor the metrics tell what a client or a model wrote, whatever
// becomes of the request.
func TestNothingSecretIsWritten(t *testing.T) {
	const secret = "CANARY"
	thinks := func(sc simulate.Scenario) simulate.Scenario {
		sc.Thinking = []string{secret + " thinks "}
		sc.Message = secret + " says"
		return sc
	}
	failed := thinks(simulate.Scenario{Failure: &simulate.Failure{After: 4, Message: secret + " failed"}})
	refused := simulate.Scenario{Status: 400, Body: `{"error":{"message":"` + secret + ` refused","code":"` + secret + `"}}`}
	down := simulate.Scenario{Status: 503, Body: secret, Header: map[string]string{"X-Request-Id": "id", "X-Other": secret}}
	for name, scenarios := range map[string][]simulate.Scenario{
		"answer":  {thinks(simulate.Scenario{Calls: []simulate.Call{{Name: secret, Arguments: `{"a":"` + secret + `"}`}}})},
		"loop":    {thinks(loop()), thinks(simulate.Scenario{})},
		"gave up": {thinks(loop()), refused},
		"refused": {refused},
		"failed":  {failed},
		"dropped": {thinks(simulate.Scenario{Limit: 6, End: simulate.EndAbort})},
		"down":    {down},
		"away":    {{End: simulate.EndRefuse}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, retries, scenarios...)
			bodies := []string{
				`{"model":"m","stream":true,"input":"` + secret + `","instructions":"` + secret + `"}`,
				`{"model":"m","input":"` + secret + `"}`,
				`{"model":"m","stream":true,"background":true,"input":"` + secret + `"}`,
				`{"` + secret,
			}
			for _, body := range bodies {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/responses?key="+secret, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				for _, header := range []string{"Authorization", "Api-Key", "X-Api-Key", "Cookie", "X-Doomproxy-Token", "User-Agent", "Idempotency-Key"} {
					req.Header.Set(header, secret)
				}
				if resp, err := client.Do(req); err == nil { // it may well be dropped
					io.Copy(io.Discard, resp.Body) //nolint:errcheck // likewise
					resp.Body.Close()
				}
			}
			r.settled(len(bodies))
			until(t, "the last record", func() bool { return strings.Count(r.log.String(), "\n") >= len(bodies) })
			families, err := r.reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			if log := r.log.String(); strings.Contains(log, secret) || strings.Count(log, "\n") != len(bodies) {
				t.Errorf("the log tells too much, or not all: %s", log)
			}
			if metrics := fmt.Sprint(families); strings.Contains(metrics, secret) || !strings.Contains(metrics, "doomproxy_requests_total") {
				t.Errorf("the metrics tell too much: %s", metrics)
			}
		})
	}
}
