package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/simulate"
)

// Each upstream has its own path, keys and name, and all have one ledger, one
// budget and one set of metrics.
func TestSeveralUpstreams(t *testing.T) {
	one, other := &simulate.Server{}, &simulate.Server{}
	first, second := httptest.NewServer(one), httptest.NewServer(other)
	defer first.Close()
	defer second.Close()
	c := serve(t, env("DOOMPROXY_UPSTREAMS_X_AI_SIGNALS=never"), "open="+first.URL+"/v1", "--upstream", "x-ai="+second.URL+"/api?q=hunter2")
	base := strings.TrimSuffix(c.base(t), "/v1")
	wantText(t, c.stdout.String(), "  upstream   "+first.URL+"/v1\n", "  "+base+"/x-ai/v1 is for "+second.URL+"/api\n")

	for _, path := range []string{"/v1", "/open/v1", "/x-ai/v1", "/x-ai", "/other/v1"} {
		wantText(t, askFor(t, base+path, "m").text(t), "response.completed")
	}
	if got, want := sent(one), []string{"/v1/responses", "/v1/responses", "/v1/other/v1/responses"}; !slices.Equal(got, want) {
		t.Errorf("got %q at the first, want %q", got, want)
	}
	if got, want := sent(other), []string{"/api/responses", "/api/responses"}; !slices.Equal(got, want) {
		t.Errorf("got %q at the second, want %q", got, want)
	}
	for sim, want := range map[*simulate.Server]string{one: "1024", other: ""} {
		if got := sim.Requests()[0].Header.Get("X-Grok-Doom-Loop-Check"); got != want {
			t.Errorf("got the header %q, want %q", got, want)
		}
	}
	_, text := get(t, c.admin(t)+"/metrics")
	wantText(t, text,
		`doomproxy_attempts_total{kind="first",result="accepted",upstream="open"} 3`,
		`doomproxy_attempts_total{kind="first",result="accepted",upstream="x-ai"} 2`)
	if all := c.stdout.String() + c.stderr.String() + text; strings.Contains(all, "hunter2") {
		t.Errorf("the query is told:\n%s", all)
	}
	wantStatus(t, c.admin(t)+"/readyz?upstream=1", http.StatusOK)
}

// A configuration file's upstreams, with TLS of one of them.
func TestUpstreamsOfFile(t *testing.T) {
	plain := httptest.NewServer(&simulate.Server{})
	defer plain.Close()
	secure := httptest.NewTLSServer(&simulate.Server{})
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	w := serveFile(t, "upstreams:\n  plain: {url: '"+plain.URL+"/v1'}\n  secure: {url: '"+secure.URL+"/v1', ca_file: '"+ca+"'}\n  default: {url: '"+nowhere+"'}\nretry: {max_retries: 0}\n", nil)
	base := strings.TrimSuffix(w.base(t), "/v1")
	wantText(t, askFor(t, base+"/plain/v1", "m").text(t), "response.completed")
	wantText(t, askFor(t, base+"/secure/v1", "m").text(t), "response.completed")
	if resp := askFor(t, base+"/v1", "m"); resp.status != http.StatusBadGateway {
		t.Errorf("got status %d of the default upstream, want 502: there is nobody", resp.status)
	}
	wantStatus(t, w.admin(t)+"/readyz", http.StatusOK)
	wantStatus(t, w.admin(t)+"/readyz?upstream=1", http.StatusServiceUnavailable)
	wantText(t, w.stderr.String(), `msg="an upstream cannot be reached" error="upstream default: `)
}

func TestDrill(t *testing.T) {
	sim := httptest.NewServer(&simulate.Server{})
	defer sim.Close()
	for _, on := range []bool{true, false} {
		var args []string
		if on {
			args = append(args, "--drill")
		}
		c := serve(t, nil, sim.URL+"/v1", args...)
		raw := askFor(t, c.base(t), "m", "X-Doomproxy-Drill", "cut").text(t)
		if got := strings.Contains(raw, ": doomproxy resample=1"); got != on {
			t.Errorf("with the flag %t: got cut %t, in:\n%s", on, got, raw)
		}
		_, text := get(t, c.admin(t)+"/metrics")
		if got := strings.Contains(text, `source="drill"`); got != on {
			t.Errorf("with the flag %t: got a count %t", on, got)
		}
	}
}

func TestCapture(t *testing.T) {
	upstream, proceed := looping(t)
	proceed()
	dir := t.TempDir()
	c := serve(t, env("DOOMPROXY_CAPTURE_DIR="+dir), upstream)
	wantText(t, c.stderr.String(), "what cut attempts sent is kept", dir)
	wantText(t, askFor(t, c.base(t), "m").text(t), recoveredMark)
	c.stop()
	c.wantEnd(t)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("got %v and the files %v, want one of the cut attempt and nothing else", err, files)
	}
	b, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, string(b), "tail_repetition:32@thinking")

	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"testdata/none":    "capture.dir: stat testdata/none: no such file or directory; want a directory that is there and can be written to",
		file(t, "no file"): "is no directory; want a directory",
		locked:             "permission denied; want a directory",
	} {
		if dir == locked && os.Getuid() == 0 {
			continue // root may write anywhere
		}
		if err := writable(dir); err == nil {
			t.Errorf("%s: got no error", dir)
		} else {
			wantText(t, err.Error(), want)
		}
	}
}

func TestAdminNeedsToken(t *testing.T) {
	c := serve(t, nil, nowhere, "--admin-listen", "0.0.0.0:0")
	wantStatus(t, c.admin(t)+"/debug/requests", http.StatusForbidden)
	wantStatus(t, c.admin(t)+"/metrics", http.StatusOK)

	c = serve(t, env("DOOMPROXY_ADMIN_TOKEN_FILE="+file(t, "token-admin\n"), "DOOMPROXY_ADMIN_HOSTS=proxy.lan"), nowhere, "--admin-listen", "0.0.0.0:0")
	for host, want := range map[string]int{"": 200, "proxy.lan": 200, "proxy.lan:3667": 200, "other.lan": 421} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.admin(t)+"/debug/requests", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.SetBasicAuth("anyone", "token-admin")
		resp, err := direct().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: got status %d, want %d", host, resp.StatusCode, want)
		}
	}
	wantStatus(t, c.admin(t)+"/debug/requests", http.StatusUnauthorized)
}
