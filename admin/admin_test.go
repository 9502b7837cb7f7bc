package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/doomproxy/doomproxy/admin"
)

type answer struct {
	status int
	header http.Header
	body   string
}

func serve(t *testing.T, s *admin.Server) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	return srv
}

func ask(t *testing.T, srv *httptest.Server, method, path, accept string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "apples_total", Help: "Apples."})
	c.Add(7)
	reg.MustRegister(c)
	return reg
}

func TestMetrics(t *testing.T) {
	srv := serve(t, &admin.Server{Gatherer: registry()})
	for _, c := range []struct {
		name, accept, contentType, body string
	}{
		{"text by default", "", "text/plain", "apples_total 7\n"},
		{"OpenMetrics on request", "application/openmetrics-text; version=1.0.0", "application/openmetrics-text", "apples_total 7.0\n# EOF\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, srv, http.MethodGet, "/metrics", c.accept)
			if got.status != http.StatusOK {
				t.Errorf("status %d, want 200", got.status)
			}
			if ct := got.header.Get("Content-Type"); !strings.HasPrefix(ct, c.contentType+";") {
				t.Errorf("content type %q, want %s", ct, c.contentType)
			}
			if !strings.HasSuffix(got.body, c.body) {
				t.Errorf("body %q, want it to end in %q", got.body, c.body)
			}
		})
	}
}

func TestMetricsWithoutGatherer(t *testing.T) {
	got := ask(t, serve(t, &admin.Server{}), http.MethodGet, "/metrics", "")
	if got.status != http.StatusNotFound {
		t.Errorf("status %d, want 404", got.status)
	}
}

func TestHealth(t *testing.T) {
	// A draining process is up all the same.
	srv := serve(t, &admin.Server{Ready: func() bool { return false }})
	wantProbe(t, ask(t, srv, http.MethodGet, "/healthz", ""), http.StatusOK, "ok\n")
}

func TestReadyFollowsTheProxy(t *testing.T) {
	var ready atomic.Bool
	srv := serve(t, &admin.Server{Ready: ready.Load})
	wantProbe(t, ask(t, srv, http.MethodGet, "/readyz", ""), http.StatusServiceUnavailable, "not ready\n")
	ready.Store(true)
	wantProbe(t, ask(t, srv, http.MethodGet, "/readyz", ""), http.StatusOK, "ready\n")
	ready.Store(false)
	wantProbe(t, ask(t, srv, http.MethodGet, "/readyz", ""), http.StatusServiceUnavailable, "not ready\n")
}

func TestReadyByDefault(t *testing.T) {
	wantProbe(t, ask(t, serve(t, &admin.Server{}), http.MethodGet, "/readyz", ""), http.StatusOK, "ready\n")
}

func wantProbe(t *testing.T, got answer, status int, body string) {
	t.Helper()
	if got.status != status || got.body != body {
		t.Errorf("got %d %q, want %d %q", got.status, got.body, status, body)
	}
	if cc := got.header.Get("Cache-Control"); cc != "no-store" {
		t.Errorf("Cache-Control %q, want no-store", cc)
	}
	if ct := got.header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("content type %q", ct)
	}
}

func TestMethods(t *testing.T) {
	srv := serve(t, &admin.Server{Gatherer: registry()})
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got := ask(t, srv, http.MethodHead, path, ""); got.status != http.StatusOK || got.body != "" {
			t.Errorf("HEAD %s: got %d %q, want 200 without a body", path, got.status, got.body)
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PURGE"} {
			got := ask(t, srv, method, path, "")
			if got.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d, want 405", method, path, got.status)
			}
			if allow := got.header.Values("Allow"); len(allow) != 1 || allow[0] != "GET, HEAD" {
				t.Errorf("%s %s: Allow %q, want GET, HEAD", method, path, allow)
			}
		}
	}
}

func TestUnknownPath(t *testing.T) {
	srv := serve(t, &admin.Server{Gatherer: registry()})
	for _, method := range []string{"GET", "HEAD", "POST", "PURGE"} {
		for _, path := range []string{"/metrics/", "/nothing", "/healthz/x"} {
			if got := ask(t, srv, method, path, ""); got.status != http.StatusNotFound {
				t.Errorf("%s %s: status %d, want 404", method, path, got.status)
			}
		}
	}
}
