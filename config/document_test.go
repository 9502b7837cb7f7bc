package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/config"
)

// The last layer that says something holds.
func TestOrder(t *testing.T) {
	const (
		inFile = "recovery: {mode: observe}\n"
		inEnv  = "DOOMPROXY_RECOVERY_MODE=off"
		flag   = "enforce"
	)
	for _, test := range []struct {
		file, env, flag bool
		want, source    string
	}{
		{false, false, false, "enforce", "nowhere"},
		{true, false, false, "observe", "FILE:1"},
		{true, true, false, "off", "DOOMPROXY_RECOVERY_MODE"},
		{false, true, false, "off", "DOOMPROXY_RECOVERY_MODE"},
		{true, true, true, "enforce", "--mode"},
		{true, false, true, "enforce", "--mode"},
	} {
		var src config.Sources
		if test.file {
			src.File = file(t, inFile)
		}
		if test.env {
			src.Env = []string{inEnv}
		}
		if test.flag {
			src.Flags = map[string][]string{"mode": {flag}}
		}
		l, _, err := load(t, &src)
		if err != nil {
			t.Fatal(err)
		}
		source := l.Source("recovery.mode", "nowhere")
		if want := strings.Replace(test.source, "FILE", src.File, 1); l.Recovery.Mode != test.want || source != want {
			t.Errorf("%+v: got %s from %s, want %s from %s", test, l.Recovery.Mode, source, test.want, want)
		}
		if l.File != src.File {
			t.Errorf("got the file %q, want %q", l.File, src.File)
		}
	}
}

// Each kind of value, in each form that a file may have for it.
func TestFile(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		get  func(*config.Config) any
		want any
	}{
		"nothing":              {"", func(c *config.Config) any { return c.Listen }, "127.0.0.1:3666"},
		"comments only":        {"# recovery: {mode: off}\n---\n", func(c *config.Config) any { return c.Recovery.Mode }, "enforce"},
		"null":                 {"null", func(c *config.Config) any { return c.Recovery.Mode }, "enforce"},
		"empty section":        {"recovery:\nlog: {level: warn}", func(c *config.Config) any { return c.Log.Level }, "warn"},
		"word of YAML":         {"recovery: {mode: off}", func(c *config.Config) any { return c.Recovery.Mode }, "off"},
		"number":               {"recovery: {max_threshold: 8}", func(c *config.Config) any { return c.Recovery.MaxThreshold }, 8},
		"number in quotes":     {`recovery: {max_threshold: "8"}`, func(c *config.Config) any { return c.Recovery.MaxThreshold }, 8},
		"size in bytes":        {"limits: {body: 1048576}", func(c *config.Config) any { return c.Limits.Body }, config.Size(1 << 20)},
		"size":                 {"limits: {body: 3KiB}", func(c *config.Config) any { return c.Limits.Body }, config.Size(3 << 10)},
		"true":                 {"recovery: {drill: true}", func(c *config.Config) any { return c.Recovery.Drill }, true},
		"text of lines":        {"recovery:\n  reminder: |-\n    two\n    lines", func(c *config.Config) any { return c.Recovery.Reminder }, "two\nlines"},
		"text of digits":       {"recovery: {reminder: 5}", func(c *config.Config) any { return c.Recovery.Reminder }, "5"},
		"no address":           {`admin_listen: ""`, func(c *config.Config) any { return c.AdminListen }, ""},
		"no path":              {`ledger: {path: ""}`, func(c *config.Config) any { return c.Ledger.Path }, ""},
		"words":                {"retry: {on: [drop, idle]}", func(c *config.Config) any { return c.Retry.On }, []string{"drop", "idle"}},
		"no words":             {"retry: {on: []}", func(c *config.Config) any { return c.Retry.On }, []string{}},
		"none":                 {"retry: {on: none}", func(c *config.Config) any { return c.Retry.On }, []string{}},
		"words as one text":    {"retry: {on: 'drop, idle'}", func(c *config.Config) any { return c.Retry.On }, []string{"drop", "idle"}},
		"tokens":               {"auth: {tokens: [{name: a, file: '/x,y=z'}, {name: b, file: /b}]}", func(c *config.Config) any { return c.Auth.Tokens }, []config.Token{{Name: "a", File: "/x,y=z"}, {Name: "b", File: "/b"}}},
		"tokens as one text":   {"auth: {tokens: 'a=/a,b=/b'}", func(c *config.Config) any { return c.Auth.Tokens }, []config.Token{{Name: "a", File: "/a"}, {Name: "b", File: "/b"}}},
		"profiles":             {"splice: {profiles: [{user_agent_prefix: 'x (', close: tombstone}]}", func(c *config.Config) any { return c.Splice.Profiles }, []config.Profile{{UserAgentPrefix: "x (", Close: "tombstone"}}},
		"no profiles":          {"splice: {profiles: []}", func(c *config.Config) any { return c.Splice.Profiles }, []config.Profile{}},
		"profiles as one text": {"splice: {profiles: 'Codex =dangling, b=c=tombstone'}", func(c *config.Config) any { return c.Splice.Profiles }, []config.Profile{{UserAgentPrefix: "Codex ", Close: "dangling"}, {UserAgentPrefix: "b=c", Close: "tombstone"}}},
		"hosts":                {"admin: {hosts: [proxy.lan, '[::1]:80', 'h:1']}", func(c *config.Config) any { return c.Admin.Hosts }, []string{"proxy.lan", "[::1]:80", "h:1"}},
		"tools":                {"stationarity: {tight_tools: [Read, mcp__a.b/c-d]}", func(c *config.Config) any { return c.Stationarity.TightTools }, []string{"Read", "mcp__a.b/c-d"}},
		"no tools":             {"stationarity: {tight_tools: []}", func(c *config.Config) any { return c.Stationarity.TightTools }, []string{}},
		"anchor":               {"ledger: {path: &p /x}\ncapture: {dir: *p}", func(c *config.Config) any { return c.Capture.Dir }, "/x"},
		"section by anchor":    {"upstreams: {a: &u {url: http://h}, b: *u}", func(c *config.Config) any { return c.Upstreams["b"].URL }, "http://h"},
		"admin token":          {"admin: {token: t0ken}", func(c *config.Config) any { return string(c.Admin.Token) }, "t0ken"},
	} {
		t.Run(name, func(t *testing.T) {
			l, logged, err := load(t, &config.Sources{File: file(t, test.text)})
			if err != nil || logged != "" {
				t.Fatalf("got %v and the log %q, want neither", err, logged)
			}
			if got := test.get(&l.Config); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
}

// Each mistake in a file is told with its key, its line, the value, and what is
// allowed. hunter2 is a secret, wherever it stands.
func TestFileRefused(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string // @ stands for the file
	}{
		"unknown key":            {"recovery:\n  max_retrys: 3", []string{`@:2: there is no key "recovery.max_retrys"; did you mean recovery.max_retries?`}},
		"unknown section":        {"\n\nrecover: {mode: off}", []string{`@:3: there is no key "recover"; did you mean recovery?`}},
		"key of a section":       {"mode: off", []string{`@:1: there is no key "mode"; did you mean recovery.mode?`}},
		"key of another section": {"limits: {max_wait: 4s}", []string{`@:1: there is no key "limits.max_wait"; did you mean retry.max_wait?`}},
		"unlike any key":         {"zzzzzzzzzzzz: 4", []string{`@:1: there is no key "zzzzzzzzzzzz"; did you mean `}},
		"key of an upstream":     {"upstreams:\n  a:\n    urk: http://h", []string{`@:3: there is no key "upstreams.a.urk"; did you mean upstreams.a.url?`}},
		"key of a list":          {"auth: {tokens: [{name: a, path: /b}]}", []string{`@:1: there is no key "auth.tokens[0].path"; did you mean `}},
		"merge key":              {"<<: {mode: off}", []string{`@:1: there is no key "<<"`}},
		"long key":               {strings.Repeat("k", 1000) + ": 1", []string{`there is no key "` + strings.Repeat("k", 120) + `…"`}},
		"twice":                  {"recovery:\n  mode: off\n  mode: observe", []string{"@:3: recovery.mode is there twice, first in line 2"}},
		"section twice":          {"recovery: {mode: off}\nrecovery: {max_retries: 2}", []string{"@:2: recovery is there twice, first in line 1"}},
		"upstream twice":         {"upstreams:\n  a: {url: http://h}\n  a: {url: http://i}", []string{"@:3: upstreams.a is there twice"}},
		"twice in a list":        {"auth: {tokens: [{name: a, name: b, file: /b}]}", []string{"auth.tokens[0].name is there twice"}},
		"key that is a list":     {"[a]: 1", []string{"@:1: this is no key, want a word"}},

		"word":                {"recovery:\n  mode: on", []string{`recovery.mode (@:2): "on" is not allowed, want enforce, observe or off`}},
		"number":              {"recovery:\n\n  max_threshold: 8.5", []string{`recovery.max_threshold (@:3): "8.5" is not allowed, want a whole number from 2 to 64`}},
		"boolean":             {"recovery: {drill: yes}", []string{`recovery.drill (@:1): "yes" is not allowed, want true or false`}},
		"range":               {"retry: {max_retries: 11}", []string{`retry.max_retries (@:1): "11" is not allowed, want a whole number from 0 to 10`}},
		"entries":             {"ledger: {max_entries: 10}", []string{`ledger.max_entries (@:1): "10" is not allowed, want a whole number from 1000 to 10000000`}},
		"size":                {"limits: {frame: 0}", []string{`limits.frame (@:1): "0" is not allowed, want bytes from 1 to 1GiB`}},
		"negative size":       {"limits: {frame: -1}", []string{`limits.frame (@:1): "-1" is not allowed`}},
		"huge size":           {"limits: {memory: 16777217TiB}", []string{`limits.memory (@:1): "16777217TiB" is not allowed, want bytes from 1 to 1TiB`}},
		"time without a unit": {"retry: {max_wait: 30}", []string{`retry.max_wait (@:1): "30" is not allowed, want a time such as 30s or 12h, at least 10ms`}},
		"short time":          {"hold: {keepalive: 1ms}", []string{`hold.keepalive (@:1): "1ms" is not allowed`}},
		"long time":           {"ledger: {ttl: 87601h}", []string{`ledger.ttl (@:1)`, "at least 1m and at most 87600h"}},
		"address":             {"listen: 3666", []string{`listen (@:1): "3666" is not allowed, want HOST:PORT`}},
		"URL":                 {"upstreams:\n  a:\n    url: 'ftp://u:hunter2@h'", []string{`upstreams.a.url (@:3): `, "an http or https URL"}},
		"no value":            {"recovery:\n  mode:", []string{`recovery.mode (@:2): no value is not allowed, want enforce, observe or off`}},
		"list":                {"recovery: {mode: [off]}", []string{`recovery.mode (@:1): a list is not allowed, want enforce, observe or off`}},
		"section for a value": {"listen: {port: 3666}", []string{`listen (@:1): a section is not allowed, want HOST:PORT`}},
		"tag":                 {"listen: !address 'x:1'", []string{`listen (@:1): a value with a tag is not allowed, want HOST:PORT`}},
		"value for a section": {"recovery: hunter2", []string{`recovery (@:1): "…" is not allowed, want the keys client_opt_in, drill, `}},
		"list for a section":  {"recovery: [mode]", []string{`recovery (@:1): a list is not allowed, want the keys`}},
		"list for all":        {"- recovery", []string{`the file (@:1): a list is not allowed, want the keys admin, admin_listen,`}},
		"text for all":        {"hunter2", []string{`the file (@:1): "…" is not allowed, want the keys admin, admin_listen,`}},
		"list of upstreams":   {"upstreams: [{url: http://h}]", []string{`upstreams (@:1): a list is not allowed, want a section for each name`}},
		"value of upstreams":  {"upstreams: http://h", []string{`upstreams (@:1): "…" is not allowed, want a section for each name`}},
		"name of an upstream": {"upstreams: {a.b: {url: http://h}}", []string{`@:1: "a.b" is no name of an upstream, want letters, digits, - and _`}},
		"words":               {"retry:\n  on:\n    - drop\n    - sleep", []string{`retry.on[1] (@:4): "sleep" is not allowed, want connect, rate_limit,`}},
		"words in a section":  {"retry: {on: [{drop: 1}]}", []string{`retry.on[0] (@:1): a section is not allowed`}},
		"tool":                {"stationarity: {tight_tools: ['a b']}", []string{`stationarity.tight_tools[0] (@:1): "a b" is not allowed, want the name of a tool, without commas and blanks`}},
		"threshold":           {"stationarity: {loose_stop: -1}", []string{`stationarity.loose_stop (@:1): "-1" is not allowed, want a whole number from 0 to 1000`}},
		"part":                {"detector: {act: [exact, sure]}", []string{`detector.act[1] (@:1): "sure" is not allowed, want exact, counter or saturation`}},
		"host":                {"admin: {hosts: ['http://h']}", []string{`admin.hosts[0] (@:1): "http://h" is not allowed, want HOST or HOST:PORT`}},
		"profile":             {"splice: {profiles: [{user_agent_prefix: a, close: open}]}", []string{`splice.profiles[0].close (@:1): "open" is not allowed, want tombstone or dangling`}},
		"profile of all":      {"splice: {profiles: [{close: dangling}]}", []string{`splice.profiles[0].user_agent_prefix (@:1): "" is not allowed`}},
		"profile as text":     {"splice: {profiles: [codex]}", []string{`splice.profiles[0] (@:1): "codex" is not allowed, want a section with user_agent_prefix and close`}},
		"profiles as text":    {"splice: {profiles: 'codex'}", []string{`splice.profiles (@:1): "codex" is not allowed, want none, or PREFIX=tombstone|dangling`}},
		"token as text":       {"auth:\n  tokens:\n    - hunter2", []string{`auth.tokens[0] (@:3): "…" is not allowed, want a section with name and file`}},
		"token by name":       {"auth: {tokens: {a: hunter2}}", []string{`auth.tokens (@:1): a section is not allowed, want NAME=FILE`}},
		"token itself":        {"auth: {tokens: hunter2}", []string{`auth.tokens (@:1): "…" is not allowed, want NAME=FILE`}},
		"token without name":  {"auth: {tokens: [{file: /b}]}", []string{`auth.tokens[0].name (@:1): "…" is not allowed, want letters, digits, - and _`}},
		"token without file":  {"auth: {tokens: [{name: b}]}", []string{`auth.tokens[0].file (@:1): "" is not allowed, want the path of a file`}},
		"file in a list":      {"auth: {tokens: [{name: b, file: [hunter2]}]}", []string{`auth.tokens[0].file (@:1): a list or a section is not allowed`}},
		"list in a list":      {"auth: {tokens: [[hunter2]]}", []string{`auth.tokens[0] (@:1): a list is not allowed`}},
		"token name twice":    {"auth:\n  tokens:\n    - {name: a, file: /a}\n    - {name: a, file: /b}", []string{`auth.tokens[1].name (@:4): "a" is not allowed, want another name than those above`}},
		"key itself":          {"tls:\n  key: |\n    -----BEGIN PRIVATE KEY-----\n    hunter2", []string{`tls.key (@:2): "…" is not allowed, want the path of a file`}},
		"directory":           {"capture: {dir: \"a\\nb\"}", []string{`capture.dir (@:1): "…" is not allowed, want the path of a directory`}},
		"admin token":         {"admin: {token: 'two hunter2'}", []string{`admin.token (@:1): "…" is not allowed, want visible ASCII characters`}},
		"Redis":               {"ledger: {redis_url: 'http://u:hunter2@h'}", []string{`ledger.redis_url (@:1): "…" is not allowed, want redis://HOST:PORT/DATABASE`}},
		"Redis without //":    {"ledger: {redis_url: 'redis:u:hunter2@h'}", []string{`ledger.redis_url (@:1): "…" is not allowed`}},
		"long text":           {"log: {level: x" + strings.Repeat("ä", 100) + "}", []string{`"x` + strings.Repeat("ä", 59) + `…"`}},

		"tab":                {"recovery:\n\tmode: off", []string{"@:2: this is no YAML: found character that cannot start any token"}},
		"bracket":            {"listen: a:1\nretry: {on: [drop}", []string{"@:2: this is no YAML: did not find expected ',' or ']'"}},
		"first line":         {"listen: 'a", []string{"@:1: this is no YAML"}},
		"colon":              {"recovery:\n  mode: off: on", []string{"@:2: this is no YAML: mapping values are not allowed in this context"}},
		"anchor of a secret": {"admin:\n  token: *hunter2", []string{"@: this is no YAML: a text that begins with * needs quotes"}},
		"two documents":      {"listen: 'a:1'\n---\nlisten: 'b:1'", []string{"@:2: a second document begins here, want one"}},
		"binary":             {"listen: \x00", []string{"@:1: this is no YAML: control characters are not allowed"}},
		"too large":          {"# " + strings.Repeat("x", 1<<20), []string{"--config: @: the file is larger than 1024 KiB"}},

		"several": {"listen: 1\nrecovery: {mode: 1}\nmode: 1", []string{`there is no key "mode"`, "listen (@:1)", "recovery.mode (@:2)"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, test.text)
			_, _, err := load(t, &config.Sources{File: path})
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range test.want {
				wantText(t, err.Error(), strings.ReplaceAll(want, "@", path))
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %v", err)
			}
			if n := strings.Count(err.Error(), "\n") + 1; name != "several" && name != "key of a list" && n != 1 {
				t.Errorf("got %d errors for one mistake:\n%v", n, err)
			}
		})
	}
}

// A file of another kind is not answered with a flood.
func TestFileOfAnotherKind(t *testing.T) {
	var text strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&text, "key%d: %d\n", i, i)
	}
	path := file(t, text.String())
	_, _, err := load(t, &config.Sources{File: path})
	if err == nil {
		t.Fatal("got no error")
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 21 {
		t.Errorf("got %d errors, want 20 and one for all others", n)
	}
	wantText(t, err.Error(), `key0`, path+": there is more that cannot be understood")

	_, _, err = load(t, &config.Sources{File: file(t, "auth: {tokens: ["+strings.Repeat("x, ", 1000)+"]}")})
	if n := strings.Count(err.Error(), "\n") + 1; n != 20 {
		t.Errorf("got %d errors for a list, want 20", n)
	}
}

// With mistakes, what is none still holds.
func TestFileInPart(t *testing.T) {
	l, _, err := load(t, &config.Sources{File: file(t, "admin_listen: 'x:1'\nrecovery: {mode: on, max_retries: 4}\nmode: 1")})
	if err == nil {
		t.Fatal("got no error")
	}
	if l.AdminListen != "x:1" || l.Recovery.Mode != "enforce" || l.Recovery.MaxRetries != 4 {
		t.Errorf("got %s, %s and %d, want the values that are allowed and the default of the other", l.AdminListen, l.Recovery.Mode, l.Recovery.MaxRetries)
	}
}

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	write := func(name, level string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("log: {level: "+level+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, other := write("one/config.yaml", "debug"), write("other/config.yaml", "error")
	named := write("named.yaml", "warn")
	none := filepath.Join(dir, "none", "config.yaml")
	below := filepath.Join(named, "config.yaml") // a file is no directory
	for name, test := range map[string]struct {
		src        config.Sources
		file, want string
		files      []string
	}{
		"nowhere":          {config.Sources{Places: []string{none, below}}, "", "info", []string{none, below}},
		"first place":      {config.Sources{Places: []string{one, other}}, one, "debug", []string{one, other}},
		"second place":     {config.Sources{Places: []string{none, below, other}}, other, "error", []string{none, below, other}},
		"variable":         {config.Sources{Places: []string{one}, Env: []string{"DOOMPROXY_CONFIG=" + named}}, named, "warn", []string{named}},
		"empty variable":   {config.Sources{Places: []string{one}, Env: []string{"DOOMPROXY_CONFIG="}}, one, "debug", []string{one}},
		"flag":             {config.Sources{File: other, Places: []string{one}, Env: []string{"DOOMPROXY_CONFIG=" + named}}, other, "error", []string{other}},
		"files of values":  {config.Sources{File: other, Env: []string{"DOOMPROXY_LISTEN_FILE=", "DOOMPROXY_RECOVERY_REMINDER_FILE=" + named, "DOOMPROXY_UPSTREAMS_A_CA_FILE=/ca"}}, other, "error", []string{other, named}},
		"not of the proxy": {config.Sources{File: other, Env: []string{"OTHER_FILE=" + named}}, other, "error", []string{other}},
	} {
		t.Run(name, func(t *testing.T) {
			l, logged, err := load(t, &test.src)
			if err != nil || logged != "" {
				t.Fatalf("got %v and the log %q, want neither", err, logged)
			}
			if l.File != test.file || l.Log.Level != test.want {
				t.Errorf("got level %s from %q, want %s from %q", l.Log.Level, l.File, test.want, test.file)
			}
			if got := test.src.Files(); !reflect.DeepEqual(got, test.files) {
				t.Errorf("got the files %q, want %q", got, test.files)
			}
		})
	}
	for name, src := range map[string]config.Sources{
		"--config":         {File: none, Places: []string{one}},
		"DOOMPROXY_CONFIG": {Env: []string{"DOOMPROXY_CONFIG=" + none}, Places: []string{one}},
	} {
		_, _, err := load(t, &src)
		if err == nil {
			t.Errorf("%s: got no error for a file that is missing", name)
			continue
		}
		wantText(t, err.Error(), name+": ", none, "no such file")
	}
	if _, _, err := load(t, &config.Sources{Places: []string{dir, one}}); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("got %v for a directory in a file's place, want that said", err)
	}
}
