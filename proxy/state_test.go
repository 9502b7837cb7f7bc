package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// until waits for something that happens in a moment.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(5*time.Second)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s did not happen", what)
		}
	}
}

// A running request is seen as it goes on, and among the recoveries when it ended
// as one.
func TestRunningRequestsAreSeen(t *testing.T) {
	state := new(proxy.State)
	b := simulate.Scenario{Limit: 5, End: simulate.EndHang}
	r := newRig(t, func(c *proxy.Config) { c.State, c.UpstreamName = state, "main" }, loop(), b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := r.post(ctx, `{"model":"m-1","stream":true,"input":"secret"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	id := resp.Header.Get("X-Doomproxy-Request-Id")
	until(t, "the second attempt", func() bool {
		all := state.Running()
		return len(all) == 1 && all[0].Attempt == 2 && all[0].Phase == "thinking"
	})
	got := state.Running()[0]
	if got.ID != id || got.Upstream != "main" || got.Model != "m-1" || got.Protection != "protected" || got.Age <= 0 ||
		got.Frames < 5 || len(got.Signals) != 1 || !strings.HasPrefix(got.Signals[0], "tail_repetition:") {
		t.Errorf("got %+v", got)
	}
	if len(state.Recoveries()) != 0 {
		t.Error("got a recovery of a request that runs")
	}
	cancel()
	until(t, "its end", func() bool { return len(state.Running()) == 0 })
	all := state.Recoveries()
	if len(all) != 1 || all[0].ID != id || all[0].Outcome != "client_gone" || all[0].Attempts != 2 || all[0].Cuts != 1 || all[0].Discarded == 0 || all[0].Model != "m-1" {
		t.Errorf("got %+v", all)
	}
	r = newRig(t, func(c *proxy.Config) { c.State = state }, simulate.Scenario{})
	r.answer(streamBody)
	for range 120 {
		r = newRig(t, func(c *proxy.Config) { c.State, c.Policy.MaxRetries = state, 0 }, finite())
		r.answer(streamBody)
		r.settled(1)
	}
	if all := state.Recoveries(); len(all) != 100 || all[0].Outcome != "accepted_after_budget" || all[0].Time.Before(all[99].Time) {
		t.Errorf("got %d recoveries, want the last hundred, the newest first", len(all))
	}
}

// A request that an operator cancels is dropped, and not served again at once,
// though others are.
func TestOperatorCancels(t *testing.T) {
	state := new(proxy.State)
	visible := simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndHang}
	r := newRig(t, func(c *proxy.Config) { c.State = state }, visible, simulate.Scenario{})
	if state.Cancel("unknown") {
		t.Error("cancelled a request that there is not")
	}
	resp, err := r.post(t.Context(), streamBody, "Authorization", "Bearer a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waitFor(resp.Body, "output_text.delta")
	if !state.Cancel(resp.Header.Get("X-Doomproxy-Request-Id")) {
		t.Fatal("there is no such request")
	}
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a dropped connection", err)
	}
	within(t, time.Second, "closing the upstream", r.upstream(0).Done)
	again, raw, err := r.stream(streamBody, "Authorization", "Bearer a")
	if err != nil || again.StatusCode != http.StatusBadRequest || !strings.Contains(raw, `"code":"cancelled_by_operator"`) {
		t.Errorf("got %d, %s, %v, want 400", again.StatusCode, raw, err)
	}
	// At least one agent writes what it tells of itself in another order each time.
	other := `{"metadata":{"b":1,"a":2}, "input":"hi","stream":true,"model":"m"}`
	if resp, raw, err := r.stream(other, "Authorization", "Bearer a"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("in another order: got %d, %s, %v, want 400", resp.StatusCode, raw, err)
	}
	r.wantRequests(1)
	r.settled(3)
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "cancelled", "code", "200")
	r.wantMetric(2, "doomproxy_requests_total", "outcome", "rejected", "code", "400")
	r.answer(streamBody, "Authorization", "Bearer b")
	r.answer(`{"model":"m","stream":true,"input":"another"}`, "Authorization", "Bearer a")
}

// One that is cancelled just before its fingerprint is known is refused, too.
func TestOperatorCancelsEarly(t *testing.T) {
	state := new(proxy.State)
	var r *rig
	first := true
	r = newRig(t, func(c *proxy.Config) {
		c.State = state
		c.Ledger = cancels{ledger.NewMemory(ledger.Options{}), func() {
			if first { // while its body is scrubbed
				first = false
				state.Cancel(state.Running()[0].ID)
			}
		}}
	})
	const body = `{"stream":true,"previous_response_id":"resp_0123456789abcdef","input":"hi"}`
	for range 2 { // it is told so at once, and so is the one after it
		if resp, raw, err := r.stream(body); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(raw, "cancelled_by_operator") {
			t.Errorf("got %d, %s, %v, want 400", resp.StatusCode, raw, err)
		}
	}
	r.wantRequests(0)
}

// cancels is a ledger that does something else, too.
type cancels struct {
	ledger.Store
	also func()
}

func (c cancels) Get(ctx context.Context, keys []ledger.Key) (map[ledger.Key]string, error) {
	c.also()
	return c.Store.Get(ctx, keys) //nolint:wrapcheck // it stands for that
}

// The mode can be switched while requests run; these keep theirs.
func TestModeIsSwitched(t *testing.T) {
	state := new(proxy.State)
	r := newRig(t, func(c *proxy.Config) { c.State = state }, finite(), finite(), loop(), simulate.Scenario{})
	state.SetMode(proxy.GuardRecovery, proxy.ModeOff)
	if raw := r.answer(streamBody); strings.Contains(raw, "doom_loop_check") || len(r.upstream(0).Header["X-Grok-Doom-Loop-Check"]) != 0 {
		t.Errorf("off: the upstream was asked for reports")
	}
	state.SetMode(proxy.GuardRecovery, proxy.ModeObserve)
	r.answer(streamBody)
	r.settled(2)
	r.wantMetric(1, "doomproxy_doom_aborts_total", "mode", "observe")
	state.SetMode(proxy.GuardRecovery, "")
	r.answer(streamBody)
	r.wantRequests(4)
}

// Several upstreams are told by the first segment of the path.
func TestMux(t *testing.T) {
	state, m := new(proxy.State), metrics.New(nil, metrics.Build{})
	rigs, seen := map[string]*rig{}, map[string]int{}
	var proxies []*proxy.Proxy
	for _, name := range []string{"first", "second", "v1"} {
		r := newRig(t, func(c *proxy.Config) { c.UpstreamName, c.State, c.Metrics = name, state, m })
		rigs[name] = r
		proxies = append(proxies, r.proxy)
	}
	srv := newServer(t, proxy.NewMux(proxies[0], proxies[1:2]...))
	for path, want := range map[string][2]string{
		"/v1/responses":             {"first", "/v1/responses"},
		"/first/v1/responses":       {"first", "/v1/responses"},
		"/second/v1/responses":      {"second", "/v1/responses"},
		"/second/first/responses":   {"second", "/first/responses"},
		"/third/responses":          {"first", "/third/responses"},
		"/second":                   {"first", "/second"},
		"/second/v1/a%2Fb?x=y":      {"second", "/v1/a/b"},
		"/%73econd/v1/responses":    {"second", "/v1/responses"},
		"/secondary/v1/responses":   {"first", "/secondary/v1/responses"},
		"/v1/second/v1/responses":   {"first", "/v1/second/v1/responses"},
		"//second/v1/responses":     {"first", "//second/v1/responses"},
		"/second//v1/responses":     {"second", "//v1/responses"},
		"/second/v1/responses/abcd": {"second", "/v1/responses/abcd"},
	} {
		resp, err := client.Post(srv+path, "application/json", strings.NewReader(streamBody))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // the test looks at the upstreams
		resp.Body.Close()
		for name, r := range rigs {
			got := r.sim.Requests()[seen[name]:]
			seen[name] += len(got)
			if (name == want[0]) != (len(got) == 1) || len(got) == 1 && got[0].Path != want[1] {
				t.Errorf("%s: %s got %d requests", path, name, len(got))
				for _, req := range got {
					t.Errorf("%s: got %s, want %s", path, req.Path, want[1])
				}
			}
		}
	}
	for _, path := range []string{"/second/../v1/responses", "/second/v1/%2e%2e/x"} {
		if answer := exchangeRaw(t, srv, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("%s: got %.100q", path, answer)
		}
	}
}

// A drill forces one cut, if it is allowed.
func TestDrill(t *testing.T) {
	drill := func(c *proxy.Config) { c.Drill = true }
	thinks := simulate.Scenario{Message: "fine"}
	silent := simulate.Scenario{Reasoning: simulate.ReasoningNone, Message: "fine"}
	for name, tc := range map[string]struct {
		change  func(*proxy.Config)
		a       simulate.Scenario
		body    string
		headers []string
		cuts    int
	}{
		"thinking":       {drill, thinks, streamBody, []string{"x-doomproxy-drill", "cut"}, 1},
		"no thinking":    {drill, silent, streamBody, []string{"x-doomproxy-drill", "cut"}, 1},
		"held":           {drill, thinks, streamBody, []string{"x-doomproxy-drill", "cut", "x-doomproxy-delivery", "hold"}, 1},
		"without stream": {drill, thinks, plainBody, []string{"x-doomproxy-drill", "cut"}, 1},
		"no header":      {drill, thinks, streamBody, nil, 0},
		"other value":    {drill, thinks, streamBody, []string{"x-doomproxy-drill", "yes"}, 0},
		"not allowed":    {nil, thinks, streamBody, []string{"x-doomproxy-drill", "cut"}, 0},
		"no cuts":        {func(c *proxy.Config) { drill(c); c.Policy.MaxRetries = 0 }, thinks, streamBody, []string{"x-doomproxy-drill", "cut"}, 0},
		"observed":       {func(c *proxy.Config) { drill(c); c.Mode = proxy.ModeObserve }, thinks, streamBody, []string{"x-doomproxy-drill", "cut"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.change, tc.a)
			raw := r.answer(tc.body, tc.headers...)
			r.wantRequests(1 + tc.cuts)
			if tc.body == streamBody {
				if err := checkI3(raw, events(t, raw)); err != nil {
					t.Error(err)
				}
				if got := strings.Count(raw, ": doomproxy resample=1 trigger=drill\n"); got != tc.cuts && name != "held" {
					t.Errorf("got %d comments in:\n%s", got, raw)
				}
			}
			r.settled(1)
			r.wantMetric(float64(tc.cuts), "doomproxy_doom_aborts_total", "source", "drill")
			r.wantMetric(float64(tc.cuts), "doomproxy_requests_total", "outcome", "recovered")
			for _, req := range r.sim.Requests() {
				if req.Header.Get("x-doomproxy-drill") != "" {
					t.Error("the header was sent on")
				}
			}
			if name == "thinking" {
				if got := kinds(input(t, r.upstream(1))); fmt.Sprint(got) != "[user reasoning reminder]" {
					t.Errorf("got input %v, want what was thought and the reminder", got)
				}
			}
		})
	}
}

// Discarded attempts are kept where that is asked for, and only these, in files
// for their owner alone, as many as there is room for.
func TestCapture(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.sse"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(c *proxy.Config) {
		retries(c)
		c.Capture = proxy.Capture{Dir: dir, MaxBytes: 60_000}
	}
	kept := func() (files []string) {
		names, err := filepath.Glob(filepath.Join(dir, "2*.sse"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	r := newRig(t, change, loop(), simulate.Scenario{Limit: 6, End: simulate.EndAbort}, simulate.Scenario{Message: "fine"})
	resp, _, err := r.stream(streamBody)
	if err != nil {
		t.Fatal(err)
	}
	files := kept()
	if len(files) != 2 {
		t.Fatalf("got %v, want the two attempts that were discarded", files)
	}
	for i, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if reply := string(r.upstream(i).Reply()); !strings.HasPrefix(reply, string(raw)) || len(raw) < 500 {
			t.Errorf("%s: got %d bytes, want the beginning of what the upstream sent", name, len(raw))
		}
		if !strings.HasSuffix(name, fmt.Sprintf("-%s-%d.sse", resp.Header.Get("X-Doomproxy-Request-Id"), i+1)) {
			t.Errorf("got %s", name)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got mode %v", info.Mode())
		}
	}
	if raw, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(raw), "doom_loop_check") {
		t.Errorf("the report is not kept, %v", err)
	}
	for range 20 {
		r := newRig(t, change, loop(), simulate.Scenario{})
		r.answer(streamBody)
	}
	total := int64(0)
	for _, name := range kept() {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 60_000 || total < 30_000 {
		t.Errorf("got %d bytes of files, want 60,000 at most", total)
	}
	if _, err := os.Stat(files[0]); !os.IsNotExist(err) {
		t.Errorf("the oldest file is there still: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.sse")); err != nil {
		t.Errorf("a file of others' is gone: %v", err)
	}
	// A directory that can't be written to costs no answer.
	r = newRig(t, func(c *proxy.Config) { c.Capture.Dir = filepath.Join(dir, "gone") }, loop(), simulate.Scenario{})
	r.answer(streamBody)
	if !strings.Contains(r.log.String(), `"msg":"capture"`) {
		t.Error("nobody is told that nothing could be kept")
	}
}
