package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/simulate"
)

// script writes a script for simulate and returns its path.
func script(t *testing.T, json string) string { return file(t, json) }

// serve runs the proxy in front of an upstream on free ports.
func serve(t *testing.T, change func(*app), upstream string, args ...string) *command {
	t.Helper()
	args = append([]string{"serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	c := begin(t, change, nil, args...)
	c.stdout.find(t, `mode +\w+`)
	return c
}

// env gives a command environment variables.
func env(vars ...string) func(*app) {
	return func(a *app) { a.env = append(a.env, vars...) }
}

func (c *command) base(t *testing.T) string {
	t.Helper()
	return c.stdout.find(t, `base URL +(https?://\S+)`)
}

func (c *command) admin(t *testing.T) string {
	t.Helper()
	return c.stdout.find(t, `admin +(http://\S+)`)
}

func TestServeRecovers(t *testing.T) {
	sim := begin(t, nil, nil, "simulate", "--listen", "127.0.0.1:0", "--script",
		script(t, `[{"loop":{"after":3}},{"message":"All is well."}]`))
	c := serve(t, nil, sim.base(t)+"?key=hunter2", "--log-format", "json")
	raw, err := io.ReadAll(post(t, c.base(t)))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, string(raw), `"text":"All is well."`, "response.completed", ": doomproxy resample=1")
	if bytes.Contains(raw, []byte("event: response.doom_loop_check")) {
		t.Errorf("got a check frame in:\n%s", raw)
	}
	wantText(t, c.stderr.String()+c.stderr.find(t, `"outcome":"(\w+)"`), "recovered")

	status, text := get(t, c.admin(t)+"/metrics")
	if status != http.StatusOK {
		t.Errorf("got status %d, want 200", status)
	}
	wantText(t, text, `doomproxy_recoveries_total{outcome="recovered"} 1`, "doomproxy_build_info")
	_, text = get(t, strings.TrimSuffix(c.base(t), "/v1")+"/")
	wantText(t, text, c.admin(t))
	if status, _ := get(t, c.admin(t)+"/readyz"); status != http.StatusOK {
		t.Errorf("got status %d of /readyz, want 200", status)
	}

	wantText(t, c.stdout.String(), "doomproxy devel", "upstream   "+sim.base(t))
	if all := c.stdout.String() + c.stderr.String(); strings.Contains(all, "hunter2") {
		t.Errorf("the upstream's query is told in:\n%s", all)
	}
	c.stop()
	if err := c.wait(t); err != nil {
		t.Errorf("got %v, want a regular end", err)
	}
}

func TestServeModeOff(t *testing.T) {
	sim := begin(t, nil, nil, "simulate", "--listen", "127.0.0.1:0", "--script",
		script(t, `[{"loop":{"after":3,"deltas":20,"then":"finish"}}]`))
	c := serve(t, nil, sim.base(t), "--mode", "off", "--admin-listen", "")
	wantText(t, c.stdout.String(), "admin      off")
	raw, err := io.ReadAll(post(t, c.base(t)))
	if err != nil || !strings.Contains(string(raw), "response.completed") || strings.Contains(string(raw), "resample") {
		t.Errorf("got %v, want the upstream's whole stream, in:\n%s", err, raw)
	}
}

// slow is an upstream that sends the second frame and all after it when it is
// told to.
func slow(t *testing.T) (url string, proceed func()) {
	t.Helper()
	told := make(chan struct{})
	var gone <-chan struct{}
	sim := httptest.NewServer(&simulate.Server{Script: func(_ int, req *simulate.Request) simulate.Scenario {
		gone = req.Gone
		return simulate.Scenario{Before: func(write int) {
			if write == 1 {
				select {
				case <-told:
				case <-gone:
				}
			}
		}}
	}})
	t.Cleanup(sim.Close)
	return sim.URL + "/v1", func() { close(told) }
}

func TestShutdownLetsStreamsEnd(t *testing.T) {
	upstream, proceed := slow(t)
	c := serve(t, nil, upstream)
	stream := post(t, c.base(t))
	c.stop()
	c.stderr.find(t, `shutting down.*running=1`)

	wantRefused(t, c.address(t))
	if status, _ := get(t, c.admin(t)+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("got status %d of /readyz, want 503", status)
	}

	proceed()
	raw, err := io.ReadAll(stream)
	if err != nil {
		t.Error(err)
	}
	wantText(t, string(raw), "response.completed")
	if err := c.wait(t); err != nil {
		t.Errorf("got %v, want a regular end", err)
	}
}

func TestShutdownDropsWhatIsLeft(t *testing.T) {
	upstream, _ := slow(t)
	c := serve(t, env("DOOMPROXY_SHUTDOWN_GRACE=20ms"), upstream)
	stream := post(t, c.base(t))
	c.stop()
	if _, err := io.ReadAll(stream); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if err := c.wait(t); err != nil {
		t.Errorf("got %v, want a regular end", err)
	}
	wantText(t, c.stderr.String(), "outcome=cancelled")
}

func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := free.Addr().String()
	free.Close()

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"port in use":       {[]string{"serve", "--upstream", "http://h", "--listen", address}, "--listen: " + address + " is in use"},
		"admin port in use": {[]string{"serve", "--upstream", "http://h", "--listen", "127.0.0.1:0", "--admin-listen", address}, "--admin-listen: " + address + " is in use"},
		"simulate port":     {[]string{"simulate", "--listen", address}, "--listen: " + address + " is in use"},
		"no such address":   {[]string{"simulate", "--listen", "no.such.host.invalid:1"}, "cannot listen on"},
		"no address":        {[]string{"simulate", "--listen", ""}, "want HOST:PORT"},
		"itself":            {[]string{"serve", "--upstream", "http://" + own + "/v1", "--listen", own}, "is this proxy itself"},
	} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			code := report(&told, run(t.Context(), test.args, io.Discard, io.Discard, nil))
			if code != 1 {
				t.Errorf("got exit code %d, want 1", code)
			}
			wantText(t, told.String(), test.want)
		})
	}
}

func TestServerLimits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(l, newServer(http.NotFoundHandler()), slog.New(slog.DiscardHandler), make(chan error, 1))
	defer s.stopWithin(0)
	if h := s.http; h.ReadHeaderTimeout != 10*time.Second || h.IdleTimeout != 2*time.Minute || h.ReadTimeout != 0 || h.WriteTimeout != 0 {
		t.Errorf("got time-outs of %v for headers, %v idle, %v to read, %v to write, want 10s, 2m, none, none",
			h.ReadHeaderTimeout, h.IdleTimeout, h.ReadTimeout, h.WriteTimeout)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin("http", l), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 1<<20+8<<10))
	resp, err := direct().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got status %d for a large header, want 431", resp.StatusCode)
	}
}

func TestServeLimits(t *testing.T) {
	_, upstream, _ := gated(t, 0)
	c := serve(t, env("DOOMPROXY_LIMITS_HEADER=1KiB", "DOOMPROXY_LIMITS_CONCURRENT=1"), upstream)
	// net/http reads up to 4 KiB more than the limit.
	resp := do(t, direct(), http.MethodGet, c.base(t)+"/models", "", "X-Large", strings.Repeat("x", 6<<10))
	if resp.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got status %d for a large header, want 431", resp.status)
	}
	post(t, c.base(t))
	resp = do(t, direct(), http.MethodPost, c.base(t)+"/responses", streamBody)
	if resp.status != http.StatusServiceUnavailable || resp.header.Get("Retry-After") != "1" {
		t.Errorf("got status %d and Retry-After %q for one request too many, want 503 and 1", resp.status, resp.header.Get("Retry-After"))
	}

	impatient := serve(t, env("DOOMPROXY_LIMITS_HEADER_TIMEOUT=20ms"), upstream)
	conn, err := net.Dial("tcp", impatient.address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); err != nil || len(b) > 0 {
		t.Errorf("got %q and %v for headers that do not end, want the connection closed", b, err)
	}
}

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(&b, logLevel("error"), "json")
	log.Warn("left out")
	log.Error("kept")
	wantText(t, b.String(), `"msg":"kept"`)
	if strings.Contains(b.String(), "left out") {
		t.Errorf("got a warning in %q, want errors only", &b)
	}
}

func TestServeWarnsOfOpenListener(t *testing.T) {
	for listen, warns := range map[string]bool{"0.0.0.0:0": true, ":0": true, "127.0.0.1:0": false} {
		c := serve(t, nil, "http://127.0.0.1:9", "--listen", listen)
		if got := strings.Contains(c.stderr.String(), "other machines may reach the proxy"); got != warns {
			t.Errorf("listening on %s: got warning %t, want %t", listen, got, warns)
		}
		wantText(t, c.base(t), "http://127.0.0.1:")
		status, _ := get(t, strings.TrimSuffix(c.base(t), "/v1")+"/")
		if status != http.StatusOK {
			t.Errorf("listening on %s: got status %d, want 200", listen, status)
		}
		c.stop()
		if err := c.wait(t); err != nil {
			t.Error(err)
		}
	}
}

func TestSimulateByChance(t *testing.T) {
	c := begin(t, nil, nil, "simulate", "--listen", "127.0.0.1:0", "--loop-rate", "1", "--seed", "7")
	raw, err := io.ReadAll(post(t, c.base(t)))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, string(raw), "Wait, let me check that again. ", "response.incomplete")
	c.stop()
	if err := c.wait(t); err != nil {
		t.Errorf("got %v, want a regular end", err)
	}
}

func TestSimulateControl(t *testing.T) {
	for _, on := range []bool{false, true} {
		args := []string{"simulate", "--listen", "127.0.0.1:0", "--script", script(t, `[{"message":"Scripted."}]`)}
		want := http.StatusNotFound
		if on {
			args, want = append(args, "--control"), http.StatusOK
		}
		c := begin(t, nil, nil, args...)
		raw, err := io.ReadAll(post(t, c.base(t)))
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, string(raw), "Scripted.")
		status, body := get(t, strings.TrimSuffix(c.base(t), "/v1")+"/simulate/requests")
		if status != want {
			t.Errorf("with --control=%v: got status %d, want %d", on, status, want)
		}
		if on {
			wantText(t, body, "Scripted.", "/v1/responses")
		}
		c.stop()
		if err := c.wait(t); err != nil {
			t.Error(err)
		}
	}
}

func TestSimulateRefusesScript(t *testing.T) {
	err := run(t.Context(), []string{"simulate", "--script", script(t, `[{"lop":{}}]`)}, io.Discard, io.Discard, nil)
	if err == nil {
		t.Fatal("got no error")
	}
	wantText(t, err.Error(), "--script", "entry 0", "lop")
}
