package admin_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/admin"
	"github.com/doomproxy/doomproxy/proxy"
)

// The paths that are open, and some of those that are not.
var (
	openPaths    = []string{"/metrics", "/healthz", "/readyz"}
	guardedPaths = []string{"/", "/page.js", "/debug/requests", "/nothing", "/metrics/", "/%6detrics"}
)

// send makes a request with headers, which come as name, value pairs. Host is
// the name of one of them.
func send(t *testing.T, srv *httptest.Server, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

// A name that a foreign page chose is not answered, whatever it means (DNS
// rebinding).
func TestHost(t *testing.T) {
	srv := serve(t, &admin.Server{
		Gatherer: registry(), State: new(proxy.State), Hosts: []string{"Ops.example", "tls.example:8443", "fd00::7"},
	})
	own := strings.TrimPrefix(srv.URL, "http://")
	for _, c := range []struct {
		host    string
		allowed bool
	}{
		{own, true},
		{"127.0.0.1", true},
		{"127.9.9.9:80", true},
		{"localhost", true},
		{"LocalHost.:3667", true},
		{"[::1]:3667", true},
		{"[::1]", true},
		{"ops.example", true},
		{"ops.example:9", true},
		{"OPS.example.", true},
		{"tls.example:8443", true},
		{"[fd00::7]:3667", true},
		{"tls.example", false},
		{"tls.example:8444", false},
		{"evil.example", false},
		{"evil.example:3667", false},
		{"localhost.evil.example", false},
		{"127.0.0.1.evil.example", false},
		{"ops.example.evil.example", false},
		{"evilops.example", false},
		{"notlocalhost", false},
		{"10.1.2.3", false},
		{"[fd00::8]", false},
		{"0.0.0.0", false},
	} {
		t.Run(c.host, func(t *testing.T) {
			for _, path := range guardedPaths {
				got := send(t, srv, http.MethodGet, path, "", "Host", c.host)
				if c.allowed == (got.status == http.StatusMisdirectedRequest) {
					t.Errorf("%s: status %d, allowed %v", path, got.status, c.allowed)
				}
				if !c.allowed && !strings.Contains(got.body, "Host header") {
					t.Errorf("%s: got %q, want to be told what is wrong", path, got.body)
				}
			}
			if got := send(t, srv, http.MethodPost, "/debug/mode", `{"recovery":"off"}`, "Host", c.host, "Origin", "http://"+c.host); c.allowed != (got.status == http.StatusNoContent) {
				t.Errorf("POST: status %d, allowed %v", got.status, c.allowed)
			}
			for _, path := range openPaths {
				if got := send(t, srv, http.MethodGet, path, "", "Host", c.host); got.status != http.StatusOK {
					t.Errorf("%s: status %d, want 200 under any name", path, got.status)
				}
			}
		})
	}
}

// Where a listener has all of a machine's addresses, the one that the connection
// was made to is a name of it.
func TestHostIsTheAddressOfTheConnection(t *testing.T) {
	h := (&admin.Server{State: new(proxy.State)}).Handler()
	for host, want := range map[string]int{
		"10.1.2.3:3667":          http.StatusOK,
		"[::ffff:10.1.2.3]:3667": http.StatusOK,
		"10.1.2.4:3667":          http.StatusMisdirectedRequest,
		"ten.example":            http.StatusMisdirectedRequest,
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Host = host
		local := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 3667}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, local)))
		if rec.Code != want {
			t.Errorf("%s: status %d, want %d", host, rec.Code, want)
		}
	}
}

func TestToken(t *testing.T) {
	const token = "0rdinary:täken"
	srv := serve(t, &admin.Server{Gatherer: registry(), State: new(proxy.State), Token: token})
	basic := func(user, password string) string {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.SetBasicAuth(user, password)
		return req.Header.Get("Authorization")
	}
	for _, c := range []struct {
		name, authorization string
		allowed             bool
	}{
		{"none", "", false},
		{"bearer", "Bearer " + token, true},
		{"bearer in small letters", "bearer " + token, true},
		{"basic", basic("", token), true},
		{"basic with a user", basic("somebody", token), true},
		{"token as the user", basic(token, ""), false},
		{"empty password", basic("somebody", ""), false},
		{"a part", "Bearer " + token[:4], false},
		{"more than it", "Bearer " + token + "x", false},
		{"empty bearer", "Bearer ", false},
		{"another scheme", "Digest " + token, false},
		{"no scheme", token, false},
		{"broken basic", "Basic %%%", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.authorization != "" {
				headers = []string{"Authorization", c.authorization}
			}
			for _, method := range []string{"GET", "HEAD", "POST", "PURGE"} {
				for _, path := range guardedPaths {
					got := send(t, srv, method, path, "", headers...)
					if c.allowed == (got.status == http.StatusUnauthorized) {
						t.Errorf("%s %s: status %d, allowed %v", method, path, got.status, c.allowed)
					}
					if asks := got.header.Values("WWW-Authenticate"); !c.allowed && (len(asks) != 2 || !strings.HasPrefix(asks[0], "Basic ") || !strings.HasPrefix(asks[1], "Bearer ")) {
						t.Errorf("%s %s: WWW-Authenticate %q, want Basic, for a browser, and Bearer", method, path, asks)
					}
					if strings.Contains(got.body, token) {
						t.Errorf("%s %s: the answer tells the token", method, path)
					}
				}
			}
			for _, path := range openPaths {
				if got := send(t, srv, http.MethodGet, path, "", headers...); got.status != http.StatusOK {
					t.Errorf("%s: status %d, want 200 with any token", path, got.status)
				}
			}
		})
	}
}

// Without a token, what others can reach shows and changes nothing.
func TestExposed(t *testing.T) {
	state := new(proxy.State)
	srv := serve(t, &admin.Server{Gatherer: registry(), State: state, Exposed: true})
	for _, path := range guardedPaths {
		got := send(t, srv, http.MethodGet, path, "", "Authorization", "Bearer ")
		if got.status != http.StatusForbidden || !strings.Contains(got.body, "admin.token") {
			t.Errorf("%s: got %d %q, want 403 and what to set", path, got.status, got.body)
		}
	}
	if got := send(t, srv, http.MethodPost, "/debug/mode", `{"recovery":"off"}`); got.status != http.StatusForbidden || state.Mode(proxy.GuardRecovery) != "" {
		t.Errorf("POST: status %d, mode %q, want 403 and no change", got.status, state.Mode(proxy.GuardRecovery))
	}
	for _, path := range openPaths {
		if got := send(t, srv, http.MethodGet, path, ""); got.status != http.StatusOK {
			t.Errorf("%s: status %d, want 200", path, got.status)
		}
	}

	srv = serve(t, &admin.Server{State: state, Exposed: true, Token: "t"})
	if got := send(t, srv, http.MethodGet, "/", "", "Authorization", "Bearer t"); got.status != http.StatusOK {
		t.Errorf("with a token: status %d, want 200", got.status)
	}
}

// What a page of another origin can make a browser send changes nothing, also in
// a browser that sends less than today's do.
func TestCrossOrigin(t *testing.T) {
	const evil = "https://evil.example"
	state := new(proxy.State)
	srv := serve(t, &admin.Server{State: state})
	for _, c := range []struct {
		name    string
		headers []string
		status  int // 0 if it is let through
	}{
		{"a program", nil, 0},
		{"a program with JSON", []string{"Content-Type", "application/json"}, 0},
		{"a program with a charset", []string{"Content-Type", "application/json; charset=utf-8"}, 0},
		{"a program that says so", []string{"Content-Type", "application/x-www-form-urlencoded", "X-Doomproxy-Action", "curl"}, 0},
		{"the page", []string{"Content-Type", "application/json", "Origin", srv.URL, "Sec-Fetch-Site", "same-origin"}, 0},
		{"the page, with a referrer", []string{"Content-Type", "application/json", "Origin", srv.URL, "Referer", srv.URL + "/"}, 0},
		{"the page behind TLS", []string{"Content-Type", "application/json", "Origin", strings.Replace(srv.URL, "http", "https", 1)}, 0},
		{"the user", []string{"Sec-Fetch-Site", "none"}, 0},

		{"a form", []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", evil, "Sec-Fetch-Site", "cross-site"}, 403},
		{"a form without origin", []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site"}, 403},
		{"a sandboxed form", []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "null"}, 403},
		{"fetch with text", []string{"Content-Type", "text/plain", "Origin", evil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"fetch with text, another port", []string{"Content-Type", "text/plain", "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, 403},
		{"fetch without a body", []string{"Origin", evil, "Sec-Fetch-Site", "cross-site"}, 403},
		{"sendBeacon", []string{"Content-Type", "text/plain;charset=UTF-8", "Origin", evil, "Sec-Fetch-Site", "cross-site", "Cookie", "a=b"}, 403},
		{"fetch with JSON", []string{"Content-Type", "application/json", "Origin", evil, "Sec-Fetch-Site", "cross-site"}, 403},
		{"fetch with the header", []string{"X-Doomproxy-Action", "page", "Origin", evil, "Sec-Fetch-Site", "cross-site"}, 403},
		{"an origin that lies about the site", []string{"Content-Type", "application/json", "Origin", evil, "Sec-Fetch-Site", "same-origin"}, 403},
		{"two origins", []string{"Content-Type", "application/json", "Origin", srv.URL, "Origin", evil}, 403},
		{"an origin that is none", []string{"Content-Type", "application/json", "Origin", "::"}, 403},
		{"an origin with a longer name", []string{"Content-Type", "application/json", "Origin", srv.URL + ".evil.example"}, 403},

		{"an older browser", []string{"Content-Type", "text/plain", "Origin", evil}, 403},
		{"an older browser, another port", []string{"Content-Type", "text/plain", "Origin", "http://127.0.0.1:1"}, 403},
		{"an old browser with a referrer", []string{"Referer", evil + "/page", "Cookie", "a=b"}, 403},
		{"an old browser, form", []string{"Content-Type", "application/x-www-form-urlencoded", "Cookie", "a=b"}, 415},
		{"an old browser, file form", []string{"Content-Type", "multipart/form-data; boundary=x", "Cookie", "a=b"}, 415},
		{"an old browser, text", []string{"Content-Type", "text/plain;charset=UTF-8", "Cookie", "a=b"}, 415},
		{"an old browser, text that looks like JSON", []string{"Content-Type", "text/plain; application/json"}, 415},
		{"a type that is none", []string{"Content-Type", "application/json;;;="}, 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			mode := send(t, srv, http.MethodPost, "/debug/mode", `{"recovery":"off"}`, c.headers...)
			cancel := send(t, srv, http.MethodPost, "/debug/requests/0/cancel", "{}", c.headers...)
			want, wantCancel, wantMode := c.status, c.status, proxy.Mode("")
			if c.status == 0 {
				want, wantCancel, wantMode = http.StatusNoContent, http.StatusNotFound, proxy.ModeOff
			}
			if mode.status != want || cancel.status != wantCancel {
				t.Errorf("got %d for the mode and %d for a cancel, want %d and %d", mode.status, cancel.status, want, wantCancel)
			}
			if got := state.Mode(proxy.GuardRecovery); got != wantMode {
				t.Errorf("the mode is %q, want %q", got, wantMode)
			}
			state.SetMode(proxy.GuardRecovery, "")
			if c.status != 0 && !strings.Contains(mode.body, `"type":"proxy_error"`) {
				t.Errorf("got %q, want an error of the API's shape", mode.body)
			}
		})
	}
}

// A browser that asks whether another origin's page may send something else gets
// no leave.
func TestPreflight(t *testing.T) {
	srv := serve(t, &admin.Server{Gatherer: registry(), State: new(proxy.State)})
	for _, path := range []string{"/debug/mode", "/debug/requests/0/cancel", "/debug/requests", "/", "/metrics"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			got := send(t, srv, method, path, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "x-doomproxy-action,content-type")
			if method == "OPTIONS" && got.status != http.StatusMethodNotAllowed {
				t.Errorf("%s: status %d, want 405", path, got.status)
			}
			for name := range got.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: the answer has %s", method, path, name)
				}
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	open := serve(t, &admin.Server{Gatherer: registry(), State: new(proxy.State)})
	closed := serve(t, &admin.Server{State: new(proxy.State), Token: "t"})
	for _, srv := range []*httptest.Server{open, closed} {
		for _, path := range append(guardedPaths, "/page.css", "/icon.svg", "/healthz", "/metrics") {
			for _, method := range []string{"GET", "POST"} {
				got := send(t, srv, method, path, "")
				for name, want := range map[string]string{
					"Cache-Control":                "no-store",
					"X-Content-Type-Options":       "nosniff",
					"Referrer-Policy":              "no-referrer",
					"Cross-Origin-Resource-Policy": "same-origin",
					"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
						"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
				} {
					if v := got.header.Values(name); len(v) != 1 || v[0] != want {
						t.Errorf("%s %s (%d): %s is %q, want %q", method, path, got.status, name, v, want)
					}
				}
				if got.header.Get("Content-Type") == "" {
					t.Errorf("%s %s (%d): no content type", method, path, got.status)
				}
			}
		}
	}
}
