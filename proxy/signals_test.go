package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
)

// What the reports of one attempt lead to.
func TestSignals(t *testing.T) {
	terminal := func(label, incomplete string) simulate.Scenario {
		sc := simulate.Scenario{NoMessage: true, Incomplete: incomplete, Loop: &simulate.Loop{Deltas: 5, TerminalOnly: true, Triggers: []string{label}}}
		if incomplete != "" {
			sc.Loop.Then = simulate.ThenIncomplete
		}
		return sc
	}
	warn := func(channel string, labels ...string) simulate.Scenario {
		return simulate.Scenario{Loop: &simulate.Loop{Channel: channel, Every: 1, Triggers: labels, Then: simulate.ThenFinish}}
	}
	const confident = "tail_repetition:8@thinking"
	fine := simulate.Scenario{Message: "fine"}
	for _, tc := range []struct {
		name      string
		scenarios []simulate.Scenario
		retries   int
		requests  int
		outcome   string
		final     string // type of the last event
	}{
		{"confident in mid-stream", []simulate.Scenario{warn("", confident), fine}, 2, 2, "recovered", "response.completed"},
		{"confident among others", []simulate.Scenario{warn("", "low_logprob@thinking", "tail_repetition:65@thinking", "tail_repetition:64@thinking"), fine}, 2, 2, "recovered", "response.completed"},
		{"confident in response.completed only", []simulate.Scenario{terminal(confident, ""), fine}, 2, 2, "recovered", "response.completed"},
		{"confident in response.incomplete only", []simulate.Scenario{terminal(confident, "max_output_tokens"), fine}, 2, 2, "recovered", "response.completed"},
		{"incomplete stays incomplete", []simulate.Scenario{terminal(confident, "max_output_tokens")}, 1, 2, "accepted_after_budget", "response.incomplete"},
		{"too loose", []simulate.Scenario{warn("", "tail_repetition:65@thinking")}, 2, 1, "clean", "response.completed"},
		{"too tight to be loose", []simulate.Scenario{warn("response", "tail_repetition:2@response")}, 2, 1, "clean", "response.completed"},
		{"low_logprob", []simulate.Scenario{warn("", "low_logprob@thinking")}, 2, 1, "clean", "response.completed"},
		{"exact_repetition", []simulate.Scenario{warn("", "exact_repetition:80x3@thinking")}, 2, 1, "clean", "response.completed"},
		{"unknown kind", []simulate.Scenario{warn("", "spin:3@thinking")}, 2, 1, "clean", "response.completed"},
		{"three in a row", []simulate.Scenario{warn("", confident)}, 2, 3, "accepted_after_budget", "response.completed"},
		{"no budget", []simulate.Scenario{warn("", confident)}, 0, 1, "accepted_after_budget", "response.completed"},
		{"late", []simulate.Scenario{warn("response", confident)}, 2, 1, "late", "response.completed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) { c.Policy.MaxRetries = tc.retries }, tc.scenarios...)
			raw := r.answer(streamBody)
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil {
				t.Errorf("%v in:\n%s", err, raw)
			}
			if got := evs[len(evs)-1].typ(); got != tc.final {
				t.Errorf("got %s at the end, want %s", got, tc.final)
			}
			r.wantRequests(tc.requests)
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", tc.outcome, "code", "200", "protection", "protected", "model", "m")
			r.wantMetric(float64(tc.requests-1), "doomproxy_doom_aborts_total", "source", "upstream", "kind", "tail_repetition", "mode", "enforce")
			if tc.requests == 1 && tc.outcome == "clean" {
				r.wantMetric(0, "doomproxy_doom_signals_total", "confident", "true")
				r.wantMetric(1, "doomproxy_doom_signals_total", "confident", "false")
				r.wantMetric(0, "doomproxy_recoveries_total")
			} else {
				r.wantMetric(1, "doomproxy_recoveries_total", "outcome", tc.outcome)
			}
		})
	}
}

// The threshold is configurable, downwards.
func TestMaxThreshold(t *testing.T) {
	for threshold, want := range map[int]int{8: 2, 7: 1} {
		sc := simulate.Scenario{Loop: &simulate.Loop{Every: 1, Triggers: []string{"tail_repetition:8@thinking"}, Then: simulate.ThenFinish}}
		r := newRig(t, func(c *proxy.Config) { c.Policy = recovery.Policy{MaxRetries: 1, MaxThreshold: threshold} }, sc)
		r.answer(streamBody)
		r.wantRequests(want)
	}
}

// Reports that are not as the contract says are swallowed and counted, and
// what can be understood of them counts.
func TestMalformedReports(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		malformed  float64
		requests   int
	}{
		{"garbage", `{"type":`, 1, 1},
		{"no object", `[]`, 1, 1},
		{"no report", `{"type":"response.doom_loop_check"}`, 1, 1},
		{"triggers null", `{"doom_loop_check":{"triggers":null}}`, 1, 1},
		{"triggers text", `{"doom_loop_check":{"triggers":"tail_repetition:8@thinking"}}`, 1, 1},
		{"triggers object", `{"doom_loop_check":{"triggers":{"a":"tail_repetition:8@thinking"}}}`, 1, 1},
		{"triggers empty", `{"doom_loop_check":{"triggers":[]}}`, 1, 1},
		{"numbers only", `{"doom_loop_check":{"triggers":[1,2]}}`, 1, 1},
		{"a number and a label", `{"doom_loop_check":{"triggers":[1,"tail_repetition:8@thinking",{}]}}`, 1, 2},
		{"a label too long", `{"doom_loop_check":{"triggers":["tail_repetition:8@thinking","` + strings.Repeat("x", 300) + `"]}}`, 1, 2},
		{"well formed", `{"doom_loop_check":{"triggers":["tail_repetition:8@thinking"]}}`, 0, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := simulate.Scenario{Loop: &simulate.Loop{
				Raw: []string{"event: response.doom_loop_check\ndata: " + tc.data + "\n\n"}, Every: 1, Deltas: 2, Then: simulate.ThenFinish, Triggers: []string{},
			}}
			r := newRig(t, nil, sc, simulate.Scenario{})
			raw := r.answer(streamBody)
			if err := checkI3(raw, events(t, raw)); err != nil {
				t.Errorf("%v in:\n%s", err, raw)
			}
			r.wantRequests(tc.requests)
			r.settled(1)
			r.wantMetric(tc.malformed, "doomproxy_malformed_checks_total")
		})
	}
}

// A label comes from outside; nothing in it may reach the stream or the log.
func TestLabelInjectsNothing(t *testing.T) {
	label := "tail_repetition:8@thinking\n\nevent: response.failed\ndata: {\"type\":\"response.failed\"}\n\n"
	evil := "spin\r\n\r\ndata: owned\n\n\u0085\u2028\x00<script>"
	// The first is not confident, for its channel is not thinking alone.
	sc := simulate.Scenario{Loop: &simulate.Loop{Every: 1, Triggers: []string{evil, label, "tail_repetition:4@thinking"}}}
	r := newRig(t, nil, sc, simulate.Scenario{Message: "fine"})
	raw := r.answer(streamBody)
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Errorf("%v in:\n%s", err, raw)
	}
	if !strings.Contains(raw, ": doomproxy resample=1 trigger=tail_repetition:4@thinking\n\n") {
		t.Errorf("got no comment of the confident label in:\n%s", raw)
	}
	r.settled(1)
	for _, text := range []string{"owned", "script", "response.failed"} {
		if strings.Contains(raw, text+"\"") || strings.Contains(raw, "data: "+text) {
			t.Errorf("the stream holds %q", text)
		}
	}
	if log := r.log.String(); strings.Contains(log, `\n`) || strings.Contains(log, "<") || strings.Contains(log, `\u`) {
		t.Errorf("the log holds more than labels may: %s", log)
	}
	r.wantMetric(1, "doomproxy_doom_signals_total", "channel", "thinking")
	r.wantMetric(1, "doomproxy_doom_signals_total", "channel", "other", "kind", "tail_repetition")
}

// A confident report and then the end, without a terminal event, is a loop.
func TestLoopThatEndsWithoutTerminalEvent(t *testing.T) {
	for _, end := range []string{simulate.EndEOF, simulate.EndAbort} {
		t.Run(end, func(t *testing.T) {
			sc := simulate.Scenario{Loop: &simulate.Loop{Every: 1, Deltas: 1, Triggers: []string{"tail_repetition:8@thinking"}, Then: simulate.ThenEOF}, End: end}
			r := newRig(t, nil, sc, simulate.Scenario{Message: "fine"})
			raw := r.answer(streamBody)
			if evs := events(t, raw); checkI3(raw, evs) != nil || evs[len(evs)-1].typ() != "response.completed" {
				t.Errorf("got %v, want a recovery", types(evs))
			}
			r = newRig(t, nil, sc) // each attempt
			raw = r.answer(streamBody)
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.failed" {
				t.Errorf("got %v, %v, want response.failed at the end", types(evs), err)
			}
			r.wantRequests(3)
			r.settled(1)
			r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "gave_up")
		})
	}
	t.Run("nothing but a report", func(t *testing.T) {
		r := newRig(t, func(c *proxy.Config) { c.Policy.MaxRetries = 0 }, simulate.Scenario{Frames: []string{check("tail_repetition:8@thinking")}})
		raw := r.answer(streamBody)
		evs := events(t, raw)
		if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.failed" {
			t.Errorf("got %v, %v, want response.failed at the end", types(evs), err)
		}
	})
	t.Run("report without its blank line", func(t *testing.T) {
		healthy := simulate.Scenario{}.Stream(0, []byte(streamBody))
		check := "event: response.doom_loop_check\ndata: {\"type\":\"response.doom_loop_check\",\"doom_loop_check\":{\"triggers\":[\"tail_repetition:8@thinking\"]}}"
		r := newRig(t, nil, simulate.Scenario{Frames: append(slices.Clone(healthy[:5]), check)}, simulate.Scenario{Message: "fine"})
		raw := r.answer(streamBody)
		if err := checkI3(raw, events(t, raw)); err != nil {
			t.Errorf("%v in:\n%s", err, raw)
		}
		r.wantRequests(2)
	})
}

// Observing counts what would be cut, swallows reports, and cuts nothing.
func TestObserve(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.Mode = proxy.ModeObserve }, finite())
	raw := r.answer(streamBody)
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Errorf("%v in:\n%s", err, raw)
	}
	r.wantRequests(1)
	r.settled(1)
	r.wantMetric(1, "doomproxy_doom_aborts_total", "mode", "observe")
	r.wantMetric(0, "doomproxy_doom_aborts_total", "mode", "enforce")
	r.wantMetric(1, "doomproxy_requests_total", "protection", "observed", "outcome", "clean")
}

// Who asks for reports, of whom.
func TestSignalHeaders(t *testing.T) {
	const check, exact = "X-Grok-Doom-Loop-Check", "X-Grok-Exact-Repetition-Check"
	for _, tc := range []struct {
		name         string
		change       func(*proxy.Config)
		headers      []string
		check, exact string
		protection   string
		swallowed    bool
	}{
		{"default", nil, nil, "1024", "64", "protected", true},
		{"configured", func(c *proxy.Config) { c.WindowTokens, c.ExactRepetitionMinTokens = 512, 7 }, nil, "512", "7", "protected", true},
		{"never", func(c *proxy.Config) { c.SignalHeaders = proxy.SignalHeadersNever }, nil, "", "", "protected", true},
		{"observe", func(c *proxy.Config) { c.Mode = proxy.ModeObserve }, nil, "1024", "64", "observed", true},
		{"off", func(c *proxy.Config) { c.Mode = proxy.ModeOff }, nil, "", "", "passthrough", false},
		{"off for this request", nil, []string{"X-Doomproxy-Recovery", "off"}, "", "", "passthrough", false},
		{"client's own", nil, []string{check, "2048"}, "2048", "", "deferred", false},
		{"client's own, taken over", func(c *proxy.Config) { c.ClientOptIn = proxy.OptInOwn }, []string{check, "2048"}, "2048", "64", "protected", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := simulate.Scenario{Loop: &simulate.Loop{Every: 1, Triggers: []string{"low_logprob@thinking"}, Then: simulate.ThenFinish, Always: true}}
			r := newRig(t, tc.change, sc)
			raw := r.answer(streamBody, tc.headers...)
			h := r.upstream(0).Header
			if got := h.Get(check); got != tc.check {
				t.Errorf("got %s %q, want %q", check, got, tc.check)
			}
			if got := h.Get(exact); got != tc.exact {
				t.Errorf("got %s %q, want %q", exact, got, tc.exact)
			}
			whole := strings.Join(sc.Stream(0, []byte(streamBody)), "")
			if !tc.swallowed && raw != whole {
				t.Errorf("got\n%s\nwant\n%s", raw, whole)
			}
			if tc.swallowed && strings.Contains(raw, "event: response.doom_loop_check") {
				t.Error("a check frame came through")
			}
			r.settled(1)
			r.wantMetric(1, "doomproxy_requests_total", "protection", tc.protection, "outcome", "clean")
			signals := 1.0
			if tc.protection == "passthrough" {
				signals = 0
			}
			r.wantMetric(signals, "doomproxy_doom_signals_total")
		})
	}
}

// Those known to have no reports are not asked for any.
func TestSignalHeadersAuto(t *testing.T) {
	for host, want := range map[string]bool{
		"api.x.ai": true, "127.0.0.1:11434": true, "openrouter.ai": true, "notopenai.com": true,
		"api.openai.com": false, "API.OpenAI.com": false, "chatgpt.com": false, "x.openai.azure.com": false,
	} {
		var got http.Header
		r := newRigFor(t, "http://"+host, func(c *proxy.Config) {
			c.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
				got = req.Header
				return nil, fmt.Errorf("no network")
			})
		})
		r.stream(streamBody) //nolint:errcheck // a 502
		if asked := got.Get("X-Grok-Doom-Loop-Check") != ""; asked != want {
			t.Errorf("%s: got asked %v, want %v", host, asked, want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
