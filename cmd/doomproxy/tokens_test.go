package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/config"
	"github.com/doomproxy/doomproxy/simulate"
)

func TestTokens(t *testing.T) {
	sim := &simulate.Server{}
	upstream := httptest.NewServer(sim)
	defer upstream.Close()
	one, other := file(t, "token-one\n"), file(t, "token-other\r\n")
	c := serve(t, env("DOOMPROXY_AUTH_TOKENS=one="+one+",other="+other), upstream.URL+"/v1", "--listen", "0.0.0.0:0")
	wantText(t, c.stdout.String(), "a token to send in x-doomproxy-token")
	if strings.Contains(c.stderr.String(), "other machines may reach the proxy") {
		t.Errorf("got a warning of an open listener, but tokens are needed:\n%s", &c.stderr)
	}
	root := strings.TrimSuffix(c.base(t), "/v1") + "/"

	for _, token := range []string{"token-one", "token-other"} {
		resp := do(t, direct(), http.MethodPost, c.base(t)+"/responses", streamBody, "X-Doomproxy-Token", token)
		wantText(t, resp.text(t), "response.completed")
		if resp := do(t, direct(), http.MethodGet, c.base(t)+"/models", "", "x-doomproxy-token", token); resp.status != http.StatusOK {
			t.Errorf("%s: got status %d of the models, want 200", token, resp.status)
		}
		if resp := do(t, direct(), http.MethodGet, root, "", "x-doomproxy-token", token); resp.status != http.StatusOK {
			t.Errorf("%s: got status %d of the root page, want 200", token, resp.status)
		}
	}
	for _, header := range [][]string{
		nil,
		{"X-Doomproxy-Token", ""},
		{"X-Doomproxy-Token", "token-on"},
		{"X-Doomproxy-Token", "token-one2"},
		{"X-Doomproxy-Token", "token-one,token-other"},
		{"Authorization", "Bearer token-one"},
	} {
		for _, url := range []string{c.base(t) + "/responses", c.base(t) + "/models", root} {
			resp := do(t, direct(), http.MethodPost, url, streamBody, header...)
			if url == root {
				resp = do(t, direct(), http.MethodGet, url, "", header...)
			}
			if resp.status != http.StatusUnauthorized {
				t.Errorf("%q: got status %d of %s, want 401", header, resp.status, url)
			}
			var got struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(resp.text(t)), &got); err != nil || got.Error.Type != "proxy_error" || got.Error.Code != "unauthorized" {
				t.Errorf("%q: got the error %+v (%v), want one of the proxy's", header, got, err)
			}
		}
	}

	requests := sim.Requests()
	if len(requests) != 4 {
		t.Errorf("the upstream got %d requests, want the 4 with a token", len(requests))
	}
	for _, req := range requests {
		for name, values := range req.Header {
			if strings.HasPrefix(name, "X-Doomproxy") || strings.Contains(strings.Join(values, " "), "token-") {
				t.Errorf("the upstream got the header %s: %q", name, values)
			}
		}
	}
}

func TestTokenFilesReplaced(t *testing.T) {
	sim := httptest.NewServer(&simulate.Server{})
	defer sim.Close()
	path := file(t, "token-old\n")
	c := serve(t, env("DOOMPROXY_AUTH_TOKENS=fixed="+file(t, "token-fixed")+",changing="+path), sim.URL+"/v1")
	wants := func(tokens map[string]int) {
		t.Helper()
		for token, want := range tokens {
			resp := do(t, direct(), http.MethodGet, c.base(t)+"/models", "", "X-Doomproxy-Token", token)
			if resp.status != want {
				t.Errorf("%s: got status %d, want %d", token, resp.status, want)
			}
		}
	}
	wantLogged := func(text string, want int) {
		t.Helper()
		if got := strings.Count(c.stderr.String(), text); got != want {
			t.Errorf("got %q logged %d times, want %d, in:\n%s", text, got, want, &c.stderr)
		}
	}
	wants(map[string]int{"token-fixed": 200, "token-old": 200, "token-new": 401})
	replace(t, path, []byte("token-new\n"))
	wants(map[string]int{"token-fixed": 200, "token-old": 401, "token-new": 200})
	wantLogged("a changed file was read", 1)

	for i, text := range []string{"", "two\nlines", "with a blank"} {
		replace(t, path, []byte(text))
		wants(map[string]int{"token-fixed": 200, "token-old": 401, "token-new": 200, text[:min(len(text), 3)]: 401})
		wantLogged("cannot be used", i+1)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wants(map[string]int{"token-fixed": 200, "token-old": 401, "token-new": 200})
	wantLogged("cannot be used", 4)
	wantLogged("setting=auth.tokens.changing", 5)
	replace(t, path, []byte("token-last"))
	wants(map[string]int{"token-fixed": 200, "token-new": 401, "token-last": 200})
	wantLogged("token-", 0)
}

func TestTokenFilesRefused(t *testing.T) {
	empty, odd, large := file(t, "\n"), file(t, "hunter2 hunter3"), file(t, strings.Repeat("x", 64<<10+1))
	for path, want := range map[string]string{
		empty:           "the file is empty, want a token",
		odd:             "want one line of visible ASCII characters",
		large:           "larger than 64 KiB",
		"testdata/none": "no such file",
	} {
		var told bytes.Buffer
		c := begin(t, nil, []string{"DOOMPROXY_AUTH_TOKENS=good=" + file(t, "x") + ",bad=" + path}, "serve", "--upstream", nowhere, "--listen", "127.0.0.1:0", "--admin-listen", "")
		if code := report(&told, c.wait(t)); code != 1 {
			t.Errorf("%s: got exit code %d, want 1", path, code)
		}
		wantText(t, told.String(), "auth.tokens: bad", path, want)
		if strings.Contains(told.String(), "hunter") {
			t.Errorf("the error tells what the file holds: %s", &told)
		}
	}
}

// Files are not looked at more often than that.
func TestRereadInterval(t *testing.T) {
	path := file(t, "old")
	loads := 0
	r := &reread[string]{files: []string{path}, every: time.Hour, load: func() (string, error) {
		loads++
		return config.ReadText(path)
	}}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	replace(t, path, []byte("new"))
	if got := r.get(); got != "old" || loads != 1 {
		t.Errorf("got %s after %d loads, want the old text and no look at the file", got, loads)
	}
	r.log, r.looked = newLogger(new(bytes.Buffer), logLevel("info"), "text"), time.Now().Add(-time.Hour)
	if got := r.get(); got != "new" || loads != 2 {
		t.Errorf("got %s after %d loads, want the new text", got, loads)
	}
	if r.get(); loads != 2 {
		t.Errorf("got %d loads, want none of a file that is the same", loads)
	}
}
