package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/ledger"
)

// aPort returns a loopback port that nobody had a moment ago.
func aPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// serveOn runs the proxy on a port, in an environment of the test's own.
func serveOn(t *testing.T, port, upstream string, env ...string) *command {
	t.Helper()
	c := begin(t, nil, env, "serve", "--upstream", upstream, "--listen", "127.0.0.1:"+port, "--admin-listen", "127.0.0.1:0")
	c.stdout.find(t, `ledger +\w+`)
	return c
}

// nowhere is an upstream that is never asked.
const nowhere = "http://127.0.0.1:9/v1"

func TestLedgerPath(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		env  []string
		want string // below dir; empty: none
	}{
		"state directory of a service": {[]string{"STATE_DIRECTORY=" + dir + "/a:" + dir + "/b", "XDG_STATE_HOME=" + dir}, "a"},
		"XDG":                          {[]string{"XDG_STATE_HOME=" + dir, "HOME=" + dir + "/home"}, "doomproxy"},
		"XDG that is not absolute":     {[]string{"XDG_STATE_HOME=state", "HOME=" + dir}, ".local/state/doomproxy"},
		"home":                         {[]string{"HOME=" + dir}, ".local/state/doomproxy"},
		"nobody says":                  {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			port := aPort(t)
			c := serveOn(t, port, nowhere, tc.env...)
			kind := "file"
			if tc.want == "" {
				kind = "memory"
			} else if _, err := os.Stat(filepath.Join(dir, tc.want, "ledger-"+port+".db")); err != nil {
				t.Errorf("got %v, want a ledger there", err)
			}
			wantText(t, c.stdout.String(), "ledger     "+kind)
		})
	}
	t.Run("a port that is another one each time", func(t *testing.T) {
		c := serveOn(t, "0", nowhere, "HOME="+t.TempDir())
		wantText(t, c.stdout.String(), "ledger     memory")
	})
}

// Two proxies on one file are a mistake, and told so.
func TestLedgerInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	other, err := ledger.OpenFile(path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c := begin(t, nil, []string{"DOOMPROXY_LEDGER_PATH=" + path}, "serve", "--upstream", nowhere, "--listen", "127.0.0.1:0", "--admin-listen", "")
	if err := c.wait(t); err == nil {
		t.Error("got no error")
	} else {
		wantText(t, err.Error(), path, "in use by another process", "DOOMPROXY_LEDGER_PATH")
	}
}

// Where no file can be, memory serves.
func TestLedgerThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	damaged := filepath.Join(dir, "damaged.db")
	if err := os.WriteFile(damaged, []byte(strings.Repeat("no ledger ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{damaged, filepath.Join(damaged, "below-a-file.db")} {
		c := serveOn(t, "0", nowhere, "DOOMPROXY_LEDGER_PATH="+path)
		wantText(t, c.stdout.String(), "ledger     memory")
		wantText(t, c.stderr.String(), "kept in memory only")
	}
	if after, err := os.ReadFile(damaged); err != nil || !strings.HasPrefix(string(after), "no ledger") {
		t.Errorf("the damaged file was changed: %v", err)
	}
}

func TestLedgerInRedis(t *testing.T) {
	for env, want := range map[string]string{
		"DOOMPROXY_LEDGER_REDIS_URL=":                      "ledger.redis_url is required",
		"DOOMPROXY_LEDGER_REDIS_URL=http://u:hunter2@host": "ledger.redis_url",
	} {
		c := begin(t, nil, []string{"DOOMPROXY_LEDGER_STORE=redis", env}, "serve", "--upstream", nowhere, "--listen", "127.0.0.1:0", "--admin-listen", "")
		err := c.wait(t)
		if err == nil {
			t.Fatalf("%s: got no error", env)
		}
		wantText(t, err.Error(), want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	t.Run("away", func(t *testing.T) {
		sim := begin(t, nil, nil, "simulate", "--listen", "127.0.0.1:0")
		c := serveOn(t, "0", sim.base(t), "DOOMPROXY_LEDGER_STORE=redis", "DOOMPROXY_LEDGER_REDIS_URL=redis://u:hunter2@127.0.0.1:"+aPort(t))
		raw, err := io.ReadAll(post(t, c.base(t)))
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, string(raw), "response.completed")
		_, text := get(t, c.admin(t)+"/metrics")
		wantText(t, text, `doomproxy_ledger_errors_total{store="redis"}`, "doomproxy_ledger_entries 0")
		if strings.Contains(c.stderr.String()+text, "hunter2") {
			t.Error("the password is told")
		}
	})
}

// What a proxy knew, the next one on its port knows.
func TestLedgerOutlivesTheProxy(t *testing.T) {
	sim := begin(t, nil, nil, "simulate", "--control", "--listen", "127.0.0.1:0", "--script",
		script(t, `[{"no_message":true,"loop":{"terminal_only":true}},{"message":"fine"}]`))
	port, env := aPort(t), "HOME="+t.TempDir()
	first := serveOn(t, port, sim.base(t), env)
	raw, err := io.ReadAll(post(t, first.base(t)))
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(raw), `"item":{"id":"rs_`)
	id, _, _ = strings.Cut(id, `"`)
	first.stop()
	if err := first.wait(t); err != nil {
		t.Fatal(err)
	}

	second := serveOn(t, port, sim.base(t), env)
	body := fmt.Sprintf(`{"stream":true,"input":[{"type":"item_reference","id":"rs_%s"},{"role":"user","content":"go on"}]}`, id)
	resp, err := http.Post(second.base(t)+"/responses", "application/json", strings.NewReader(body)) //nolint:noctx // the test ends it
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	_, sent := get(t, strings.TrimSuffix(sim.base(t), "/v1")+"/simulate/requests")
	if n := strings.Count(sent, "item_reference"); n != 0 || id == "" {
		t.Errorf("rs_%s went upstream: %s", id, sent)
	}
	wantText(t, sent, "go on")
}
