package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
)

// What is protected, and why the rest is not.
func TestClassification(t *testing.T) {
	deep := `{"stream":true,"input":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`
	for _, tc := range []struct {
		name, method, path, body string
		headers                  []string
		reason                   string // "" for protected
	}{
		{"plain", "POST", "/v1/responses", streamBody, nil, ""},
		{"no /v1", "POST", "/responses", streamBody, nil, ""},
		{"deep path", "POST", "/backend-api/codex/responses", streamBody, nil, ""},
		{"trailing slash", "POST", "/v1/responses/", streamBody, nil, ""},
		{"any Accept", "POST", "/v1/responses", streamBody, []string{"Accept", "text/event-stream"}, ""},
		{"no content type", "POST", "/v1/responses", streamBody, []string{"Content-Type", ""}, ""},
		{"white space", "POST", "/v1/responses", " \n{ \"stream\" :\ttrue }\n", nil, ""},
		{"conversation null", "POST", "/v1/responses", `{"stream":true,"conversation":null,"background":false}`, nil, ""},
		{"identity", "POST", "/v1/responses", streamBody, []string{"Content-Encoding", "identity"}, ""},
		{"other path", "POST", "/v1/chat/completions", streamBody, nil, "path"},
		{"below responses", "POST", "/v1/responses/compact", streamBody, nil, "path"},
		{"GET", "GET", "/v1/responses", "", nil, "path"},
		{"stream is text", "POST", "/v1/responses", `{"stream":"true"}`, nil, "body"},
		{"no JSON", "POST", "/v1/responses", `{"stream":true`, nil, "body"},
		{"no object", "POST", "/v1/responses", `["stream",true]`, nil, "body"},
		{"empty", "POST", "/v1/responses", ``, nil, "body"},
		{"two values", "POST", "/v1/responses", streamBody + streamBody, nil, "body"},
		{"stream twice", "POST", "/v1/responses", `{"stream":true,"stream":true}`, nil, "body"},
		{"input twice", "POST", "/v1/responses", `{"stream":true,"input":"a","input":"b"}`, nil, "body"},
		{"stream twice, once escaped", "POST", "/v1/responses", `{"stream":true,"str\u0065am":false}`, nil, "body"},
		{"input escaped", "POST", "/v1/responses", `{"stream":true,"inp\u0075t":"a"}`, nil, "body"},
		{"nested absurdly", "POST", "/v1/responses", deep, nil, "body"},
		{"compressed", "POST", "/v1/responses", streamBody, []string{"Content-Encoding", "zstd"}, "body"},
		{"background", "POST", "/v1/responses", `{"stream":true,"background":true}`, nil, "background"},
		{"conversation", "POST", "/v1/responses", `{"stream":true,"conversation":"conv_1"}`, nil, "conversation"},
		{"conversation object", "POST", "/v1/responses", `{"stream":true,"conversation":{"id":"conv_1"}}`, nil, "conversation"},
		{"off", "POST", "/v1/responses", streamBody, []string{"X-Doomproxy-Recovery", "off"}, "off"},
		{"deferred", "POST", "/v1/responses", streamBody, []string{"X-Grok-Doom-Loop-Check", "1024"}, "deferred"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			req, err := http.NewRequest(tc.method, r.url+tc.path, strings.NewReader(tc.body))
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
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			if got := string(r.upstream(0).Body); got != tc.body {
				t.Errorf("got body %.200q upstream, want it unchanged", got)
			}
			if resp.Header.Get("X-Doomproxy-Request-Id") == "" {
				t.Error("the answer carries no request id")
			}
			r.settled(1)
			if tc.reason == "" {
				r.wantMetric(0, "doomproxy_unprotected_total")
				r.wantMetric(1, "doomproxy_requests_total", "protection", "protected")
				return
			}
			r.wantMetric(1, "doomproxy_unprotected_total", "reason", tc.reason)
			r.wantMetric(0, "doomproxy_requests_total", "protection", "protected")
		})
	}
}

// Tombstones are dropped from every list of items that goes upstream, protected
// or not; where there is none no byte changes.
func TestScrub(t *testing.T) {
	const tombstone = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + recovery.TombstonePrefix + `AAAA"}`
	for _, path := range []string{"/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/conversations", "/v1/conversations/c/items"} {
		for _, key := range []string{"input", "items"} {
			body := `{ "stream":true, "a" : 1,"` + key + `":[ ` + tombstone + ` , {"role":"user"} ,` + tombstone + `] }`
			want := `{ "stream":true, "a" : 1,"` + key + `":[ {"role":"user"}] }`
			r := newRig(t, nil)
			for _, headers := range [][]string{nil, {"X-Doomproxy-Recovery", "off"}} {
				req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(headers); i += 2 {
					req.Header.Set(headers[i], headers[i+1])
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			for n := range 2 {
				if got := string(r.upstream(n).Body); got != want {
					t.Errorf("%s: got %s upstream, want %s", path, got, want)
				}
				if r.upstream(n).Header.Get("X-Doomproxy-Recovery") != "" {
					t.Errorf("%s: a header meant for the proxy went upstream", path)
				}
			}
			r.settled(2)
			r.wantMetric(4, "doomproxy_scrubbed_items_total", "reason", "tombstone")
		}
	}
}

// Answers to inspected requests that are no event stream come through as they
// are, with status and headers.
func TestOtherAnswers(t *testing.T) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	fmt.Fprint(zw, strings.Join(loop().Stream(0, []byte(streamBody)), ""))
	zw.Close()
	for _, tc := range []struct {
		name        string
		status      int
		contentType string
		encoding    string
		body        string
		outcome     string
	}{
		{"400", 400, "application/json", "", `{"error":{"message":"no"}}`, "upstream_error"},
		{"429", 429, "application/json", "", `{"error":{"code":"rate_limit_exceeded"}}`, "upstream_error"},
		{"500", 500, "text/html", "", "<html>oops</html>", "upstream_error"},
		{"200 without a type", 200, "", "", "data: {}\n\n", "clean"},
		{"202 JSON", 202, "application/json", "", `{"id":"resp_1"}`, "clean"},
		{"201 stream", 201, "text/event-stream", "", "data: a\n\n", "clean"},
		{"gzip though identity was asked", 200, "text/event-stream", "gzip", packed.String(), "clean"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = nil
				if tc.contentType != "" {
					w.Header().Set("Content-Type", tc.contentType)
				}
				if tc.encoding != "" {
					w.Header().Set("Content-Encoding", tc.encoding)
				}
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tc.status)
				io.WriteString(w, tc.body) //nolint:errcheck // the client sees it
			}))
			t.Cleanup(up.Close)
			r := newRigFor(t, up.URL, nil)
			resp, raw, err := r.stream(streamBody)
			if err != nil || resp.StatusCode != tc.status || raw != tc.body {
				t.Errorf("got %d, %q, %v, want %d, %q", resp.StatusCode, raw, err, tc.status, tc.body)
			}
			if resp.Header.Get("Content-Type") != tc.contentType || resp.Header.Get("Content-Encoding") != tc.encoding || resp.Header.Get("Retry-After") != "7" {
				t.Errorf("got headers %v", resp.Header)
			}
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", tc.outcome, "code", fmt.Sprint(tc.status))
			r.wantMetric(map[bool]float64{true: 1}[tc.encoding != ""], "doomproxy_unprotected_total", "reason", "body")
		})
	}
}

// An upstream that cannot be reached is a 502 in the API's shape.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, body := range []string{streamBody, `{"stream":false}`} {
		r := newRigFor(t, "http://"+l.Addr().String(), nil)
		resp, raw, err := r.stream(body)
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, `"type":"proxy_error"`) || !strings.Contains(raw, `"code":"upstream_unreachable"`) {
			t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
		}
		if strings.Contains(raw, l.Addr().String()) {
			t.Errorf("the client is told the upstream's address: %s", raw)
		}
		r.settled(1)
		r.wantMetric(1, "doomproxy_requests_total", "outcome", "upstream_error", "code", "502")
	}
}

// What passes through may answer before it was asked in full.
func TestPassThroughIsFullDuplex(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex() //nolint:errcheck // the test fails
		buf := make([]byte, 64)
		for {
			n, err := r.Body.Read(buf)
			w.Write(buf[:n]) //nolint:errcheck // the client sees it
			rc.Flush()       //nolint:errcheck // the client sees it
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, nil)
	pr, pw := io.Pipe()
	go fmt.Fprint(pw, "first")
	resp, err := client.Post(r.url+"/v1/audio", "", pr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, part := range []string{"first", "second"} {
		got := make([]byte, len(part))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != part {
			t.Fatalf("got %q, %v, want %q", got, err, part)
		}
		if part == "first" {
			go func() {
				fmt.Fprint(pw, "second")
				pw.Close()
			}()
		}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Errorf("got %q, %v at the end", rest, err)
	}
}

func TestBodyLimit(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.MaxBody = int64(len(streamBody)) })
	r.answer(streamBody)
	for name, body := range map[string]io.Reader{
		"announced": strings.NewReader(streamBody + " "),
		"chunked":   io.MultiReader(strings.NewReader(streamBody), strings.NewReader(" ")),
	} {
		resp, err := client.Post(r.url+"/v1/responses", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(raw), `"code":"request_too_large"`) || !strings.Contains(string(raw), fmt.Sprint(len(streamBody))) {
			t.Errorf("%s: got %d, %s", name, resp.StatusCode, raw)
		}
	}
	r.wantRequests(1)
	r.settled(3)
	r.wantMetric(2, "doomproxy_requests_total", "outcome", "rejected", "code", "413")
}

func TestRootTellsWhatThisIs(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.AdminURL = "http://127.0.0.1:3667/" })
	resp, err := client.Get(r.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	if lines := strings.Split(strings.TrimSpace(string(raw)), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "doomproxy") || !strings.Contains(lines[1], "http://127.0.0.1:3667/") {
		t.Errorf("got %q, want two lines", raw)
	}
	r.wantRequests(0)
}

// A frame beyond the bound ends the inspection, not the stream.
func TestOversizedFrame(t *testing.T) {
	stream := []string{
		strings.Replace(frame("response.created", `"response":{"id":"resp_a"}`), "#", "0", 1),
		"data: " + strings.Repeat("x", 5000) + "\n\n",
		check("tail_repetition:8@thinking"),
		strings.Replace(frame("response.completed", `"response":{"id":"resp_a"}`), "#", "1", 1),
	}
	r := newRig(t, func(c *proxy.Config) { c.MaxFrame = 4096 }, simulate.Scenario{Frames: stream})
	if got, want := r.answer(streamBody), strings.Join(stream, ""); got != want {
		t.Errorf("got %d bytes, want the stream as it is, %d", len(got), len(want))
	}
	r.settled(1)
	r.wantMetric(1, "doomproxy_oversized_frames_total")
	r.wantMetric(1, "doomproxy_unprotected_total", "reason", "oversized_frame")
	t.Run("behind a splice", func(t *testing.T) {
		r := newRig(t, func(c *proxy.Config) { c.MaxFrame = 4096 }, loop(), simulate.Scenario{Frames: stream})
		raw := r.answer(streamBody)
		evs := events(t, raw)
		if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.failed" {
			t.Errorf("got %v, %v, want response.failed at the end", types(evs), err)
		}
	})
	t.Run("deferred", func(t *testing.T) {
		r := newRig(t, func(c *proxy.Config) { c.MaxFrame = 4096 }, simulate.Scenario{Frames: stream})
		if got, want := r.answer(streamBody, "X-Grok-Doom-Loop-Check", "512"), strings.Join(stream, ""); got != want {
			t.Errorf("got %d bytes, want the stream as it is, %d", len(got), len(want))
		}
	})
}

// While no attempt sends, the client is kept alive: with comments, and later
// with an event that says nothing new.
func TestKeepAlive(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, func(c *proxy.Config) { c.KeepAlive, c.ProgressAfter = 5*time.Millisecond, 20*time.Millisecond })
	r.sim.Script = func(n int, req *simulate.Request) simulate.Scenario {
		if n == 0 {
			return loop()
		}
		return simulate.Scenario{Before: func(write int) {
			switch write {
			case 2: // behind the lifecycle events, which the client does not see
				select {
				case <-release:
				case <-req.Gone:
				}
			case 5: // an upstream that is slow now and then
				<-time.After(50 * time.Millisecond)
			}
		}}
	}
	resp, err := r.post(t.Context(), streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var seen bytes.Buffer
	body := io.TeeReader(resp.Body, &seen)
	waitFor(body, "doomproxy resample=1")
	waitFor(body, ": keepalive\n\n")
	waitFor(body, "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\"")
	close(release)
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	raw := seen.String()
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Errorf("%v in:\n%s", err, raw)
	}
	_, after, _ := strings.Cut(raw, `"output_index":1`)
	if strings.Contains(after, "keepalive") {
		t.Error("got a keep-alive while an attempt was sending")
	}
}

// Behind its terminal event a stream may go on for a moment, not for ever.
func TestLinger(t *testing.T) {
	t.Run("more comes", func(t *testing.T) {
		sc := simulate.Scenario{DoneMarker: true}
		r := newRig(t, nil, sc)
		if got := r.answer(streamBody); !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("got %q at the end", got[len(got)-40:])
		}
	})
	t.Run("no end comes", func(t *testing.T) {
		r := newRig(t, func(c *proxy.Config) { c.Linger = 20 * time.Millisecond }, simulate.Scenario{End: simulate.EndHang})
		raw := r.answer(streamBody)
		if err := checkI3(raw, events(t, raw)); err != nil {
			t.Error(err)
		}
		within(t, 100*time.Millisecond, "closing the upstream", r.upstream(0).Done)
		r.settled(1)
		r.wantMetric(1, "doomproxy_requests_total", "outcome", "clean")
	})
	t.Run("the client leaves with its answer", func(t *testing.T) {
		r := newRig(t, func(c *proxy.Config) { c.Linger = time.Minute }, simulate.Scenario{End: simulate.EndHang})
		resp, err := r.post(t.Context(), streamBody)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(simulate.Scenario{}.Stream(0, []byte(streamBody)), "")
		if _, err := io.ReadFull(resp.Body, make([]byte, len(all))); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		r.settled(1)
		r.wantMetric(1, "doomproxy_requests_total", "outcome", "clean", "code", "200")
	})
}

// What the counters say of one recovered request.
func TestAccounting(t *testing.T) {
	r := newRig(t, nil, loop(), simulate.Scenario{Message: "fine"})
	raw := r.answer(streamBody)
	r.settled(1)
	evs := events(t, raw)
	usage, _ := evs[len(evs)-1].get("response", "usage").(map[string]any)
	r.wantMetric(usage["input_tokens"].(float64), "doomproxy_tokens_total", "type", "input")
	r.wantMetric(usage["output_tokens"].(float64), "doomproxy_tokens_total", "type", "output")
	r.wantMetric(1, "doomproxy_attempts_total", "kind", "first", "result", "cut")
	r.wantMetric(1, "doomproxy_attempts_total", "kind", "resample", "result", "accepted")
	r.wantMetric(1, "doomproxy_steps_total", "position", "turn_start")
	r.wantMetric(1, "doomproxy_time_to_abort_seconds")
	r.wantMetric(1, "doomproxy_resample_gap_seconds")
	r.wantMetric(2, "doomproxy_upstream_first_byte_seconds")
	r.wantMetric(1, "doomproxy_request_duration_seconds", "outcome", "recovered")
	r.wantMetric(0, "doomproxy_requests_in_flight")
	var sent int
	for _, f := range frames(t, string(r.upstream(0).Reply())) {
		sent += len(f)
	}
	if got := r.metric("doomproxy_discarded_bytes_total"); got <= 0 || got > float64(sent) {
		t.Errorf("got %v discarded bytes, want up to %d", got, sent)
	}
	if got := r.metric("doomproxy_discarded_tokens_estimated_total"); got <= 0 || got > float64(sent)/4 {
		t.Errorf("got %v discarded tokens", got)
	}
	sentOn := r.metric("doomproxy_frames_total", "action", "forwarded") + r.metric("doomproxy_frames_total", "action", "rewritten") +
		r.metric("doomproxy_frames_total", "action", "synthesized")
	if want := float64(len(frames(t, raw))); sentOn != want {
		t.Errorf("got %v frames sent on, want %v", sentOn, want)
	}
	r.wantMetric(1, "doomproxy_frames_total", "action", "discarded")
	r.wantMetric(2, "doomproxy_frames_total", "action", "swallowed")
	log := r.log.String()
	for _, want := range []string{`"outcome":"recovered"`, `"attempts":2`, `"cuts":1`, `"signals":["tail_repetition:64@thinking"]`, `"status":200`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
	if strings.Count(log, "\n") != 1 {
		t.Errorf("got more than one record: %s", log)
	}
}
