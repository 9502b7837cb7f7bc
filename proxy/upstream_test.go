package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// Where requests go, for upstreams as users write them.
func TestTarget(t *testing.T) {
	for _, tc := range []struct{ upstream, request, want string }{
		{"https://api.openai.com", "/v1/responses", "https://api.openai.com/v1/responses"},
		{"https://api.openai.com/v1", "/v1/responses", "https://api.openai.com/v1/responses"},
		{"https://api.openai.com/v1/", "/responses", "https://api.openai.com/v1/responses"},
		{"https://api.openai.com/v1", "/v1", "https://api.openai.com/v1"},
		{"https://api.openai.com/v1", "/v12/responses", "https://api.openai.com/v1/v12/responses"},
		{"https://api.x.ai/v1", "/v1/models?limit=2", "https://api.x.ai/v1/models?limit=2"},
		{"https://openrouter.ai/api/v1", "/v1/responses", "https://openrouter.ai/api/v1/responses"},
		{"https://openrouter.ai/api/v1", "/api/v1/responses", "https://openrouter.ai/api/v1/responses"},
		{"https://x.openai.azure.com/openai/v1", "/v1/responses", "https://x.openai.azure.com/openai/v1/responses"},
		{"https://x.openai.azure.com/openai/deployments/d?api-version=2026-01-01", "/v1/responses", "https://x.openai.azure.com/openai/deployments/d/responses?api-version=2026-01-01"},
		{"https://x.openai.azure.com/openai/deployments/d?api-version=2026-01-01", "/responses?a=b", "https://x.openai.azure.com/openai/deployments/d/responses?a=b&api-version=2026-01-01"},
		{"https://x.openai.azure.com/openai/deployments/d?api-version=2026-01-01", "/responses?api-version=mine", "https://x.openai.azure.com/openai/deployments/d/responses?api-version=mine"},
		{"https://chatgpt.com/backend-api/codex", "/v1/responses", "https://chatgpt.com/backend-api/codex/responses"},
		{"https://chatgpt.com/backend-api/codex", "/backend-api/codex/responses", "https://chatgpt.com/backend-api/codex/responses"},
		{"http://[::1]:11434/v1", "/v1/responses", "http://[::1]:11434/v1/responses"},
		{"http://127.0.0.1:1", "/v1/files/a%2Fb%20c", "http://127.0.0.1:1/v1/files/a%2Fb%20c"},
		{"http://127.0.0.1:1/v1", "/v1/responses/?", "http://127.0.0.1:1/v1/responses/?"},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			var got *url.URL
			r := newRigFor(t, tc.upstream, func(c *proxy.Config) {
				c.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
					got = req.URL
					if req.Host != "" && req.Host != req.URL.Host {
						t.Errorf("%s: got Host %s, want the upstream's", tc.request, req.Host)
					}
					return nil, errors.New("no network")
				})
			})
			req, err := http.NewRequest(method, r.url+tc.request, strings.NewReader(streamBody))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got == nil || got.String() != tc.want {
				t.Errorf("%s, %s %s: got %v, want %s", tc.upstream, method, tc.request, got, tc.want)
			}
		}
	}
}

func TestNewRefusesUpstreams(t *testing.T) {
	for _, raw := range []string{"", "api.openai.com", "ftp://a", "http://", "https://user:secret@host/v1", "https://host/#f"} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = proxy.New(proxy.Config{Upstream: u})
		if !errors.Is(err, proxy.ErrUpstream) {
			t.Errorf("%q: got %v, want ErrUpstream", raw, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the secret: %v", raw, err)
		}
	}
}

// What an inspected request keeps of the client's headers, and what of the
// upstream's the client gets.
func TestHeaders(t *testing.T) {
	r := newRig(t, nil, simulate.Scenario{Header: map[string]string{
		"Connection": "X-Gone", "X-Gone": "1", "Keep-Alive": "timeout=5", "X-Kept": "2",
		"X-Ratelimit-Remaining": "7", "X-Doomproxy-Forged": "3", "X-Doomproxy-Request-Id": "forged",
	}})
	resp, _, err := r.stream(streamBody,
		"Authorization", "Bearer k", "Connection", "X-Hop, close", "X-Hop", "1", "Te", "trailers", "Keep-Alive", "1",
		"Proxy-Authorization", "p", "Accept-Encoding", "gzip, br", "X-Doomproxy-Token", "t", "Accept", "text/event-stream",
		"User-Agent", "", "X-Forwarded-For", "1.2.3.4", "X-Custom", "c", "Expect", "", "Openai-Beta", "b")
	if err != nil {
		t.Fatal(err)
	}
	up := r.upstream(0).Header
	for name, want := range map[string]string{
		"Authorization": "Bearer k", "X-Custom": "c", "Openai-Beta": "b", "Accept": "text/event-stream", "Accept-Encoding": "identity",
		"Connection": "", "X-Hop": "", "Te": "", "Keep-Alive": "", "Proxy-Authorization": "", "X-Doomproxy-Token": "", "User-Agent": "",
		"X-Forwarded-For": "", "Via": "", "Content-Type": "application/json",
	} {
		if got := up.Get(name); got != want {
			t.Errorf("upstream: got %s %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"X-Kept": "2", "X-Ratelimit-Remaining": "7", "X-Gone": "", "Keep-Alive": "", "X-Doomproxy-Forged": "",
		"X-Accel-Buffering": "no", "Content-Type": "text/event-stream; charset=utf-8", "Content-Length": "",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("client: got %s %q, want %q", name, got, want)
		}
	}
	if id := resp.Header.Values("X-Doomproxy-Request-Id"); len(id) != 1 || len(id[0]) != 24 {
		t.Errorf("got request id %q, want one of the proxy's", id)
	}
}

// Targets that are no path on this server are refused; nothing goes upstream.
func TestRefusedTargets(t *testing.T) {
	for _, line := range []string{
		"GET http://example.com/v1/models HTTP/1.1", "POST https://example.com/v1/responses HTTP/1.1",
		"CONNECT example.com:443 HTTP/1.1", "OPTIONS * HTTP/1.1",
		"GET /v1/../admin HTTP/1.1", "GET /v1/%2e%2e/admin HTTP/1.1", "GET /./v1 HTTP/1.1", "GET /v1/responses/.. HTTP/1.1",
		"GET /v1/%2e%2e%2fadmin HTTP/1.1",
	} {
		r := newRig(t, nil)
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\r\nHost: example.com\r\nConnection: close\r\n\r\n", line)
		answer, err := io.ReadAll(conn)
		conn.Close()
		// OPTIONS * is net/http's to answer.
		want := " 400 "
		if strings.HasPrefix(line, "OPTIONS") {
			want = " 200 "
		}
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: got %.80q, %v", line, answer, err)
		}
		r.wantRequests(0)
	}
}

// A WebSocket is refused in the way that makes clients fall back at once.
func TestWebSocket(t *testing.T) {
	r := newRig(t, nil)
	req, err := http.NewRequest(http.MethodGet, r.url+"/v1/responses", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusUpgradeRequired || !strings.Contains(string(raw), `"code":"no_websocket"`) {
		t.Errorf("got %d, %s", resp.StatusCode, raw)
	}
	r.wantRequests(0)
}

// After a cut the upstream's connection is closed at once, while the next
// attempt still runs, and never used again.
func TestCutClosesTheConnection(t *testing.T) {
	r := newRig(t, nil)
	closed := make(chan struct{})
	r.sim.Script = func(n int, _ *simulate.Request) simulate.Scenario {
		if n == 0 {
			return loop()
		}
		return simulate.Scenario{Before: func(write int) {
			if write == 1 { // this attempt has begun, and goes on when the first is closed
				<-closed
			}
		}}
	}
	resp, err := r.post(t.Context(), streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waitFor(resp.Body, "doomproxy resample=1")
	within(t, 100_000_000, "closing the cut attempt's connection", r.upstream(0).Gone)
	close(closed)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	r.wantRequests(2)
	if r.upstream(0).RemoteAddr == r.upstream(1).RemoteAddr {
		t.Error("the half-read connection was used again")
	}
}

// An upstream that announces the length of its stream does not announce that of
// the client's.
func TestAnnouncedLength(t *testing.T) {
	streams := []string{
		strings.Join(finite().Stream(0, []byte(streamBody)), ""),
		strings.Join(simulate.Scenario{Message: "fine"}.Stream(1, []byte(streamBody)), ""),
	}
	n := 0
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(streams[n])))
		n++
		io.WriteString(w, streams[n-1]) //nolint:errcheck // the first is cut
	}))
	t.Cleanup(up.Close)
	raw := newRigFor(t, up.URL, nil).answer(streamBody)
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Errorf("%v in:\n%s", err, raw)
	}
	if n != 2 {
		t.Errorf("got %d upstream requests, want 2", n)
	}
}
