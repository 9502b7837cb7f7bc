package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/config"
)

const everything = `
upstreams:
  another: {url: "https://one/v1?key=hunter2", signals: never}
  default: {url: "https://two", ca_file: /ca, client_cert: /cert, client_key: /key}
listen: 127.0.0.1:1
tls: {cert: /c, key: /k}
auth: {tokens: [{name: a, file: "/a: #b"}, {name: b, file: /b}]}
admin_listen: ""
admin: {token: hunter2, hosts: [h, "h:1"]}
delivery: hold
recovery: {mode: off, max_threshold: 8, reminder: "two\nlines: # true", replay: {text_bytes: 1KiB}, drill: true}
splice: {profiles: [{user_agent_prefix: "x (", close: tombstone}]}
retry: {on: [], max_wait: 90m}
limits: {memory: 3GiB, header_timeout: 1500ms}
ledger: {store: redis, redis_url: "rediss://user:hunter2@h:1/2?password=hunter2", ttl: 1h30m}
log: {format: json}
`

func TestYAML(t *testing.T) {
	path := file(t, everything)
	l, _, err := load(t, &config.Sources{
		File: path, Env: []string{"DOOMPROXY_LOG_LEVEL=debug", "DOOMPROXY_LIMITS_BODY=64MiB"}, Flags: flags([]string{"--max-retries=5"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	for _, want := range []string{
		"upstreams:\n  default:\n    url: https://two # FILE:4\n    ca_file: /ca # FILE:4\n", // the default one first
		"  another:\n    url: https://one/v1?… # FILE:3\n    ca_file: \"\"\n",
		"  tokens: # FILE:7\n    - name: a\n      file: '/a: #b'\n",
		"admin_listen: \"\" # FILE:8\n",
		"  token: … # FILE:9\n  hosts: [h, 'h:1'] # FILE:9\n",
		"  mode: off # FILE:11\n",
		"  max_retries: 5 # --max-retries\n",
		"  window_tokens: 1024\n",
		"  reminder: |- # FILE:11\n    two\n    lines: # true\n",
		"  on: [] # FILE:13\n",
		"  max_wait: 1h30m # FILE:13\n",
		"  body: 64MiB\n", // given, but the default
		"  memory: 3GiB # FILE:14\n",
		"  header_timeout: 1.5s # FILE:14\n",
		"  redis_url: rediss://…@h:1/2?… # FILE:15\n  ttl: 1h30m # FILE:15\n  max_entries: 200000\n",
		"  level: debug # DOOMPROXY_LOG_LEVEL\n",
	} {
		wantText(t, got, strings.ReplaceAll(want, "FILE", path))
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("a secret is shown:\n%s", got)
	}
	for _, f := range config.Fields() {
		leaf := f.Key[strings.LastIndexByte(f.Key, '.')+1:]
		if !strings.Contains(got, " "+leaf+":") && !strings.Contains(got, "\n"+leaf+":") {
			t.Errorf("got no %s", f.Key)
		}
	}
}

// What is shown can be loaded again, and means the same, but for secrets.
func TestYAMLIsAFile(t *testing.T) {
	for _, text := range []string{"", strings.NewReplacer("?key=hunter2", "", "token: hunter2, ", "", "user:hunter2@", "", "?password=hunter2", "").Replace(everything)} {
		l, _, err := load(t, &config.Sources{File: file(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		reloads(t, l)
	}
}

func reloads(t *testing.T, l *config.Loaded) {
	t.Helper()
	b, err := l.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := load(t, &config.Sources{File: file(t, string(b))})
	if err != nil {
		t.Fatalf("%v, in:\n%s", err, b)
	}
	if !reflect.DeepEqual(again.Config, l.Config) {
		t.Errorf("got %+v\nwant %+v\nfrom:\n%s", again.Config, l.Config, b)
	}
}

// A place is on one line, whatever it is called.
func TestYAMLOfOddFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a\nlisten: 'evil:1'\n#")
	if err := os.WriteFile(path, []byte("listen: 'good:1'"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _, err := load(t, &config.Sources{File: path})
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := load(t, &config.Sources{File: file(t, string(b))})
	if err != nil || again.Listen != "good:1" {
		t.Errorf("got %v and %s, want the configuration as it was", err, again.Listen)
	}
}

// A Secret is hidden in whatever way a configuration is written.
func TestSecret(t *testing.T) {
	c := config.Default()
	c.Admin.Token, c.Ledger.RedisURL = "hunter2", "redis://:hunter2@h"
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "token", c.Admin.Token, "config", c)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "token", c.Admin.Token, "config", c)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%q", c.Admin.Token), fmt.Sprintf("%s", c.Admin), log.String(), string(asJSON),
	} {
		if strings.Contains(told, "hunter2") {
			t.Errorf("a secret is told: %s", told)
		}
	}
	if s := config.Secret("").String(); s != "" {
		t.Errorf("got %q for no secret, want nothing", s)
	}
}
