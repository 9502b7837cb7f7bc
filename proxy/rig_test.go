package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a simulated upstream and a proxy in front of it, on loopback sockets.
type rig struct {
	t   *testing.T
	sim *simulate.Server
	reg *prometheus.Registry
	url string // of the proxy
	log *logBuffer

	proxy  *proxy.Proxy
	cancel context.CancelCauseFunc // of all its requests
}

type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
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
// the last one again and again. change may adapt the configuration.
func newRig(t *testing.T, change func(*proxy.Config), scenarios ...simulate.Scenario) *rig {
	t.Helper()
	sim := &simulate.Server{Script: func(ordinal int, _ *simulate.Request) simulate.Scenario {
		if len(scenarios) == 0 {
			return simulate.Scenario{}
		}
		return scenarios[min(ordinal, len(scenarios)-1)]
	}}
	up := httptest.NewServer(sim)
	t.Cleanup(up.Close)
	r := newRigFor(t, up.URL, change)
	r.sim = sim
	return r
}

// newRigFor starts a proxy in front of an upstream of the test's own.
func newRigFor(t *testing.T, upstream string, change func(*proxy.Config)) *rig {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	transport := proxy.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	r := &rig{t: t, reg: prometheus.NewRegistry(), log: &logBuffer{}}
	cfg := proxy.Config{
		Upstream:  u,
		Policy:    recovery.Policy{MaxRetries: 2},
		CutJitter: time.Millisecond,
		Linger:    200 * time.Millisecond,
		Transport: transport,
		Metrics:   metrics.New(r.reg, metrics.Build{}),
		Logger:    slog.New(slog.NewJSONHandler(r.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := proxy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(p)
	complaints := &logBuffer{}
	srv.Config.ErrorLog = log.New(complaints, "", 0)
	base, cancel := context.WithCancelCause(context.Background()) //nolint:usetesting // it ends after the test's cleanup
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	r.proxy, r.cancel = p, cancel
	srv.Start()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		srv.Close()
		cancel(nil)
		if used := p.MemoryUsed(); used != 0 {
			t.Errorf("%d bytes were not given back", used)
		}
		if s := complaints.String(); s != "" {
			t.Errorf("the server complains: %.500s", s)
		}
	})
	r.url = srv.URL
	return r
}

// streamBody is the smallest protected request.
const streamBody = `{"model":"m","stream":true,"input":"hi"}`

// post sends a request to make a response; headers come as name, value pairs.
func (r *rig) post(ctx context.Context, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/responses", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return client.Do(req)
}

var client = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// head is an answer without its body.
type head struct {
	StatusCode int
	Header     http.Header
}

// stream sends a request and returns the whole answer. err is how its body
// ended, nil for a clean end.
func (r *rig) stream(body string, headers ...string) (_ head, raw string, err error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	resp, err := r.post(ctx, body, headers...)
	if err != nil {
		r.t.Fatalf("the request failed: %v", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return head{resp.StatusCode, resp.Header}, string(b), err
}

// answer is stream for tests in which the answer has to be whole.
func (r *rig) answer(body string, headers ...string) string {
	r.t.Helper()
	resp, raw, err := r.stream(body, headers...)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("got status %d and %v, want a whole answer; it was:\n%s", resp.StatusCode, err, raw)
	}
	return raw
}

// upstream returns the n-th request the upstream got.
func (r *rig) upstream(n int) *simulate.Request {
	r.t.Helper()
	all := r.sim.Requests()
	if n >= len(all) {
		r.t.Fatalf("got %d upstream requests, want more than %d", len(all), n)
	}
	return all[n]
}

func (r *rig) wantRequests(want int) {
	r.t.Helper()
	if got := len(r.sim.Requests()); got != want {
		r.t.Errorf("got %d upstream requests, want %d", got, want)
	}
}

// metric returns the sum of a metric's values (a histogram's counts) over all
// series that have the given labels, as name, value pairs. The proxy counts a
// request when its handler returns, a moment after the client has its end, so
// tests wait with settled first.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			for i := 0; i < len(labels); i += 2 {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !found {
					continue series
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// settled waits until n requests are counted as finished.
func (r *rig) settled(n int) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Second)
	for r.metric("doomproxy_requests_total") < float64(n) {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("got %v finished requests, want %d", r.metric("doomproxy_requests_total"), n)
		}
	}
}

func (r *rig) wantMetric(want float64, name string, labels ...string) {
	r.t.Helper()
	if got := r.metric(name, labels...); got != want {
		r.t.Errorf("got %v of %s%v, want %v", got, name, labels, want)
	}
}

// frames splits a stream; what is left at its end is a frame of its own.
func frames(t *testing.T, raw string) []string {
	t.Helper()
	var s sseframe.Scanner
	s.Reset(strings.NewReader(raw))
	var all []string
	for {
		f, err := s.Next()
		if err != nil {
			if rest := s.Rest(); len(rest) > 0 {
				all = append(all, string(rest))
			}
			return all
		}
		all = append(all, string(f.Raw))
	}
}

// event is an event as a client reads it.
type event struct {
	name string // SSE event name
	raw  string // its data
	data map[string]any
}

func (e event) typ() string { s, _ := e.data["type"].(string); return s }

func (e event) number(key string) (int, bool) {
	n, ok := e.data[key].(float64)
	return int(n), ok
}

func (e event) get(keys ...string) any {
	var v any = map[string]any(e.data)
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// events parses a stream as a client does, frames without JSON left out.
func events(t *testing.T, raw string) []event {
	t.Helper()
	var all []event
	var scratch []byte
	for _, f := range frames(t, raw) {
		frame := sseframe.Frame{Raw: []byte(f)}
		if strings.HasPrefix(f, "\ufeff") {
			frame.BOM = 3
		}
		if !strings.HasSuffix(f, "\n") && !strings.HasSuffix(f, "\r") {
			continue
		}
		data := frame.Data(&scratch)
		e := event{name: string(frame.Event()), raw: string(data)}
		if data == nil || json.Unmarshal(data, &e.data) != nil {
			continue
		}
		all = append(all, e)
	}
	return all
}

func types(evs []event) []string {
	var all []string
	for _, e := range evs {
		all = append(all, e.typ())
	}
	return all
}

// checkI3 checks what invariants I3 and I7 ask of a client's stream. A stream
// of a client whose items are left open may have events outside an open item
// never, but items without an end.
func checkI3(raw string, evs []event) error {
	created, terminals, last := 0, 0, -1
	ids := map[string]bool{}
	type state int
	const (
		unopened state = iota
		open
		closed
	)
	items := map[int]state{}
	for i, e := range evs {
		if n, ok := e.number("sequence_number"); ok {
			if n <= last {
				return fmt.Errorf("event %d (%s): sequence_number %d behind %d", i, e.typ(), n, last)
			}
			last = n
		}
		if id, ok := e.get("response", "id").(string); ok {
			ids[id] = true
		}
		if e.typ() == "response.doom_loop_check" || e.name == "response.doom_loop_check" {
			return fmt.Errorf("event %d is a check frame", i)
		}
		switch e.typ() {
		case "response.created":
			created++
		case "response.completed", "response.incomplete", "response.failed":
			terminals++
			if i != len(evs)-1 {
				return fmt.Errorf("event %d of %d is terminal", i, len(evs))
			}
		}
		n, ok := e.number("output_index")
		if !ok {
			continue
		}
		switch e.typ() {
		case "response.output_item.added":
			if items[n] != unopened {
				return fmt.Errorf("event %d opens output_index %d again", i, n)
			}
			items[n] = open
		case "response.output_item.done":
			if items[n] != open {
				return fmt.Errorf("event %d closes output_index %d, which is not open", i, n)
			}
			items[n] = closed
		default:
			if items[n] != open {
				return fmt.Errorf("event %d (%s) is outside of its item %d", i, e.typ(), n)
			}
		}
	}
	switch {
	case created != 1:
		return fmt.Errorf("%d times response.created", created)
	case terminals != 1:
		return fmt.Errorf("%d terminal events", terminals)
	case len(ids) != 1:
		return fmt.Errorf("response ids %v", ids)
	case strings.Contains(raw, "doom_loop_check") && strings.Contains(raw, "event: response.doom_loop_check"):
		return errors.New("a check frame")
	}
	return nil
}

// afterSplice returns the events behind the n-th resample comment, from 1.
func afterSplice(t *testing.T, raw string, n int) []event {
	t.Helper()
	_, rest, ok := strings.Cut(raw, fmt.Sprintf(": doomproxy resample=%d ", n))
	if !ok {
		t.Fatalf("no comment of resample %d in:\n%s", n, raw)
	}
	return events(t, rest)
}

// rawUpstream answers each connection with the parts of one script, as bytes,
// and drops the connection behind them. It is for what no HTTP server sends.
func rawUpstream(t *testing.T, serve func(n int, conn net.Conn, r *http.Request)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body) //nolint:errcheck // the test looks at the answer
				serve(n, conn, req)
			})
		}
	})
	return "http://" + l.Addr().String()
}

func within(t *testing.T, d time.Duration, what string, done <-chan struct{}) {
	t.Helper()
	start := time.Now()
	select {
	case <-done:
		if took := time.Since(start); took > d {
			t.Errorf("%s took %v, want %v at most", what, took, d)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

// newServer serves a handler on a loopback socket and returns its URL.
func newServer(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
