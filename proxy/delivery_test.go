package proxy_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
	"github.com/klauspost/compress/zstd"
)

// Held back, a cut attempt leaves no trace: the client has the accepted one's
// bytes, and comments at most.
func TestHold(t *testing.T) {
	fine := simulate.Scenario{Message: "fine", Calls: []simulate.Call{{Name: "read"}}}
	for _, tc := range []struct {
		name      string
		scenarios []simulate.Scenario
	}{
		{"no loop", []simulate.Scenario{fine}},
		{"a loop", []simulate.Scenario{loop(), fine}},
		{"two loops", []simulate.Scenario{loop(), loop(), fine}},
		{"budget spent", []simulate.Scenario{loop(), loop(), finite()}},
		{"nothing visible", []simulate.Scenario{loop(), {NoMessage: true}}},
		{"fails", []simulate.Scenario{loop(), {Failure: &simulate.Failure{After: 5}}}},
		{"CRLF", []simulate.Scenario{loop(), {LineEnd: "\r\n"}}},
	} {
		for _, perRequest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", tc.name, perRequest), func(t *testing.T) {
				var headers []string
				r := newRig(t, func(c *proxy.Config) {
					if !perRequest {
						c.Delivery = proxy.DeliveryHold
					}
				}, tc.scenarios...)
				if perRequest {
					headers = []string{"X-Doomproxy-Delivery", "hold"}
				}
				n := len(tc.scenarios) - 1
				raw := r.answer(streamBody, headers...)
				var want []string
				for _, f := range tc.scenarios[n].Stream(n, r.upstream(n).Body) {
					if !strings.Contains(f, "event: response.doom_loop_check") {
						want = append(want, f)
					}
				}
				if raw != strings.Join(want, "") {
					t.Errorf("got\n%s\nwant\n%s", raw, strings.Join(want, ""))
				}
				r.wantRequests(n + 1)
				r.settled(1)
				r.wantMetric(0, "doomproxy_frames_total", "action", "rewritten")
				r.wantMetric(0, "doomproxy_requests_in_flight")
				if n > 0 && r.metric("doomproxy_frames_total", "action", "discarded") < float64(5*n) {
					t.Error("what was held back of cut attempts is not counted as discarded")
				}
			})
		}
	}
}

// A request may ask for live delivery where holding is configured.
func TestHoldTurnedOff(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.Delivery = proxy.DeliveryHold }, loop(), simulate.Scenario{})
	if raw := r.answer(streamBody, "X-Doomproxy-Delivery", "live"); !strings.Contains(raw, recovery.TombstonePrefix) {
		t.Errorf("got no tombstone in:\n%s", raw)
	}
}

// A client that waits long is told that its response has begun, and keeps that
// response's id.
func TestHoldThatTakesLong(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, func(c *proxy.Config) {
		c.Delivery = proxy.DeliveryHold
		c.KeepAlive, c.ProgressAfter = 5*time.Millisecond, 20*time.Millisecond
	})
	r.sim.Script = func(n int, req *simulate.Request) simulate.Scenario {
		if n > 0 {
			return simulate.Scenario{Message: "fine"}
		}
		sc := loop()
		sc.Before = func(write int) {
			if write == 5 {
				select {
				case <-release:
				case <-req.Gone:
				}
			}
		}
		return sc
	}
	resp, err := r.post(t.Context(), streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var seen bytes.Buffer
	body := io.TeeReader(resp.Body, &seen)
	waitFor(body, "event: response.in_progress")
	close(release)
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	raw := seen.String()
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Errorf("%v in:\n%s", err, raw)
	}
	if strings.Contains(raw, "Wait, let me") || strings.Contains(raw, recovery.TombstonePrefix) {
		t.Errorf("the discarded attempt left a trace in:\n%s", raw)
	}
	compareSpliced(t, raw, 1, simulate.Scenario{Message: "fine"}.Stream(1, r.upstream(1).Body))
}

// Past its bound, what is held back goes out, and the delivery is live.
func TestHoldBound(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.Delivery, c.HoldMaxBytes = proxy.DeliveryHold, 3000 }, loop(), simulate.Scenario{})
	raw := r.answer(streamBody)
	if err := checkI3(raw, events(t, raw)); err != nil || !strings.Contains(raw, recovery.TombstonePrefix) {
		t.Errorf("got %v, want a live splice in:\n%s", err, raw)
	}
}

const plainBody = `{"model":"m","input":"hi"}`

// A client that asks for no stream is recovered too, and gets what a plain call
// gives.
func TestNonStreaming(t *testing.T) {
	fine := simulate.Scenario{Message: "fine", Calls: []simulate.Call{{Name: "read"}}}
	emptied := fine
	emptied.EmptyOutput = true
	for _, tc := range []struct {
		name      string
		body      string
		scenarios []simulate.Scenario
		outcome   string
	}{
		{"stream absent", plainBody, []simulate.Scenario{fine}, "clean"},
		{"stream false", `{"stream":false,"input":"hi"}`, []simulate.Scenario{fine}, "clean"},
		{"stream null", `{"stream":null,"input":"hi"}`, []simulate.Scenario{fine}, "clean"},
		{"terminal output empty", plainBody, []simulate.Scenario{emptied}, "clean"},
		{"a loop", plainBody, []simulate.Scenario{loop(), fine}, "recovered"},
		{"two loops", plainBody, []simulate.Scenario{loop(), sealedLoop(""), emptied}, "recovered"},
		{"incomplete", plainBody, []simulate.Scenario{{Incomplete: "max_output_tokens"}}, "clean"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil, tc.scenarios...)
			resp, raw, err := r.stream(tc.body)
			if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("got %d, %v, %v: %s", resp.StatusCode, resp.Header, err, raw)
			}
			n := len(tc.scenarios) - 1
			last := tc.scenarios[n]
			last.EmptyOutput = false
			evs := events(t, strings.Join(last.Stream(n, r.upstream(n).Body), ""))
			var got map[string]any
			if err := json.Unmarshal([]byte(raw), &got); err != nil {
				t.Fatal(err)
			}
			if want := evs[len(evs)-1].get("response"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			for _, req := range r.sim.Requests() {
				if !strings.Contains(string(req.Body), `"stream":true`) {
					t.Errorf("request %d asks for no stream: %s", req.Ordinal, req.Body)
				}
			}
			r.wantRequests(n + 1)
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "protection", "protected", "outcome", tc.outcome)
		})
	}
}

// Failures come back as the HTTP errors that a plain call would have had.
func TestNonStreamingFailures(t *testing.T) {
	for _, tc := range []struct {
		name     string
		scenario simulate.Scenario
		status   int
		contains string
		requests int
	}{
		{"401", simulate.Scenario{Status: 401, Body: `{"error":{"code":"bad_key"}}`}, 401, "bad_key", 1},
		{"429", simulate.Scenario{Status: 429, Body: `{"error":{"code":"slow_down"}}`}, 429, "slow_down", 1},
		{"500", simulate.Scenario{Status: 500, Body: `{"error":{"code":"oops"}}`}, 500, "oops", 1},
		{"in-band server error", simulate.Scenario{Failure: &simulate.Failure{Message: "sorry"}}, 500, "sorry", 1},
		{"in-band rate limit", simulate.Scenario{Failure: &simulate.Failure{Code: "rate_limit_exceeded"}}, 429, "rate_limit_exceeded", 1},
		{"in-band invalid", simulate.Scenario{Failure: &simulate.Failure{Code: "invalid_prompt"}}, 400, "invalid_prompt", 1},
		{"error event", simulate.Scenario{Failure: &simulate.Failure{Event: simulate.FailureError, After: 3}}, 500, "server_error", 1},
		{"no terminal event", simulate.Scenario{Limit: 6}, 502, "upstream_broke_off", 1},
		{"dropped", simulate.Scenario{Limit: 6, End: simulate.EndAbort}, 502, "upstream_broke_off", 1},
		{"nothing", simulate.Scenario{Frames: []string{}}, 502, "upstream_broke_off", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil, tc.scenario)
			resp, raw, err := r.stream(plainBody)
			if err != nil || resp.StatusCode != tc.status || !strings.Contains(raw, tc.contains) || !json.Valid([]byte(raw)) {
				t.Errorf("got %d, %s, %v, want %d with %s", resp.StatusCode, raw, err, tc.status, tc.contains)
			}
			r.wantRequests(tc.requests)
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "upstream_error", "code", fmt.Sprint(tc.status))
		})
	}
}

// An upstream that makes no stream gets the client's own bytes, and is not
// asked for one again.
func TestNonStreamingRefused(t *testing.T) {
	refuse := simulate.Scenario{Status: 400, Body: `{"error":{"param":"stream","message":"Your organization must be verified to stream this model."}}`}
	r := newRig(t, nil, refuse, simulate.Scenario{Message: "fine"})
	for range 2 {
		if raw := r.answer(plainBody); !strings.Contains(raw, "fine") || !json.Valid([]byte(raw)) {
			t.Errorf("got %s", raw)
		}
	}
	r.wantRequests(3)
	r.settled(2)
	r.wantMetric(2, "doomproxy_unprotected_total", "reason", "body")
	for _, n := range []int{1, 2} {
		if got := string(r.upstream(n).Body); got != plainBody {
			t.Errorf("request %d: got %s, want the client's own", n, got)
		}
	}
	t.Run("refused anyway", func(t *testing.T) {
		r := newRig(t, nil, refuse)
		for range 2 {
			resp, raw, err := r.stream(plainBody)
			if err != nil || resp.StatusCode != 400 || !strings.Contains(raw, "verified") {
				t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
			}
		}
		r.wantRequests(4) // it was not about the stream, so nothing is remembered
	})
}

func TestNonStreamingPassesThrough(t *testing.T) {
	for name, change := range map[string]func(*proxy.Config){
		"configured": func(c *proxy.Config) { c.NonStreaming = proxy.NonStreamingPassthrough },
		"observing":  func(c *proxy.Config) { c.Mode = proxy.ModeObserve },
		"off":        func(c *proxy.Config) { c.Mode = proxy.ModeOff },
	} {
		r := newRig(t, change)
		r.answer(plainBody)
		if got := string(r.upstream(0).Body); got != plainBody {
			t.Errorf("%s: got %s upstream, want the client's own", name, got)
		}
	}
}

func encode(t *testing.T, encoding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "bare deflate":
		w, err = flate.NewWriter(&b, flate.BestSpeed)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Compressed bodies are looked into; what is not changed goes on as it came.
func TestCompressedBodies(t *testing.T) {
	tombstone := `{"stream":true,"input":[{"type":"reasoning","encrypted_content":"` + recovery.TombstonePrefix + `AA"},{"role":"user"}]}`
	for _, encoding := range []string{"gzip", "deflate", "bare deflate", "br", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			name := strings.TrimPrefix(encoding, "bare ")
			wire := encode(t, encoding, streamBody)
			r := newRig(t, nil, loop(), simulate.Scenario{Message: "fine"})
			raw := r.answer(wire, "Content-Encoding", name)
			if err := checkI3(raw, events(t, raw)); err != nil {
				t.Errorf("%v in:\n%s", err, raw)
			}
			if got := r.upstream(0); string(got.Body) != wire || got.Header.Get("Content-Encoding") != name {
				t.Errorf("the first request was changed")
			}
			if got := r.upstream(1); got.Header.Get("Content-Encoding") != "" || !slices.Equal(kinds(input(t, got)), []string{"user", "reasoning", "reminder"}) {
				t.Errorf("got %s upstream, encoding %q", got.Body, got.Header.Get("Content-Encoding"))
			}
			r = newRig(t, nil)
			r.answer(encode(t, encoding, tombstone), "Content-Encoding", name, "Content-MD5", "x")
			if got := r.upstream(0); string(got.Body) != `{"stream":true,"input":[{"role":"user"}]}` || got.Header.Get("Content-Encoding") != "" || got.Header.Get("Content-Md5") != "" {
				t.Errorf("got %s upstream, headers %v", got.Body, got.Header)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		r := newRig(t, nil)
		r.answer(encode(t, "zstd", encode(t, "gzip", streamBody)), "Content-Encoding", "gzip, zstd")
		r.settled(1)
		r.wantMetric(1, "doomproxy_requests_total", "protection", "protected")
	})
	t.Run("not what it says", func(t *testing.T) {
		for _, encoding := range []string{"gzip", "zstd", "br", "deflate", "lzma", "gzip,gzip,gzip"} {
			r := newRig(t, nil)
			r.stream("\x00not encoded at all", "Content-Encoding", encoding) //nolint:errcheck // what the upstream makes of it
			if got := r.upstream(0); string(got.Body) != "\x00not encoded at all" || got.Header.Get("Content-Encoding") != encoding {
				t.Errorf("%s: the request was changed: %q", encoding, got.Body)
			}
		}
	})
	t.Run("too large once decoded", func(t *testing.T) {
		for _, encoding := range []string{"gzip", "zstd", "br", "deflate"} {
			r := newRig(t, func(c *proxy.Config) { c.MaxBody = 1 << 20 })
			resp, _, _ := r.stream(encode(t, encoding, strings.Repeat(" ", 1<<20+1)), "Content-Encoding", encoding)
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: got %d, want 413", encoding, resp.StatusCode)
			}
			r.wantRequests(0)
		}
	})
}

// A client that leaves while it is kept waiting is noticed like any other.
func TestClientGoneBeforeItIsSentAnything(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		headers []string
	}{
		"held":  {streamBody, []string{"X-Doomproxy-Delivery", "hold"}},
		"whole": {plainBody, nil},
	} {
		for attempts, first := range map[int][]simulate.Scenario{1: nil, 2: {loop()}} {
			t.Run(fmt.Sprintf("%s/%d", name, attempts), func(t *testing.T) {
				thinking := make(chan *simulate.Request, 1)
				r := newRig(t, nil)
				r.sim.Script = func(n int, req *simulate.Request) simulate.Scenario {
					if n < len(first) {
						return first[n]
					}
					return simulate.Scenario{Limit: 6, End: simulate.EndHang, Before: func(write int) {
						if write == 5 {
							thinking <- req
						}
					}}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan struct{})
				go func() {
					defer close(done)
					if resp, err := r.post(ctx, tc.body, tc.headers...); err == nil {
						io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is cancelled
						resp.Body.Close()
					}
				}()
				req := <-thinking
				cancel()
				within(t, 100*time.Millisecond, "closing the upstream", req.Done)
				<-done
				r.settled(1)
				r.wantRequests(attempts)
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "client_gone")
				r.wantMetric(0, "doomproxy_requests_in_flight")
			})
		}
	}
}

// What is held back of an answer that breaks off, or loops for the last time
// without an end, is not sent: the client is told that the response failed.
func TestHeldAnswerThatFails(t *testing.T) {
	noEnd := simulate.Scenario{Loop: &simulate.Loop{Every: 1, Deltas: 1, Triggers: []string{"tail_repetition:8@thinking"}, Then: simulate.ThenEOF}}
	for name, scenarios := range map[string][]simulate.Scenario{
		"ends":        {{Limit: 6}},
		"dropped":     {{Limit: 6, End: simulate.EndAbort}},
		"after a cut": {loop(), {Limit: 6}},
		"loops on":    {noEnd},
		"refused":     {loop(), {Status: 400}, {Status: 400}, {Status: 400}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) { c.Delivery = proxy.DeliveryHold }, scenarios...)
			raw := r.answer(streamBody)
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil || !slices.Equal(types(evs), []string{"response.created", "response.failed"}) {
				t.Errorf("got %v, %v, want response.created and response.failed", types(evs), err)
			}
		})
	}
}

// Held back or not, a frame that is too long ends the inspection alone.
func TestHeldOversizedFrame(t *testing.T) {
	stream := append(simulate.Scenario{}.Stream(0, []byte(streamBody))[:5], "data: "+strings.Repeat("x", 5000)+"\n\n", doneA)
	hold := func(c *proxy.Config) { c.Delivery, c.MaxFrame = proxy.DeliveryHold, 4096 }
	r := newRig(t, hold, simulate.Scenario{Frames: stream})
	if got, want := r.answer(streamBody), strings.Join(stream, ""); got != want {
		t.Errorf("got %d bytes, want the stream as it is, %d", len(got), len(want))
	}
	r = newRig(t, hold, loop(), simulate.Scenario{Frames: stream})
	if got, want := r.answer(streamBody), strings.Join(stream, ""); got != want {
		t.Errorf("behind a cut: got %d bytes, want the stream as it is, %d", len(got), len(want))
	}
	r = newRig(t, func(c *proxy.Config) { c.MaxFrame = 4096 }, simulate.Scenario{Frames: stream})
	if resp, raw, err := r.stream(plainBody); err != nil || resp.StatusCode != http.StatusBadGateway || !json.Valid([]byte(raw)) {
		t.Errorf("whole: got %d, %s, %v, want 502", resp.StatusCode, raw, err)
	}
}

// An upstream that answers plainly although it was asked for a stream is
// passed on.
func TestWholeAnswerOfAnUpstreamThatDoesNotStream(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Status: 201, Body: `{"id":"resp_1","output":[]}`})
	if resp, raw, err := r.stream(plainBody); err != nil || resp.StatusCode != 201 || raw != `{"id":"resp_1","output":[]}` {
		t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
	}
	r.wantRequests(1)
}

// After a cut a client without a stream is told of a failure by a status.
func TestWholeAnswerThatFailsAfterACut(t *testing.T) {
	r := newRig(t, nil, loop(), simulate.Scenario{Status: 500, Body: `{"error":{"message":"sorry","code":"server_error"}}`})
	resp, raw, err := r.stream(plainBody)
	if err != nil || resp.StatusCode != http.StatusInternalServerError || !strings.Contains(raw, "sorry") {
		t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
	}
	r.settled(1)
	r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "gave_up")
}
