package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkConfig runs check-config and returns its exit code and what it printed.
func checkConfig(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told bytes.Buffer
	err := run(t.Context(), append([]string{"check-config"}, args...), &out, &told, env)
	code = report(&told, err)
	return code, out.String(), told.String()
}

func TestCheckConfig(t *testing.T) {
	path := file(t, "upstreams: {default: {url: 'http://h?key=hunter2'}}\nadmin: {token: hunter2}\nledger: {store: redis, redis_url: 'redis://u:hunter2@h'}\nrecovery: {max_threshold: 1}")
	for name, args := range map[string][]string{"argument": {path}, "flag": {"--config", path}, "argument over flag": {"--config", "none", path}} {
		code, stdout, stderr := checkConfig(t, []string{"DOOMPROXY_LIMITS_BODY=1MiB", "DOOMPROXY_NOPE=1"}, append(args, "--mode", "observe")...)
		if code != 0 {
			t.Errorf("%s: got exit code %d, want 0", name, code)
		}
		wantText(
			t, stdout, "# from \""+path+"\"\n", "    url: http://h?… # "+path+":1\n", "  token: … # "+path+":2\n",
			"  redis_url: redis://…@h # "+path+":3\n", "  mode: observe # --mode\n", "  max_threshold: 2 # "+path+":4\n",
			"  body: 1MiB # DOOMPROXY_LIMITS_BODY\n", "\n  format: text\n",
		)
		wantText(t, stderr, `level=WARN msg="unknown environment variable" name=DOOMPROXY_NOPE`, "key=recovery.max_threshold value=1")
		if strings.Contains(stdout+stderr, "hunter2") || strings.Contains(stderr, "time=") {
			t.Errorf("%s: got a secret, or a time, in:\n%s\n%s", name, stdout, stderr)
		}
	}
	dir := filepath.Join(t.TempDir(), "doomproxy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	found := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(found, []byte("upstreams: {x: {url: http://h}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := checkConfig(t, []string{"XDG_CONFIG_HOME=" + filepath.Dir(dir)})
	if code != 0 || stderr != "" {
		t.Errorf("got exit code %d and %q, want 0 and nothing", code, stderr)
	}
	wantText(t, stdout, "# from \""+found+"\"\n", "  x:\n")
}

// The answer is that of serve, but for the exit code.
func TestCheckConfigRefuses(t *testing.T) {
	good := "upstreams: {default: {url: http://h}}\n"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"two mistakes": {"mode: off\nretry: {max_retries: 11}", []string{`doomproxy: PATH:1: there is no key "mode"; did you mean recovery.mode?`, `doomproxy: retry.max_retries (PATH:2): "11" is not allowed, want a whole number from 0 to 10`}},
		"no upstream":  {"recovery: {mode: off}", []string{"doomproxy: --upstream is required"}},
		"token file":   {good + "auth: {tokens: [{name: a, file: testdata/none}]}", []string{"doomproxy: auth.tokens: a: ", "no such file"}},
		"certificate":  {good + "tls: {cert: testdata/none, key: testdata/none}", []string{"doomproxy: tls.cert testdata/none with tls.key testdata/none: "}},
		"CA":           {"upstreams: {default: {url: http://h, ca_file: testdata/none}}", []string{"doomproxy: upstreams.default: ", "testdata/none"}},
		"captures":     {good + "capture: {dir: testdata/none}", []string{"doomproxy: capture.dir: ", "testdata/none"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, test.text)
			code, stdout, stderr := checkConfig(t, nil, path)
			if code != 1 || stdout != "" {
				t.Errorf("got exit code %d and %q, want 1 and nothing", code, stdout)
			}
			for _, want := range test.want {
				wantText(t, stderr, strings.ReplaceAll(want, "PATH", path))
			}
			var told bytes.Buffer
			serveCode := report(&told, begin(t, nil, nil, "serve", "--config", path, "--listen", "127.0.0.1:0", "--admin-listen", "").wait(t))
			if lines := slices.Collect(strings.Lines(told.String())); serveCode == 0 || !strings.HasPrefix(told.String(), stderr) {
				t.Errorf("got exit code %d and %q of serve, want the same mistakes:\n%s", serveCode, lines, stderr)
			}
		})
	}
	code, _, stderr := checkConfig(t, nil, "one.yaml", "two.yaml")
	if code != 2 {
		t.Errorf("got exit code %d for two files, want 2", code)
	}
	wantText(t, stderr, `unexpected argument "two.yaml"`)
	code, _, stderr = checkConfig(t, nil, "--config", "")
	if code != 1 {
		t.Errorf("got exit code %d for no file, want 1", code)
	}
	wantText(t, stderr, `--config: "" is not allowed, want the path of a file`)
}

// The user's folder is the one that Go knows.
func TestConfigDirectory(t *testing.T) {
	for _, vars := range []map[string]string{
		{"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, {"HOME": "/h", "XDG_CONFIG_HOME": ""}, {"HOME": "", "XDG_CONFIG_HOME": ""}, {"HOME": "", "XDG_CONFIG_HOME": "/x"},
	} {
		var env []string
		for name, value := range vars {
			t.Setenv(name, value)
			env = append(env, name+"="+value)
		}
		want, _ := os.UserConfigDir() //nolint:errcheck // then it is empty
		a := &app{env: env, systemFile: "/etc/doomproxy/config.yaml"}
		if got := a.configDirectory(); got != want {
			t.Errorf("%v: got %q, want %q", vars, got, want)
		}
		places := []string{"/etc/doomproxy/config.yaml"}
		if want != "" {
			places = slices.Insert(places, 0, filepath.Join(want, "doomproxy", "config.yaml"))
		}
		if got := a.places(); !slices.Equal(got, places) {
			t.Errorf("%v: got the places %q, want %q", vars, got, places)
		}
	}
}

// A shell is told the words of a flag.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"serve --mode ":              "enforce\nobserve\noff\n:4\n",
		"serve --mode o":             "enforce\nobserve\noff\n:4\n", // the shell chooses
		"serve --delivery ":          "live\nhold\n:4\n",
		"serve --log-level ":         "debug\ninfo\nwarn\nerror\n:4\n",
		"serve --log-format ":        "text\njson\n:4\n",
		"serve --max-retries ":       ":4\n",
		"serve --config ":            "yaml\nyml\n:8\n",
		"serve ":                     ":4\n",
		"check-config ":              "yaml\nyml\n:8\n",
		"check-config --log-format ": "text\njson\n:4\n",
		"healthcheck --admin ":       ":4\n",
		"scan ":                      ":0\n", // names of files
		"scan --format ":             "text\njson\n:4\n",
		"scan --channel ":            "thinking\nresponse\ntool\n:4\n",
		"scan --act ":                "exact\ncounter\nsaturation\n:4\n",
		"scan --max-threshold ":      ":4\n",
		"completion ":                "bash\t",
	} {
		var out, told bytes.Buffer
		if err := run(t.Context(), append([]string{"__complete"}, strings.Split(line, " ")...), &out, &told, nil); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want && (!strings.HasSuffix(want, "\t") || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"completion", shell}, &out, &out, nil); err != nil || !strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: got %v and %d bytes, want a script", shell, err, out.Len())
		}
	}
}
