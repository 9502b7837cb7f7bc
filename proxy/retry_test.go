package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// retries allows two, with next to no wait between them.
func retries(c *proxy.Config) {
	c.Retry = proxy.Retry{MaxRetries: 2, FirstWait: time.Millisecond}
}

// status is a plain answer with an error that no other has.
func status(code int, headers ...string) simulate.Scenario {
	sc := simulate.Scenario{
		Status: code,
		Body:   fmt.Sprintf(`{"error": {"message":"sorry for %d","code":"oops"} }`, code),
		Header: map[string]string{"X-Request-Id": "req_1"},
	}
	for i := 0; i < len(headers); i += 2 {
		sc.Header[headers[i]] = headers[i+1]
	}
	return sc
}

// Each answer with an error is made again, or passed on as it is at once. Those
// that are made again are passed on as they are when the budget is spent.
func TestRetryOfStatuses(t *testing.T) {
	quota := status(429)
	quota.Body = `{"error":{"code":"insufficient_quota"}}`
	quotaType, billing := status(429), status(429)
	quotaType.Body = `{"error":{"code":429,"type":"insufficient_quota"}}`
	billing.Body = `{"error":{"code":"billing_hard_limit_reached"}}`
	for _, tc := range []struct {
		name    string
		answer  simulate.Scenario
		failure string // empty: passed on at once
	}{
		{"429", status(429), "rate_limit"},
		{"429 with a wait", status(429, "Retry-After", "0"), "rate_limit"},
		{"429 with a wait that is too long", status(429, "Retry-After", "31"), ""},
		{"429 until a date that is too far", status(429, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), ""},
		{"429 out of quota", quota, ""},
		{"429 out of quota, by its type", quotaType, ""},
		{"429 beyond a billing limit", billing, ""},
		{"503 that Should Not Be Retried", status(503, "X-Should-Retry", "False"), ""},
		{"500", status(500), "server"},
		{"502", status(502), "server"},
		{"503", status(503), "server"},
		{"504", status(504), "server"},
		{"520", status(520), "server"},
		{"521", status(521), "server"},
		{"522", status(522), "server"},
		{"523", status(523), "server"},
		{"524", status(524), "server"},
		{"529", status(529), "server"},
		{"530", status(530), "server"},
		{"501", status(501), ""},
		{"525", status(525), ""},
		{"526", status(526), ""},
		{"400", status(400), ""},
		{"401", status(401), ""},
		{"403", status(403), ""},
		{"404", status(404), ""},
		{"408", status(408), ""},
		{"409", status(409), ""},
		{"413", status(413), ""},
		{"422", status(422), ""},
		{"400 that should be retried", status(400, "X-Should-Retry", "true"), ""},
		{"503 that should not be retried", status(503, "X-Should-Retry", "false"), ""},
		{"429 that should not be retried", status(429, "X-Should-Retry", "false"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, body := range []string{streamBody, plainBody} {
				requests := map[bool]int{true: 3, false: 1}[tc.failure != ""]
				streamless := body == plainBody && tc.failure == "" // the client's own request is made, too
				if code := tc.answer.Status; streamless && (code == 400 || code == 403 || code == 404 || code == 422) {
					requests = 2
				}
				r := newRig(t, retries, tc.answer)
				resp, raw, err := r.stream(body)
				if err != nil || resp.StatusCode != tc.answer.Status || raw != tc.answer.Body || resp.Header.Get("X-Request-Id") != "req_1" {
					t.Errorf("got %d, %q, %v, want the upstream's answer", resp.StatusCode, raw, err)
				}
				r.wantRequests(requests)
				r.settled(1)
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "upstream_error", "code", fmt.Sprint(tc.answer.Status))
				if tc.failure == "" {
					continue
				}
				r.wantMetric(1, "doomproxy_attempts_total", "kind", "first", "result", tc.failure)
				r.wantMetric(1, "doomproxy_attempts_total", "kind", "retry", "result", tc.failure)

				r = newRig(t, retries, tc.answer, simulate.Scenario{Message: "fine"})
				if raw := r.answer(body); !strings.Contains(raw, "fine") || strings.Contains(raw, "doomproxy") {
					t.Errorf("got %q, want the second answer and nothing else", raw)
				}
				r.wantRequests(2)
				if a, b := string(r.upstream(0).Body), string(r.upstream(1).Body); a != b {
					t.Errorf("got %s upstream, want %s again", b, a)
				}
				r.settled(1)
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "retried")
			}
		})
	}
}

// Each failure in a stream is made again inside of the client's response.
func TestRetryOfStreams(t *testing.T) {
	failure := func(after int, event, code string) simulate.Scenario {
		return simulate.Scenario{Failure: &simulate.Failure{After: after, Event: event, Code: code, Message: "sorry"}}
	}
	empty := simulate.Scenario{NoMessage: true}
	emptyOutput := simulate.Scenario{NoMessage: true, EmptyOutput: true}
	idle := simulate.Scenario{End: simulate.EndHang, Limit: 5}
	onIdle := func(c *proxy.Config) {
		retries(c)
		c.Retry.On, c.Retry.IdleTimeout = proxy.Failures(), 50*time.Millisecond
		c.Silence = 100 * time.Millisecond // for the last attempt
	}
	for _, tc := range []struct {
		name   string
		change func(*proxy.Config)
		a      simulate.Scenario
		reason string // empty: not retried
	}{
		{"refused", nil, simulate.Scenario{End: simulate.EndRefuse}, "connect"},
		{"dropped behind the head", nil, simulate.Scenario{Frames: []string{}, End: simulate.EndAbort}, "drop"},
		{"dropped behind response.created", nil, simulate.Scenario{Limit: 1, End: simulate.EndAbort}, "drop"},
		{"dropped while thinking", nil, simulate.Scenario{Limit: 6, End: simulate.EndAbort}, "drop"},
		{"ended behind the head", nil, simulate.Scenario{Frames: []string{}}, "drop"},
		{"ended behind a comment", nil, simulate.Scenario{Frames: []string{": hi\n\n"}}, "drop"},
		{"ended behind response.created", nil, simulate.Scenario{Limit: 1}, "drop"},
		{"ended while thinking", nil, simulate.Scenario{Limit: 6}, "drop"},
		{"response.failed", nil, failure(2, simulate.FailureResponse, "server_error"), "failed_event"},
		{"response.failed at once", nil, failure(0, simulate.FailureResponse, "server_is_overloaded"), "failed_event"},
		{"response.failed while thinking", nil, failure(6, simulate.FailureResponse, "rate_limit_exceeded"), "failed_event"},
		{"error", nil, failure(1, simulate.FailureError, "vector_store_timeout"), "failed_event"},
		{"status 529 in an error", nil, failure(1, simulate.FailureError, "529"), "failed_event"},
		{"status 599 in an error", nil, failure(1, simulate.FailureError, "599"), "failed_event"},
		{"status 600 in an error", nil, failure(1, simulate.FailureError, "600"), ""},
		{"nested error", nil, failure(6, simulate.FailureErrorNested, "503"), "failed_event"},
		{"error of the client's", nil, failure(2, simulate.FailureResponse, "invalid_prompt"), ""},
		{"error with a status of the client's", nil, failure(2, simulate.FailureError, "400"), ""},
		{"out of quota", nil, failure(2, simulate.FailureError, "insufficient_quota"), ""},
		{"empty", nil, empty, "empty"},
		{"empty, and so is its output", nil, emptyOutput, "empty"},
		{"incomplete", nil, simulate.Scenario{NoMessage: true, Incomplete: "max_output_tokens"}, ""},
		{"filtered", nil, simulate.Scenario{NoMessage: true, Incomplete: "content_filter"}, ""},
		{"idle", onIdle, idle, "idle"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := tc.change
			if change == nil {
				change = retries
			}
			b := simulate.Scenario{Message: "fine", Calls: []simulate.Call{{Name: "f"}}}
			for _, headers := range [][]string{nil, {"x-doomproxy-delivery", "hold"}} {
				r := newRig(t, change, tc.a, b)
				raw := r.answer(streamBody, headers...)
				if tc.reason == "" {
					r.wantRequests(1)
					continue
				}
				r.wantRequests(2)
				if err := checkI3(raw, events(t, raw)); err != nil || !strings.Contains(raw, "fine") {
					t.Errorf("%v in:\n%s", err, raw)
				}
				comment := fmt.Sprintf(": doomproxy retry=1 reason=%s\n\n", tc.reason)
				if got := strings.Count(raw, comment); got != 1 && tc.reason != "connect" && headers == nil {
					t.Errorf("got the comment %d times in:\n%s", got, raw)
				}
				if headers != nil && strings.Contains(raw, "doomproxy") {
					t.Errorf("hold: got a trace of the first attempt:\n%s", raw)
				}
				if a, b := string(r.upstream(0).Body), string(r.upstream(1).Body); a != b {
					t.Errorf("got %s upstream, want the same again, %s", b, a)
				}
				r.settled(1)
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "retried", "code", "200")
				r.wantMetric(1, "doomproxy_attempts_total", "kind", "first", "result", tc.reason)
				r.wantMetric(1, "doomproxy_attempts_total", "kind", "retry", "result", "accepted")
				r.wantMetric(0, "doomproxy_recoveries_total")
			}
			// Without a stream.
			r := newRig(t, change, tc.a, b)
			if resp, raw, err := r.stream(plainBody); tc.reason != "" && (err != nil || resp.StatusCode != 200 || !strings.Contains(raw, "fine")) {
				t.Errorf("plain: got %d, %q, %v, want the second answer", resp.StatusCode, raw, err)
			}
			// And again and again.
			r = newRig(t, change, tc.a)
			resp, raw, err := r.stream(streamBody)
			if tc.reason == "" {
				r.wantRequests(1)
				return
			}
			r.wantRequests(3)
			evs := events(t, raw)
			switch {
			case tc.reason == "connect":
				if resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, `"proxy_error"`) {
					t.Errorf("got %d, %q, want 502", resp.StatusCode, raw)
				}
			case tc.reason == "failed_event": // passed on as it came
				if last := evs[len(evs)-1].typ(); err != nil || last != "response.failed" && last != "error" {
					t.Errorf("got %v, %v at the end", err, last)
				}
			case err != nil || checkI3(raw, evs) != nil:
				t.Errorf("got %v, %v in:\n%s", err, checkI3(raw, evs), raw)
			case (evs[len(evs)-1].typ() == "response.failed") != (tc.reason != "empty"):
				t.Errorf("got %s at the end", evs[len(evs)-1].typ())
			}
		})
	}
}

// What is configured decides, and what is not protected is left alone.
func TestRetryOnlyWhereItIsWanted(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*proxy.Config)
		body    string
		headers []string
	}{
		"no retries":     {func(c *proxy.Config) { c.Retry.MaxRetries = 0 }, streamBody, nil},
		"another kind":   {func(c *proxy.Config) { c.Retry.On = []proxy.Failure{proxy.FailureConnect} }, streamBody, nil},
		"none":           {func(c *proxy.Config) { c.Retry.On = []proxy.Failure{} }, streamBody, nil},
		"observed":       {func(c *proxy.Config) { c.Mode = proxy.ModeObserve }, streamBody, nil},
		"off":            {func(c *proxy.Config) { c.Mode = proxy.ModeOff }, streamBody, nil},
		"off by request": {nil, streamBody, []string{"x-doomproxy-recovery", "off"}},
		"deferred":       {nil, streamBody, []string{"x-grok-doom-loop-check", "1024"}},
		"background":     {nil, `{"stream":true,"background":true}`, nil},
		"no JSON":        {nil, "what?", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) {
				retries(c)
				if tc.change != nil {
					tc.change(c)
				}
			}, status(503), simulate.Scenario{})
			if resp, raw, _ := r.stream(tc.body, tc.headers...); resp.StatusCode != 503 {
				t.Errorf("got %d, %q, want 503", resp.StatusCode, raw)
			}
			r.wantRequests(1)
		})
	}
}

// What broke off once something was visible can't be made again, nor does it look
// complete.
func TestNoRetryBehindVisible(t *testing.T) {
	for _, end := range []string{simulate.EndAbort, simulate.EndEOF} {
		r := newRig(t, retries, simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: end}, simulate.Scenario{})
		if _, raw, err := r.stream(streamBody); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(raw, "output_text.delta") {
			t.Errorf("%s: got %v, want a dropped connection behind what came:\n%s", end, err, raw)
		}
		r.wantRequests(1)
	}
}

// The last answer that the upstream gave is passed on, also if the attempt after
// it got none.
func TestRetryPassesTheLastAnswerOn(t *testing.T) {
	r := newRig(t, retries, status(503), status(502), simulate.Scenario{End: simulate.EndRefuse})
	if resp, raw, err := r.stream(streamBody); err != nil || resp.StatusCode != 502 || raw != status(502).Body {
		t.Errorf("got %d, %q, %v, want the 502", resp.StatusCode, raw, err)
	}
	r.wantRequests(3)
}

// A Retry-After is waited for.
func TestRetryAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  simulate.Scenario
		maxWait time.Duration
		least   time.Duration
	}{
		"seconds":             {status(429, "Retry-After", "1"), 0, time.Second},
		"date":                {status(503, "Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat)), 0, 500 * time.Millisecond},
		"server, beyond it":   {status(503, "Retry-After", "3600"), 50 * time.Millisecond, 50 * time.Millisecond},
		"server, date beyond": {status(500, "Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT"), 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *proxy.Config) { retries(c); c.Retry.MaxWait = tc.maxWait }, tc.answer, simulate.Scenario{})
			start := time.Now()
			r.answer(streamBody)
			if took := time.Since(start); took < tc.least || took > tc.least+3*time.Second {
				t.Errorf("took %v, want at least %v", took, tc.least)
			}
			r.wantRequests(2)
		})
	}
}

// Loops and failures have budgets of their own.
func TestBothBudgets(t *testing.T) {
	b := simulate.Scenario{Message: "fine"}
	r := newRig(t, retries, loop(), status(503), simulate.Scenario{Limit: 6, End: simulate.EndAbort}, loop(), b)
	raw := r.answer(`{"stream":true,"input":[{"role":"user","content":"hi"}]}`)
	if err := checkI3(raw, events(t, raw)); err != nil || !strings.Contains(raw, "fine") {
		t.Errorf("%v in:\n%s", err, raw)
	}
	r.wantRequests(5)
	r.settled(1)
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "recovered")
	for kind, want := range map[string]float64{"first": 1, "retry": 2, "resample": 2} {
		r.wantMetric(want, "doomproxy_attempts_total", "kind", kind)
	}
	// What the loop taught is not lost on the way.
	for n, want := range []int{1, 3, 3, 3, 5} {
		if got := len(input(t, r.upstream(n))); got != want {
			t.Errorf("attempt %d: got %d items, want %d", n, got, want)
		}
	}
	// Both spent: one failure more is the end, and so is one loop more.
	r = newRig(t, retries, loop(), status(503), status(503), loop(), status(503))
	raw = r.answer(streamBody)
	if evs := events(t, raw); checkI3(raw, evs) != nil || evs[len(evs)-1].get("response", "error", "message") != "sorry for 503" {
		t.Errorf("got %v in:\n%s", checkI3(raw, evs), raw)
	}
	r.wantRequests(5)
	r = newRig(t, retries, loop(), status(503), status(503), loop(), finite())
	r.answer(streamBody)
	r.settled(1)
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "accepted_after_budget")
	r.wantRequests(5)
}

// A loop is a loop, however its stream ends.
func TestLoopIsNoFailure(t *testing.T) {
	sc := loop()
	sc.Loop.Then = simulate.ThenEOF
	r := newRig(t, func(c *proxy.Config) { retries(c); c.Policy.MaxRetries = 0 }, sc)
	raw := r.answer(streamBody)
	if evs := events(t, raw); evs[len(evs)-1].typ() != "response.failed" {
		t.Errorf("got %v, want response.failed at the end", types(evs))
	}
	r.wantRequests(1)
}

// What a failed attempt had sent does not come back later.
func TestFailedItemsDoNotComeBack(t *testing.T) {
	a := simulate.Scenario{ReasoningItems: 2}
	dropped, failed, empty := a, a, a
	dropped.Limit, dropped.End = 12, simulate.EndAbort
	failed.Failure = &simulate.Failure{After: 12}
	empty.NoMessage = true
	for name, sc := range map[string]simulate.Scenario{"drop": dropped, "failed_event": failed, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, retries, sc, simulate.Scenario{Message: "fine"}, simulate.Scenario{})
			var back []any
			for _, it := range doneItems(t, r.answer(streamBody)) {
				if it["type"] == "reasoning" {
					back = append(back, it)
				}
			}
			if len(back) < 2 {
				t.Fatalf("got %d reasoning items, want a discarded one and the answer's", len(back))
			}
			list, err := json.Marshal(back)
			if err != nil {
				t.Fatal(err)
			}
			r.answer(`{"stream":true,"input":` + string(list) + `}`)
			if got := input(t, r.upstream(2)); len(got) != 1 || got[0]["id"] != back[len(back)-1].(map[string]any)["id"] {
				t.Errorf("got %v upstream, want the answer's item alone", got)
			}
		})
	}
}

// In an outage the clients' requests are not multiplied.
func TestRetryBudgetOfAllRequests(t *testing.T) {
	r := newRig(t, retries, status(503))
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			resp, err := r.post(t.Context(), streamBody)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 503 {
				t.Errorf("got %d, %v, want 503", resp.StatusCode, err)
			}
		})
	}
	wg.Wait()
	if got := len(r.sim.Requests()); got < 210 || got > 240 {
		t.Errorf("got %d upstream requests of 200 clients, want 210 to 240", got)
	}
}

// A client that leaves while its request waits to be made again is gone at once,
// and nothing more is sent upstream for it.
func TestClientGoneInBackOff(t *testing.T) {
	for name, sc := range map[string]simulate.Scenario{
		"before anything was sent": status(503),
		"behind a drop":            {Limit: 4, End: simulate.EndAbort},
		"in a long Retry-After":    status(429, "Retry-After", "29"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) { retries(c); c.Retry.FirstWait = time.Hour }, sc)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for r.metric("doomproxy_requests_in_flight", "phase", "backoff") == 0 {
					<-tick.C
				}
				cancel()
			}()
			resp, err := r.post(ctx, streamBody)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want the client's own cancel", err)
			}
			start := time.Now()
			r.settled(1)
			if took := time.Since(start); took > 500*time.Millisecond {
				t.Errorf("the end took %v", took)
			}
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "client_gone", "code", "499")
			r.wantRequests(1)
		})
	}
}

// An idempotency key names the client's request: it goes with it as long as the
// upstream has not begun to answer that.
func TestRetryKeepsTheIdempotencyKey(t *testing.T) {
	for name, tc := range map[string]struct {
		a    simulate.Scenario
		want string
	}{
		"status": {status(503), "key-1"},
		"drop":   {simulate.Scenario{Limit: 4, End: simulate.EndAbort}, ""},
	} {
		r := newRig(t, retries, tc.a, simulate.Scenario{})
		r.answer(streamBody, "Idempotency-Key", "key-1", "Content-Md5", "sum")
		if got := r.upstream(1).Header.Get("Idempotency-Key"); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		if got := r.upstream(1).Header.Get("Content-Md5"); got != "sum" {
			t.Errorf("%s: got digest %q, want that of the same body", name, got)
		}
	}
}
