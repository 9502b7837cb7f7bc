package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/admin"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// rig is a proxy in front of a simulated upstream, and its admin server.
type rig struct {
	t     *testing.T
	state *proxy.State
	front *httptest.Server // the proxy
	admin *httptest.Server
	log   *logBuffer // the admin server's
}

type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig starts a rig whose upstream answers with the scenarios, one a request,
// the last one again and again. change may adapt the admin server.
func newRig(t *testing.T, change func(*admin.Server), scenarios ...simulate.Scenario) *rig {
	t.Helper()
	up := httptest.NewServer(&simulate.Server{Script: func(ordinal int, _ *simulate.Request) simulate.Scenario {
		return scenarios[min(ordinal, len(scenarios)-1)]
	}})
	t.Cleanup(up.Close)
	u, err := url.Parse(up.URL + "/v1?api_key=upstream-secret")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, state: new(proxy.State), log: new(logBuffer)}
	cfg := proxy.Config{Upstream: u, UpstreamName: "up", State: r.state, CutJitter: time.Millisecond}
	cfg.Policy.MaxRetries = 2
	p, err := proxy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.front = httptest.NewUnstartedServer(p)
	r.front.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.front.Start()
	t.Cleanup(r.front.Close)
	s := &admin.Server{Gatherer: registry(), State: r.state, Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(s)
	}
	r.admin = serve(t, s)
	return r
}

const streamBody = `{"model":"m-1","stream":true,"input":"a private question"}`

// running is a response that is closed at the end of its test.
type running struct{ *http.Response }

// stream asks for a response. What it sends is secret.
func (r *rig) stream(body string) running {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.front.URL+"/v1/responses?key=query-secret", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer bearer-secret")
	req.Header.Set("X-Api-Key", "key-secret")
	req.Header.Set("Cookie", "session=cookie-secret")
	resp, err := r.front.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	return running{resp}
}

type shown struct {
	Now        time.Time        `json:"now"`
	Mode       string           `json:"mode"`
	Configured string           `json:"mode_configured"`
	Switched   bool             `json:"mode_switched"`
	Modes      []guardMode      `json:"modes"`
	Running    []map[string]any `json:"running"`
	Recoveries []map[string]any `json:"recoveries"`
}

// shown returns what /debug/requests says.
func (r *rig) shown() (s shown, raw string) {
	r.t.Helper()
	got := send(r.t, r.admin, http.MethodGet, "/debug/requests", "")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		r.t.Fatalf("got %d, %s", got.status, got.header.Get("Content-Type"))
	}
	dec := json.NewDecoder(strings.NewReader(got.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		r.t.Fatalf("%v in %s", err, got.body)
	}
	return s, got.body
}

// eventually returns what is shown once it is as wanted.
func (r *rig) eventually(what string, want func(shown) bool) (shown, string) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); ; <-tick.C {
		s, raw := r.shown()
		if want(s) {
			return s, raw
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("never %s; last was %s", what, raw)
		}
	}
}

func wantKeys(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	if keys := strings.Join(slices.Sorted(maps.Keys(got)), " "); keys != want {
		t.Errorf("%s has %s, want %s", what, keys, want)
	}
}

func TestRequests(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Loop: &simulate.Loop{After: 1, Every: 1, Phrase: "a private thought "}}, simulate.Scenario{Limit: 8, End: simulate.EndHang})
	if _, raw := r.shown(); !strings.Contains(raw, `"running":[]`) || !strings.Contains(raw, `"recoveries":[]`) {
		t.Errorf("got %s, want empty lists where there is nothing", raw)
	}

	resp := r.stream(streamBody)
	s, raw := r.eventually("the second attempt", func(s shown) bool {
		return len(s.Running) == 1 && s.Running[0]["attempt"] == 2.0 && s.Running[0]["phase"] == "thinking"
	})
	if age := time.Since(s.Now); age < 0 || age > time.Minute {
		t.Errorf("now is %v", s.Now)
	}
	running := s.Running[0]
	wantKeys(t, "a running request", running, "age attempt frames id model phase protection signals upstream")
	for key, want := range map[string]any{"model": "m-1", "upstream": "up", "protection": "protected", "id": resp.Header.Get("X-Doomproxy-Request-Id")} {
		if running[key] != want {
			t.Errorf("%s is %v, want %v", key, running[key], want)
		}
	}
	if signals := running["signals"].([]any); len(signals) != 1 || signals[0] != "tail_repetition:64@thinking" {
		t.Errorf("signals %v", signals)
	}
	wantNoSecret(t, raw)
	resp.Body.Close()
	s, raw = r.eventually("over", func(s shown) bool { return len(s.Running) == 0 })
	if len(s.Recoveries) != 1 {
		t.Fatalf("got %d recoveries, want 1", len(s.Recoveries))
	}
	wantKeys(t, "a recovery", s.Recoveries[0], "attempts cuts discarded id model outcome seconds signals time upstream")
	if got := s.Recoveries[0]["outcome"]; got != "client_gone" {
		t.Errorf("outcome %v, want client_gone", got)
	}
	wantNoSecret(t, raw)
}

// wantNoSecret looks for what was sent, answered or configured.
func wantNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{"secret", "private", "127.0.0.1", "Bearer"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
}

// A model's name is a client's text. It stays inside its JSON string.
func TestHostileModel(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Limit: 5, End: simulate.EndHang})
	const model = `</script><img src=x onerror=alert(1)>"`
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "input": "hi"})
	if err != nil {
		t.Fatal(err)
	}
	r.stream(string(body))
	s, raw := r.eventually("running", func(s shown) bool { return len(s.Running) == 1 && s.Running[0]["model"] != "unknown" })
	if s.Running[0]["model"] != model {
		t.Errorf("got %v, want %v", s.Running[0]["model"], model)
	}
	if strings.ContainsAny(raw, "<>") {
		t.Errorf("got %s, want no markup", raw)
	}
}

func TestCancel(t *testing.T) {
	hang := simulate.Scenario{Limit: 5, End: simulate.EndHang}
	for _, c := range []struct {
		name     string
		scenario simulate.Scenario
		body     string
		phase    string
	}{
		{"thinking", hang, streamBody, "thinking"},
		{"visible", simulate.Scenario{Reasoning: simulate.ReasoningNone, Limit: 6, End: simulate.EndHang}, streamBody, "visible"},
		{"not protected", hang, `{"model":"m-1","stream":true,"background":true,"input":"hi"}`, "visible"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil, c.scenario)
			resp := r.stream(c.body)
			s, _ := r.eventually("running", func(s shown) bool { return len(s.Running) == 1 && s.Running[0]["phase"] == c.phase })
			id := s.Running[0]["id"].(string)

			got := send(t, r.admin, http.MethodPost, "/debug/requests/"+id+"/cancel", "")
			if got.status != http.StatusNoContent || got.body != "" {
				t.Errorf("got %d %q, want 204", got.status, got.body)
			}
			if data, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the client had %q and then %v, want a dropped connection", data, err)
			}
			r.eventually("over", func(s shown) bool { return len(s.Running) == 0 })
			wantError(t, send(t, r.admin, http.MethodPost, "/debug/requests/"+id+"/cancel", ""), http.StatusNotFound, "not_running")

			again := r.stream(c.body)
			data, err := io.ReadAll(again.Body)
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, answer{again.StatusCode, again.Header, string(data)}, http.StatusBadRequest, "cancelled_by_operator")
			if !strings.Contains(r.log.String(), id) {
				t.Errorf("got the log %q, want the cancelled id in it", r.log)
			}
		})
	}
}

// Only the request that is named is cancelled.
func TestCancelOne(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Limit: 5, End: simulate.EndHang})
	first := r.stream(streamBody)
	r.stream(strings.Replace(streamBody, "question", "answer", 1))
	r.eventually("two", func(s shown) bool { return len(s.Running) == 2 })
	for _, id := range []string{"0", "*", "%2e%2e", strings.Repeat("f", 24)} {
		wantError(t, send(t, r.admin, http.MethodPost, "/debug/requests/"+id+"/cancel", ""), http.StatusNotFound, "not_running")
	}
	id := first.Header.Get("X-Doomproxy-Request-Id")
	if got := send(t, r.admin, http.MethodPost, "/debug/requests/"+id+"/cancel", ""); got.status != http.StatusNoContent {
		t.Fatalf("status %d, want 204", got.status)
	}
	s, _ := r.eventually("one", func(s shown) bool { return len(s.Running) == 1 })
	if s.Running[0]["id"] == id {
		t.Error("the other one was cancelled")
	}
}

// wantError checks for an error of the API's shape.
func wantError(t *testing.T, got answer, status int, code string) {
	t.Helper()
	var body struct {
		Error struct{ Message, Type, Code string } `json:"error"`
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("%v in %q", err, got.body)
	}
	if e := body.Error; got.status != status || e.Code != code || e.Type != "proxy_error" || e.Message == "" {
		t.Errorf("got %d %s, want %d with the code %s", got.status, got.body, status, code)
	}
}

func TestMode(t *testing.T) {
	told := make(chan string, 1)
	r := newRig(t, func(s *admin.Server) {
		s.OnMode = func(g proxy.Guard, m proxy.Mode) { told <- string(g) + " " + string(m) }
	}, simulate.Scenario{Limit: 5, End: simulate.EndHang})
	for _, c := range []struct {
		set        string
		mode       string
		protection string // of a request that comes then
	}{
		{"", "enforce", "protected"},
		{"observe", "observe", "observed"},
		{"off", "off", "passthrough"},
		{"enforce", "enforce", "protected"},
		{"", "enforce", "protected"},
	} {
		if got := send(t, r.admin, http.MethodPost, "/debug/mode", `{"recovery":"`+c.set+`"}`); got.status != http.StatusNoContent || got.body != "" {
			t.Errorf("%q: got %d %q, want 204", c.set, got.status, got.body)
		}
		select {
		case got := <-told:
			if got != "recovery "+c.set {
				t.Errorf("%q: OnMode got %q", c.set, got)
			}
		default:
			t.Errorf("%q: OnMode got nothing", c.set)
		}
		resp := r.stream(streamBody)
		s, _ := r.eventually("running", func(s shown) bool { return len(s.Running) == 1 && s.Running[0]["frames"] != 0.0 || c.set == "off" })
		if s.Mode != c.mode || s.Configured != "enforce" || s.Switched != (c.set != "") {
			t.Errorf("%q: got mode %s, configured %s, switched %v", c.set, s.Mode, s.Configured, s.Switched)
		}
		if got := s.Running[0]["protection"]; got != c.protection {
			t.Errorf("%q: a request is %v, want %s", c.set, got, c.protection)
		}
		resp.Body.Close()
		r.eventually("over", func(s shown) bool { return len(s.Running) == 0 })
	}
	for _, text := range []string{"guard=recovery mode=observe", "mode=off", "mode=enforce", "configured"} {
		if !strings.Contains(r.log.String(), text) {
			t.Errorf("got the log %q, want %q in it", r.log, text)
		}
	}
}

// guardMode is the mode of a guard, as it is shown.
type guardMode struct {
	Guard      string `json:"guard"`
	Mode       string `json:"mode"`
	Configured string `json:"configured"`
	Switched   bool   `json:"switched"`
}

// A switch leaves what runs as it is.
func TestModeOfRunning(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Limit: 5, End: simulate.EndHang})
	r.stream(streamBody)
	r.eventually("running", func(s shown) bool { return len(s.Running) == 1 && s.Running[0]["protection"] == "protected" })
	send(t, r.admin, http.MethodPost, "/debug/mode", `{"recovery":"off"}`)
	if s, _ := r.shown(); s.Mode != "off" || len(s.Running) != 1 || s.Running[0]["protection"] != "protected" {
		t.Errorf("got %+v, want it protected as it was", s)
	}
}

func TestConfiguredMode(t *testing.T) {
	r := newRig(t, func(s *admin.Server) {
		s.Mode = func(g proxy.Guard) proxy.Mode {
			if g == proxy.GuardStationarity {
				return proxy.ModeOff
			}
			return proxy.ModeObserve
		}
	}, simulate.Scenario{})
	if s, _ := r.shown(); s.Mode != "observe" || s.Configured != "observe" || s.Switched {
		t.Errorf("got %+v, want observe as configured", s)
	}
	r.state.SetMode(proxy.GuardRecovery, proxy.ModeEnforce)
	s, _ := r.shown()
	if s.Mode != "enforce" || s.Configured != "observe" || !s.Switched {
		t.Errorf("got %+v, want enforce, switched from observe", s)
	}
	want := []guardMode{{"recovery", "enforce", "observe", true}, {"detector", "observe", "observe", false}, {"stationarity", "off", "off", false}}
	if !slices.Equal(s.Modes, want) {
		t.Errorf("got the modes %+v, want %+v", s.Modes, want)
	}
}

// Several guards are switched at a time, or none of them.
func TestModesOfGuards(t *testing.T) {
	var told []string
	r := newRig(t, func(s *admin.Server) {
		s.OnMode = func(g proxy.Guard, m proxy.Mode) { told = append(told, string(g)+" "+string(m)) }
	}, simulate.Scenario{})
	send(t, r.admin, http.MethodPost, "/debug/mode", `{"stationarity":"observe","detector":"off"}`)
	s, _ := r.shown()
	want := []guardMode{{"recovery", "enforce", "enforce", false}, {"detector", "off", "enforce", true}, {"stationarity", "observe", "enforce", true}}
	if !slices.Equal(s.Modes, want) || !slices.Equal(told, []string{"detector off", "stationarity observe"}) {
		t.Errorf("got the modes %+v, and told was %q, want %+v", s.Modes, told, want)
	}
	got := send(t, r.admin, http.MethodPost, "/debug/mode", `{"detector":"","stationarity":"none"}`)
	wantError(t, got, http.StatusBadRequest, "invalid_mode")
	if s, _ := r.shown(); !slices.Equal(s.Modes, want) {
		t.Errorf("got the modes %+v behind a request that was refused, want %+v", s.Modes, want)
	}
}

func TestModeErrors(t *testing.T) {
	r := newRig(t, func(s *admin.Server) {
		s.OnMode = func(_ proxy.Guard, m proxy.Mode) { t.Errorf("OnMode got %q", m) }
	}, simulate.Scenario{})
	for _, body := range []string{
		``, `{}`, `{"recovery":null}`, `{"recovery":"on"}`, `{"recovery":"Enforce"}`, `{"recovery":1}`, `"off"`, `[]`, `{"recovery":"off"`,
		`{"mode":"off"}`, `{"recovery":"off","other":"off"}`, `{"recovery":"off","detector":null}`, `{"recovery":"off"}{}`, `recovery=off`,
		`{"recovery":"` + strings.Repeat("x", 5000) + `"}`, strings.Repeat(" ", 5000) + `{"recovery":"off"}`,
	} {
		got := send(t, r.admin, http.MethodPost, "/debug/mode", body)
		wantError(t, got, http.StatusBadRequest, "invalid_mode")
		for _, word := range []string{"recovery", "enforce", "observe", "off"} {
			if !strings.Contains(got.body, word) {
				t.Errorf("%.40q: got %s, want to be told that %s is allowed", body, got.body, word)
			}
		}
		if len(got.body) > 400 {
			t.Errorf("%.40q: the answer has %d bytes", body, len(got.body))
		}
	}
	if got := r.state.Mode(proxy.GuardRecovery); got != "" {
		t.Errorf("the mode is %q", got)
	}
}

func TestDebugMethods(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{})
	for path, want := range map[string]string{
		"/": "GET, HEAD", "/page.js": "GET, HEAD", "/debug/requests": "GET, HEAD",
		"/debug/mode": "POST", "/debug/requests/0/cancel": "POST",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE"} {
			got := send(t, r.admin, method, path, "")
			allowed := slices.Contains(strings.Split(want, ", "), method)
			if allowed == (got.status == http.StatusMethodNotAllowed) {
				t.Errorf("%s %s: status %d, allowed %v", method, path, got.status, allowed)
			}
			if !allowed && got.header.Get("Allow") != want {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got.header.Get("Allow"), want)
			}
		}
	}
	wantError(t, send(t, r.admin, http.MethodGet, "/debug/mode", ""), http.StatusMethodNotAllowed, "method_not_allowed")
	wantError(t, send(t, r.admin, http.MethodGet, "/debug/nothing", ""), http.StatusNotFound, "not_found")
}
