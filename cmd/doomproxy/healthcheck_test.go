package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// health runs healthcheck and returns its exit code and what it printed.
func health(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told bytes.Buffer
	err := run(t.Context(), append([]string{"healthcheck"}, args...), &out, &told, env)
	code = report(&told, err)
	return code, out.String(), told.String()
}

func TestHealthcheck(t *testing.T) {
	c := serve(t, nil, nowhere)
	admin := c.admin(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	config := file(t, "admin_listen: 127.0.0.1:"+port)
	for name, test := range map[string]struct {
		env, args []string
	}{
		"URL":           {nil, []string{"--admin", admin}},
		"URL with /":    {nil, []string{"--admin", admin + "/"}},
		"flag":          {nil, []string{"--admin-listen", "127.0.0.1:" + port}},
		"variable":      {[]string{"DOOMPROXY_ADMIN_LISTEN=127.0.0.1:" + port}, nil},
		"all addresses": {[]string{"DOOMPROXY_ADMIN_LISTEN=0.0.0.0:" + port}, nil},
		"no address":    {[]string{"DOOMPROXY_ADMIN_LISTEN=:" + port}, nil},
		"file":          {nil, []string{"--config", config}},
		"broken file":   {nil, []string{"--config", file(t, "mode: off\nadmin_listen: 127.0.0.1:"+port)}},
	} {
		if code, stdout, stderr := health(t, test.env, test.args...); code != 0 || stdout != "ready\n" || stderr != "" {
			t.Errorf("%s: got exit code %d, %q and %q, want ready", name, code, stdout, stderr)
		}
	}
}

func TestHealthcheckFails(t *testing.T) {
	draining := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("was asked for %s, want /readyz", r.URL.Path)
		}
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	}))
	defer draining.Close()
	for name, test := range map[string]struct {
		env, args []string
		want      string
	}{
		"draining":     {nil, []string{"--admin", draining.URL}, draining.URL + "/readyz: 503 Service Unavailable: not ready"},
		"nobody":       {nil, []string{"--admin-listen", "127.0.0.1:" + aPort(t)}, "connection refused"},
		"off":          {[]string{"DOOMPROXY_ADMIN_LISTEN="}, nil, "the admin listener is off (admin_listen is empty)"},
		"any port":     {[]string{"DOOMPROXY_ADMIN_LISTEN=127.0.0.1:0"}, nil, "name it with --admin"},
		"no URL":       {nil, []string{"--admin", "http://h:port"}, "--admin: "},
		"no such file": {nil, []string{"--config", "testdata/none", "--admin-listen", "127.0.0.1:" + aPort(t)}, "--config: open testdata/none"},
	} {
		code, stdout, stderr := health(t, test.env, test.args...)
		if code != 1 || stdout != "" {
			t.Errorf("%s: got exit code %d and %q, want 1 and nothing", name, code, stdout)
		}
		wantText(t, stderr, test.want)
	}
	if code, _, _ := health(t, nil, "now"); code != 2 {
		t.Errorf("got exit code %d for an argument, want 2", code)
	}
}

// It does not wait for long.
func TestHealthcheckTimesOut(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	times := newSteps()
	times[healthTime] = make(chan struct{})
	change := times.change(t)
	times.end(healthTime)
	c := begin(t, change, nil, "healthcheck", "--admin", silent.URL)
	var told bytes.Buffer
	if code := report(&told, c.wait(t)); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	wantText(t, told.String(), "context canceled")
}

func TestAdminURLs(t *testing.T) {
	for address, want := range map[string][]string{
		"127.0.0.1:1":   {"http://127.0.0.1:1"},
		"[::1]:1":       {"http://[::1]:1"},
		"10.0.0.1:1":    {"http://10.0.0.1:1"},
		"host:1":        {"http://host:1"},
		"0.0.0.0:1":     {"http://127.0.0.1:1"},
		":1":            {"http://127.0.0.1:1", "http://[::1]:1"},
		"[::]:1":        {"http://127.0.0.1:1", "http://[::1]:1"},
		"[::%lo]:1":     {"http://[::%lo]:1"},
		"localhost:123": {"http://localhost:123"},
	} {
		if got, err := adminURLs(address); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q and %v, want %q", address, got, err, want)
		}
	}
}
