package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
)

// session is what an agent sends: a question, and the steps made since.
type session struct{ items []string }

func newSession() *session {
	return &session{items: []string{`{"type":"message","role":"user","content":[{"type":"input_text","text":"Is it done?"}]}`}}
}

// step adds a call and its result.
func (s *session) step(tool, args, result string) *session {
	n := len(s.items)
	s.items = append(s.items, fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":%q,"arguments":%q}`, n, tool, args),
		fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":%q}`, n, result))
	return s
}

func (s *session) repeat(n int, tool, args, result string) *session {
	for range n {
		s.step(tool, args, result)
	}
	return s
}

func (s *session) body() string {
	return `{"model":"m","stream":true, "input":[` + strings.Join(s.items, ",") + `],"store":false}`
}

// withTool is a request that ends in n times the same call.
func withTool(tool string, n int) string {
	return newSession().repeat(n, tool, `{"path":"a.go"}`, "package a").body()
}

// nudge returns the text of the last item, if that is a nudge.
func nudge(body string) string {
	last := gjson.Get(body, "input|@reverse|0")
	text := last.Get("content.0.text").Str
	if last.Get("role").Str != "user" || !strings.HasPrefix(text, "Automatic notice") {
		return ""
	}
	return text
}

// stops ends turns.
func stops(c *proxy.Config) { c.Stationarity.OnStop = stationarity.OnStopEnd }

// From a threshold on the agent is told, with the same text each time, at the very
// end; not one byte before that is changed. At the next one nothing changes unless
// the operator chose that.
func TestRepeatedCallsAreNudged(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{})
	said := ""
	for n := 1; n <= 10; n++ {
		body := withTool("read", n)
		r.answer(body)
		got := string(r.upstream(n - 1).Body)
		if n < 4 {
			if got != body {
				t.Errorf("%d calls: the request was changed: %s", n, got)
			}
			continue
		}
		text := nudge(got)
		if said == "" {
			said = text
		}
		if text == "" || text != said {
			t.Errorf("%d calls: got the nudge %q, want the same each time: %q", n, text, said)
		}
		end := strings.LastIndex(body, "]")
		if rest := body[end:]; !strings.HasPrefix(got, body[:end]+",{") || !strings.HasSuffix(got, rest) {
			t.Errorf("%d calls: more than the end of the input was changed: %s", n, got)
		}
	}
	r.settled(10)
	r.wantMetric(7, "doomproxy_stationarity_total")
	r.wantMetric(7, "doomproxy_stationarity_total", "action", "nudge", "tier", "tight")
	r.wantMetric(10, "doomproxy_requests_total", "outcome", "clean")
	if log := r.log.String(); !strings.Contains(log, `"stationarity":"nudge tier=tight count=10 cycle=1"`) {
		t.Errorf("got the log %s, want what was found in it", log)
	}
}

// At the second threshold the turn ends without the upstream, if the operator
// chose that.
func TestRepeatedCallsEndTheTurn(t *testing.T) {
	for _, tc := range []struct {
		tool string
		args string
		n    int
		tier string
	}{
		{"read", `{"path":"a.go"}`, 8, "tight"},
		{"fetch", `{"url":"http://h"}`, 12, "loose"},
		{"bash", `{"command":" TRUE "}`, 4, "no_op"},
	} {
		t.Run(tc.tier, func(t *testing.T) {
			r := newRig(t, stops, simulate.Scenario{})
			r.answer(newSession().repeat(tc.n-1, tc.tool, tc.args, "").body())
			r.wantRequests(1)
			body := newSession().repeat(tc.n, tc.tool, tc.args, "").body()
			resp, raw, err := r.stream(body)
			if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
				t.Errorf("got %d, %v, %v", resp.StatusCode, err, resp.Header)
			}
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.completed" {
				t.Errorf("got %v, %v", types(evs), err)
			}
			text, _ := evs[len(evs)-3].get("part", "text").(string)
			if want := fmt.Sprintf("made %d times in a row", tc.n); !strings.Contains(text, want) || !strings.Contains(text, tc.tool) {
				t.Errorf("got the message %q, want %q in it", text, want)
			}
			r.wantRequests(1)

			resp, raw, err = r.stream(strings.Replace(body, `"stream":true, `, "", 1))
			if err != nil || resp.Header.Get("Content-Type") != "application/json" || !json.Valid([]byte(raw)) || gjson.Get(raw, "status").Str != "completed" ||
				gjson.Get(raw, "output.0.content.0.text").Str != text {
				t.Errorf("without a stream: got %v, %v and %s", resp.Header, err, raw)
			}
			r.wantRequests(1)
			r.settled(3)
			r.wantMetric(2, "doomproxy_stationarity_total", "action", "stop", "tier", tc.tier)
			r.wantMetric(3, "doomproxy_requests_total", "outcome", "clean", "code", "200")
			r.wantMetric(1, "doomproxy_attempts_total")
		})
	}
}

// Agents that are given a response take it for stored, and refer to it. The
// upstream knows nothing of it, so such a reference does not get there.
func TestNoReferenceToAStoppedTurn(t *testing.T) {
	r := newRig(t, stops, simulate.Scenario{})
	raw := r.answer(withTool("read", 8))
	evs := events(t, raw)
	id, _ := evs[2].get("item", "id").(string)
	if len(id) < 16 {
		t.Fatalf("got the item %q", id)
	}
	s := newSession().repeat(8, "read", `{"path":"a.go"}`, "package a")
	s.items = append(s.items, `{"type":"item_reference","id":"`+id+`"}`, `{"role":"user","content":"Go on."}`)
	r.answer(s.body())
	if body := string(r.upstream(0).Body); strings.Contains(body, id) || !strings.Contains(body, "Go on.") {
		t.Errorf("the upstream got %s", body)
	}
}

// What is not to be told, or not looked at.
func TestCallsThatAreNotNudged(t *testing.T) {
	polls, pages, edits, mixed := newSession(), newSession(), newSession(), newSession()
	for i := range 100 {
		polls.step("bash", `{"command":"make status"}`, fmt.Sprintf("%d %% done", i))
	}
	for i := range 50 {
		pages.step("read", fmt.Sprintf(`{"path":"a.go","offset":%d}`, 200*i), fmt.Sprintf("page %d", i))
	}
	for i := range 20 {
		edits.step("bash", `{"command":"go test ./..."}`, "FAIL: TestX").step("edit", fmt.Sprintf(`{"path":"a.go","line":%d}`, i), "ok")
	}
	for i := range 30 { // one agent polls, the other reads, in one conversation
		mixed.step("bash", `{"command":"make status"}`, fmt.Sprintf("%d %% done", i)).step("read", fmt.Sprintf(`{"path":"%d.go"}`, i), "package a")
	}
	answered := newSession().repeat(20, "read", `{"path":"a.go"}`, "package a")
	answered.items = append(answered.items, `{"role":"user","content":"Once more, please."}`)
	repeated := withTool("read", 20)
	for _, tc := range []struct {
		name    string
		change  func(*proxy.Config)
		body    string
		headers []string
		counted float64
	}{
		{"polls whose output changes", nil, polls.body(), nil, 0},
		{"paged reads", nil, pages.body(), nil, 0},
		{"tests between edits", nil, edits.body(), nil, 0},
		{"two agents", nil, mixed.body(), nil, 0},
		{"the user spoke", nil, answered.body(), nil, 0},
		{"a text", nil, streamBody, nil, 0},
		{"a client with a guard of its own", nil, repeated, []string{"X-Grok-Doom-Loop-Check", "1024"}, 0},
		{"the same, taken over", func(c *proxy.Config) { c.ClientOptIn = proxy.OptInOwn }, repeated, []string{"X-Grok-Doom-Loop-Check", "1024"}, 0},
		{"recovery off", nil, repeated, []string{"X-Doomproxy-Recovery", "off"}, 0},
		{"off", func(c *proxy.Config) { c.Stationarity.Mode = proxy.ModeOff }, repeated, nil, 0},
		{"observed", func(c *proxy.Config) { c.Stationarity.Mode = proxy.ModeObserve }, repeated, nil, 1},
		{"observed, to be stopped", func(c *proxy.Config) { stops(c); c.Stationarity.Mode = proxy.ModeObserve }, repeated, nil, 1},
		{"other thresholds", func(c *proxy.Config) { c.Stationarity.Tight = stationarity.Thresholds{Nudge: 21, Stop: -1} }, repeated, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.change, simulate.Scenario{})
			r.answer(tc.body, tc.headers...)
			r.wantRequests(1)
			if got := string(r.upstream(0).Body); got != tc.body {
				t.Errorf("the request was changed: …%s", got[max(0, len(got)-300):])
			}
			r.settled(1)
			r.wantMetric(tc.counted, "doomproxy_stationarity_total")
		})
	}
}

// A nudge stays last in what further attempts are told, after a cut as well as
// after a failure.
func TestNudgeInFurtherAttempts(t *testing.T) {
	r := newRig(t, func(c *proxy.Config) { c.Retry = proxy.Retry{MaxRetries: 1, FirstWait: time.Millisecond} }, simulate.Scenario{Status: http.StatusServiceUnavailable}, loop(), simulate.Scenario{Message: "fine"})
	r.answer(withTool("read", 5))
	r.wantRequests(3)
	said := nudge(string(r.upstream(0).Body))
	for n := range 3 {
		if got := nudge(string(r.upstream(n).Body)); got == "" || got != said {
			t.Errorf("request %d: got %q at the end, want the nudge", n, got)
		}
	}
	if body := string(r.upstream(2).Body); !strings.Contains(body, "had begun to repeat itself") {
		t.Errorf("the last attempt was told no reminder: %s", body)
	}
}

// An encoded request is nudged, too, and goes on without its encoding.
func TestNudgeInAnEncodedRequest(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{})
	r.answer(encode(t, "zstd", withTool("read", 4)), "Content-Encoding", "zstd", "Content-MD5", "x")
	up := r.upstream(0)
	if nudge(string(up.Body)) == "" || up.Header.Get("Content-Encoding") != "" || up.Header.Get("Content-MD5") != "" {
		t.Errorf("got %v and %s", up.Header, up.Body)
	}
}

// An upstream that wants no such message gets the client's own request, and later
// ones at once.
func TestRefusedNudge(t *testing.T) {
	for name, refusal := range map[string]simulate.Scenario{
		"status": {Status: http.StatusBadRequest},
		"event":  {Failure: &simulate.Failure{Code: "invalid_request_error", Event: simulate.FailureError}},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(name, stream), func(t *testing.T) {
				r := newRig(t, nil, refusal, simulate.Scenario{Message: "fine"})
				body := withTool("read", 5)
				if !stream {
					body = strings.Replace(body, `"stream":true, `, "", 1)
				}
				if raw := r.answer(body); !strings.Contains(raw, "fine") {
					t.Errorf("got %s", raw)
				}
				r.wantRequests(2)
				if got := string(r.upstream(1).Body); nudge(got) != "" {
					t.Errorf("the second attempt was nudged, too: %s", got)
				}
				r.answer(body)
				r.wantRequests(3)
				if got := string(r.upstream(2).Body); nudge(got) != "" {
					t.Errorf("the next request was nudged: %s", got)
				}
				r.settled(2)
				r.wantMetric(1, "doomproxy_stationarity_total")
				r.wantMetric(0, "doomproxy_replay_total", "mode", "refused_by_upstream")
			})
		}
	}
	t.Run("it was not the nudge", func(t *testing.T) {
		refusal := simulate.Scenario{Status: http.StatusBadRequest}
		r := newRig(t, nil, refusal)
		resp, raw, err := r.stream(withTool("read", 5))
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(raw, `"error"`) || strings.Contains(raw, "proxy_error") {
			t.Errorf("got %d, %v, %s, want the upstream's answer", resp.StatusCode, err, raw)
		}
		r.wantRequests(2)
		r.stream(withTool("read", 5)) //nolint:errcheck // as above
		if got := string(r.upstream(2).Body); nudge(got) == "" {
			t.Error("nothing was to be learned of the nudge")
		}
	})
	t.Run("other errors", func(t *testing.T) {
		r := newRig(t, nil, simulate.Scenario{Status: http.StatusUnauthorized})
		resp, _, _ := r.stream(withTool("read", 5)) //nolint:errcheck // the status tells
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %d, want the upstream's answer", resp.StatusCode)
		}
		r.wantRequests(1)
	})
}

// An operator can switch it while the proxy runs, and sees what is going on.
func TestSwitchStationarity(t *testing.T) {
	state := new(proxy.State)
	gate := make(chan struct{})
	r := newRig(t, func(c *proxy.Config) { c.State = state }, simulate.Scenario{Before: func(write int) {
		if write == 1 {
			<-gate
		}
	}}, simulate.Scenario{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.answer(withTool("read", 5))
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for seen := false; !seen; {
		<-tick.C
		for _, running := range state.Running() {
			seen = seen || running.Repeated == "nudge tier=tight count=5 cycle=1"
		}
	}
	close(gate)
	<-done
	state.SetMode(proxy.GuardStationarity, proxy.ModeOff)
	r.answer(withTool("read", 5))
	if nudge(string(r.upstream(0).Body)) == "" || nudge(string(r.upstream(1).Body)) != "" {
		t.Error("want a nudge at first, and none when it is off")
	}
}

// A long conversation costs no more than it takes to read it.
func BenchmarkStationarity(b *testing.B) {
	s := newSession()
	for i := 0; len(s.items) < 1000; i++ {
		s.step("read", fmt.Sprintf(`{"path":"%d.go"}`, i), strings.Repeat("\tif err != nil { return err }\n", 350))
	}
	body, answer := s.body(), longStream(1)
	for _, mode := range []proxy.Mode{proxy.ModeOff, proxy.ModeEnforce} {
		b.Run(string(mode), func(b *testing.B) {
			h := inProcessWith(b, func(c *proxy.Config) { c.Stationarity.Mode = mode }, func(*http.Request) io.Reader { return bytes.NewReader(answer) })
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				askWith(h, body)
			}
		})
	}
}
