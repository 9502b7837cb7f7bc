package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/simulate"
)

// reloading is a proxy with a configuration file, which looks at its files when the
// test tells it to.
type reloading struct {
	*command
	path  string
	looks chan time.Time
	hups  chan os.Signal
}

// serveFile runs the proxy with a configuration file. Its listeners are on free
// ports. change may adapt the command.
func serveFile(t *testing.T, text string, change func(*app), args ...string) *reloading {
	t.Helper()
	w := &reloading{path: filepath.Join(t.TempDir(), "config.yaml"), looks: make(chan time.Time), hups: make(chan os.Signal)}
	w.write(t, text)
	args = append([]string{"serve", "--config", w.path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	w.command = begin(t, func(a *app) {
		a.ticks = func(time.Duration) (<-chan time.Time, func()) { return w.looks, func() {} }
		a.hangups = func() (<-chan os.Signal, func()) { return w.hups, func() {} }
		if change != nil {
			change(a)
		}
	}, nil, args...)
	w.stdout.find(t, `ledger +\w+`)
	return w
}

func (w *reloading) write(t *testing.T, text string) {
	t.Helper()
	replace(t, w.path, []byte(text))
}

// look lets it notice a change, and returns when it has.
func (w *reloading) look(t *testing.T) {
	t.Helper()
	for range 3 { // a change has to be there in two looks; the third is taken when these are done with
		w.send(t, func(timeout <-chan time.Time) bool {
			select {
			case w.looks <- time.Time{}:
				return true
			case <-timeout:
				return false
			}
		})
	}
}

func (w *reloading) hangUp(t *testing.T) {
	t.Helper()
	w.send(t, func(timeout <-chan time.Time) bool {
		select {
		case w.hups <- syscall.SIGHUP:
			return true
		case <-timeout:
			return false
		}
	})
}

func (w *reloading) send(t *testing.T, try func(timeout <-chan time.Time) bool) {
	t.Helper()
	if !try(time.After(10 * time.Second)) {
		t.Fatalf("nobody looks at the files; it printed:\n%s", &w.stderr)
	}
}

// change puts a text in the file's place and lets it be noticed.
func (w *reloading) change(t *testing.T, text string) {
	t.Helper()
	w.write(t, text)
	w.look(t)
}

const (
	taken   = "the configuration was read again"
	refused = "the changed configuration cannot be used"
)

// wantReloads compares how often a changed configuration was taken in, and was
// refused, in log and metrics.
func (w *reloading) wantReloads(t *testing.T, success, failure int) {
	t.Helper()
	_, text := get(t, w.admin(t)+"/metrics")
	last := 1
	if m := regexp.MustCompile(taken+"|"+refused).FindAllString(w.stderr.String(), -1); len(m) > 0 && m[len(m)-1] == refused {
		last = 0
	}
	wantText(
		t, text,
		fmt.Sprintf("doomproxy_config_reloads_total{result=\"success\"} %d\n", success),
		fmt.Sprintf("doomproxy_config_reloads_total{result=\"failure\"} %d\n", failure),
		fmt.Sprintf("doomproxy_config_last_reload_successful %d\n", last),
	)
	for text, want := range map[string]int{taken: success, refused: failure} {
		if got := strings.Count(w.stderr.String(), text); got != want {
			t.Errorf("got %q logged %d times, want %d, in:\n%s", text, got, want, &w.stderr)
		}
	}
}

// looping is an upstream that answers the first request for each model with a
// loop of threshold 32, of which the first event comes at once and the others when
// it is told to, and all others with a plain answer.
func looping(t *testing.T) (base string, proceed func()) {
	t.Helper()
	told := make(chan struct{})
	var mu sync.Mutex
	seen := map[string]bool{}
	sim := httptest.NewServer(&simulate.Server{Script: func(_ int, req *simulate.Request) simulate.Scenario {
		var body struct{ Model string }
		if err := json.Unmarshal(req.Body, &body); err != nil {
			t.Errorf("got the body %q: %v", req.Body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[body.Model] || strings.HasPrefix(body.Model, "plain") {
			return simulate.Scenario{Message: "All is well."}
		}
		seen[body.Model] = true
		return simulate.Scenario{
			Loop: &simulate.Loop{Triggers: []string{"tail_repetition:32@thinking"}, Deltas: 20, Then: simulate.ThenFinish},
			Before: func(write int) {
				if write == 1 {
					select {
					case <-told:
					case <-req.Gone:
					}
				}
			},
		}
	}})
	t.Cleanup(sim.Close)
	return sim.URL + "/v1", sync.OnceFunc(func() { close(told) })
}

// askFor asks for a stream of a model.
func askFor(t *testing.T, base, model string, header ...string) reply {
	t.Helper()
	return do(t, direct(), http.MethodPost, base+"/responses", `{"model":"`+model+`","stream":true,"input":"hello"}`, header...)
}

const recoveredMark = ": doomproxy resample=1 trigger=tail_repetition:32@thinking"

// A running stream keeps the policy that it began with, the next has the new one,
// and no request notices.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	const streams = 10
	upstream, proceed := looping(t)
	config := "upstreams: {default: {url: '" + upstream + "'}}\nrecovery: {max_threshold: %d}\n"
	w := serveFile(t, fmt.Sprintf(config, 64), nil)

	stop, loaded := make(chan struct{}), make(chan error, 1)
	go func() { // plain requests all the while
		client := direct()
		var err error
		for n := 0; err == nil; n++ {
			select {
			case <-stop:
				loaded <- nil
				return
			default:
			}
			var resp *http.Response
			resp, err = client.Post(w.base(t)+"/responses", "application/json", strings.NewReader(fmt.Sprintf(`{"model":"plain-%d","stream":true}`, n))) //nolint:noctx // the test ends it
			if err != nil {
				break
			}
			var raw []byte
			raw, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && !strings.Contains(string(raw), "response.completed") {
				err = fmt.Errorf("got %s and %q", resp.Status, raw)
			}
		}
		loaded <- err
	}()

	var before, after []reply
	for i := range streams {
		before = append(before, askFor(t, w.base(t), fmt.Sprintf("before-%d", i)))
	}
	w.change(t, fmt.Sprintf(config, 16))
	w.wantReloads(t, 1, 0)
	wantText(t, w.stderr.String(), "changed=[recovery.max_threshold]")
	for i := range streams {
		after = append(after, askFor(t, w.base(t), fmt.Sprintf("after-%d", i)))
	}
	proceed()
	for i := range streams {
		raw := before[i].text(t)
		wantText(t, raw, recoveredMark, "All is well.", "response.completed")
		raw = after[i].text(t)
		wantText(t, raw, "response.completed")
		if strings.Contains(raw, "resample=") {
			t.Errorf("a stream that began after the change was cut, though its threshold is looser:\n%s", raw)
		}
	}
	close(stop)
	if err := <-loaded; err != nil {
		t.Errorf("a request failed meanwhile: %v", err)
	}
	w.change(t, fmt.Sprintf(config, 32)) // and back again
	w.wantReloads(t, 2, 0)
	wantText(t, askFor(t, w.base(t), "last").text(t), recoveredMark)

	// What is known of requests outlives each change.
	var shown struct{ Recoveries []struct{ Outcome string } }
	_, text := get(t, w.admin(t)+"/debug/requests")
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	if n := len(shown.Recoveries); n != streams+1 {
		t.Errorf("got %d recoveries shown, want the %d of both configurations", n, streams+1)
	}
}

// A configuration that cannot be used changes nothing, and is told once.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	upstream, proceed := looping(t)
	proceed()
	good := "upstreams: {default: {url: '" + upstream + "'}}\nrecovery: {max_threshold: 32}\n"
	w := serveFile(t, good, nil)
	other := strings.Replace(good, "32", "16", 1)
	failures := 0
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":           {other + "recovery: [", "this is no YAML"},
		"unknown key":       {other + "limit: {}", `there is no key \"limit\"; did you mean limits?`},
		"value":             {other + "retry: {max_retries: 11}", `retry.max_retries (` + w.path + `:3)`},
		"no upstream":       {"recovery: {max_threshold: 16}", "--upstream is required"},
		"half a pair":       {other + "tls: {cert: /c}", "only one of tls.cert and tls.key is set"},
		"CA file":           {strings.Replace(other, "{url:", "{ca_file: testdata/none, url:", 1), "upstreams.default: "},
		"token file":        {other + "auth: {tokens: [{name: a, file: testdata/none}]}", "auth.tokens: a: "},
		"capture directory": {other + "capture: {dir: testdata/none}", "capture.dir: "},
		"itself":            {"upstreams: {default: {url: 'http://" + w.address(t) + "/v1'}}", "is this proxy itself"},
	} {
		before := w.stderr.String()
		w.change(t, test.text)
		failures++
		wantText(t, strings.TrimPrefix(w.stderr.String(), before), "level=ERROR", test.want)
		for range 3 {
			w.look(t)
		}
		w.wantReloads(t, 0, failures)
		raw := askFor(t, w.base(t), name).text(t)
		wantText(t, raw, recoveredMark, "response.completed")
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.look(t)
	w.look(t)
	w.wantReloads(t, 0, failures+1)
	wantText(t, w.stderr.String(), "no such file")
	wantText(t, askFor(t, w.base(t), "removed").text(t), recoveredMark)
	w.change(t, other)
	w.wantReloads(t, 1, failures+1)
	if raw := askFor(t, w.base(t), "changed").text(t); strings.Contains(raw, "resample=") {
		t.Errorf("a stream that began after the change was cut:\n%s", raw)
	}
}

// What cannot be used for a cause outside of the file is tried again, quietly.
func TestReloadTriesAgain(t *testing.T) {
	good := "upstreams: {default: {url: '" + nowhere + "'}}\n"
	w := serveFile(t, good, nil)
	token := filepath.Join(t.TempDir(), "token")
	w.change(t, good+"auth: {tokens: [{name: a, file: '"+token+"'}]}")
	w.look(t)
	w.wantReloads(t, 0, 1)
	replace(t, token, []byte("two words"))
	w.look(t)
	w.look(t)
	w.wantReloads(t, 0, 2) // another reason is news
	replace(t, token, []byte("token"))
	w.look(t)
	w.wantReloads(t, 1, 2)
	wantStatus(t, w.base(t)+"/models", http.StatusUnauthorized)
}

// A file that is still being written is left alone.
func TestLookoutWaitsForTheLastWrite(t *testing.T) {
	path := file(t, "0")
	var read []string
	l := &lookout{
		files: []string{path, "testdata/none"},
		read: func() error {
			b, err := os.ReadFile(path)
			read = append(read, string(b))
			return err
		},
		tell: func(err error) {
			if err != nil {
				t.Error(err)
			}
		},
		tried: states([]string{path, "testdata/none"}),
	}
	for i := range 4 {
		replace(t, path, fmt.Append(nil, "1", i))
		l.look()
	}
	if len(read) > 0 {
		t.Errorf("got %q read while the file was changing", read)
	}
	l.look()
	l.look()
	if !slices.Equal(read, []string{"13"}) {
		t.Errorf("got %q, want what was written last, once", read)
	}
}

// As Kubernetes replaces files: a symbolic link to a directory is swapped.
func TestReloadAfterSymlinkSwap(t *testing.T) {
	dir := t.TempDir()
	for i, mode := range []string{"enforce", "observe"} {
		at := filepath.Join(dir, fmt.Sprint("data", i))
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "upstreams: {default: {url: '" + nowhere + "'}}\nrecovery: {mode: " + mode + "}\n"
		if err := os.WriteFile(filepath.Join(at, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "..data")
	if err := os.Symlink("data0", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	w := serveFile(t, "", func(a *app) { a.env = append(a.env, "UNUSED=") }, "--config", filepath.Join(dir, "config.yaml"))
	w.look(t)
	w.wantReloads(t, 0, 0)
	if err := os.Symlink("data1", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	w.look(t)
	w.wantReloads(t, 1, 0)
	wantText(t, w.stderr.String(), "changed=[recovery.mode]")
}

// A file may come after the start, where one is looked for.
func TestReloadOfNewFile(t *testing.T) {
	home := t.TempDir()
	c := filepath.Join(home, ".config", "doomproxy", "config.yaml")
	looks := make(chan time.Time)
	w := &reloading{path: c, looks: looks, command: begin(t, func(a *app) {
		a.ticks = func(time.Duration) (<-chan time.Time, func()) { return looks, func() {} }
	}, []string{"HOME=" + home, "DOOMPROXY_LEDGER_STORE=memory"}, "serve", "--upstream", nowhere, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")}
	w.stdout.find(t, `ledger +\w+`)
	if strings.Contains(w.stdout.String(), "settings ") {
		t.Errorf("got a file of settings, though there is none:\n%s", &w.stdout)
	}
	if err := os.MkdirAll(filepath.Dir(c), 0o700); err != nil {
		t.Fatal(err)
	}
	w.change(t, "recovery: {mode: observe}")
	w.wantReloads(t, 1, 0)
	wantText(t, w.stderr.String(), "changed=[recovery.mode]", "file="+c)
	if err := os.Remove(c); err != nil {
		t.Fatal(err)
	}
	w.look(t)
	w.wantReloads(t, 1, 1) // an editor may have it back in a moment
	wantText(t, w.stderr.String(), "the configuration file is gone: "+c)
}

// The file of a value is reloading, too.
func TestReloadOfValueInFile(t *testing.T) {
	reminder := file(t, "Stop.")
	w := serveFile(t, "upstreams: {default: {url: '"+nowhere+"'}}", env("DOOMPROXY_RECOVERY_REMINDER_FILE="+reminder))
	replace(t, reminder, []byte("Do stop."))
	w.look(t)
	w.wantReloads(t, 1, 0)
	wantText(t, w.stderr.String(), "changed=[recovery.reminder]")
	if strings.Contains(w.stderr.String(), "Do stop") {
		t.Errorf("a value is told:\n%s", &w.stderr)
	}
}

// What needs a restart is named, and the rest of the change holds.
func TestReloadOfWhatNeedsARestart(t *testing.T) {
	good := "upstreams: {default: {url: '" + nowhere + "'}}\nlog: {level: info, format: text}\n"
	w := serveFile(t, good, nil)
	w.change(t, strings.Replace(good, "info, format: text", "debug, format: json", 1)+"ledger: {ttl: 1h}\nlimits: {header: 1KiB}\nrecovery: {drill: true}")
	w.wantReloads(t, 1, 0)
	wantText(
		t, w.stderr.String(),
		`level=WARN msg="changed settings have no effect before the next start" settings="[limits.header ledger.ttl log.format]"`,
		`changed="[recovery.drill log.level]"`,
	)
	w.change(t, good)
	if got := strings.Count(w.stderr.String(), "before the next start"); got != 1 {
		t.Errorf("got %d warnings, want none for values as they were at the start", got-1)
	}
}

// The level of the log is one of the values that change.
func TestReloadOfLogLevel(t *testing.T) {
	sim := httptest.NewServer(&simulate.Server{})
	defer sim.Close()
	good := "upstreams: {default: {url: '" + sim.URL + "'}}\nlog: {level: error}\n"
	w := serveFile(t, good, nil)
	get(t, w.base(t)+"/models")
	if s := w.stderr.String(); s != "" {
		t.Errorf("got %q, want errors only", s)
	}
	w.change(t, strings.Replace(good, "error", "info", 1))
	get(t, w.base(t)+"/models")
	// The record is written when the client has its answer, or a moment later.
	tick, late := time.NewTicker(time.Millisecond), time.After(5*time.Second)
	defer tick.Stop()
	for !strings.Contains(w.stderr.String(), "level=INFO msg=request") {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("got no record of the request in:\n%s", w.stderr.String())
		}
	}
}

// A mode that an operator chose holds until the configured one changes.
func TestReloadOfMode(t *testing.T) {
	good := "upstreams: {default: {url: '" + nowhere + "'}}\nrecovery: {mode: enforce, max_retries: 1}\n"
	w := serveFile(t, good, nil)
	type modes struct {
		Mode       string `json:"mode"`
		Configured string `json:"mode_configured"`
		Switched   bool   `json:"mode_switched"`
	}
	mode := func() (now modes) {
		t.Helper()
		_, text := get(t, w.admin(t)+"/debug/requests")
		if err := json.Unmarshal([]byte(text), &now); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return now
	}
	resp := do(t, direct(), http.MethodPost, w.admin(t)+"/debug/mode", `{"recovery":"off"}`, "Content-Type", "application/json")
	if resp.status != http.StatusNoContent {
		t.Fatalf("got status %d: %s", resp.status, resp.text(t))
	}
	_, text := get(t, w.admin(t)+"/metrics")
	wantText(t, text, `doomproxy_config_reloads_total{result="mode"} 1`)
	w.change(t, strings.Replace(good, "1", "2", 1))
	if got := mode(); got.Mode != "off" || got.Configured != "enforce" || !got.Switched {
		t.Errorf("got %+v after another change, want the operator's mode", got)
	}
	w.change(t, strings.Replace(good, "enforce", "observe", 1))
	if got := mode(); got.Mode != "observe" || got.Configured != "observe" || got.Switched {
		t.Errorf("got %+v after a change of the mode, want that", got)
	}
	w.wantReloads(t, 2, 0)
}

// sent are the paths that an upstream was asked for.
func sent(sim *simulate.Server) (paths []string) {
	for _, req := range sim.Requests() {
		paths = append(paths, req.Path)
	}
	return paths
}

// Upstreams can come and go, and connections to those from before are closed.
func TestReloadOfUpstreams(t *testing.T) {
	closed := make(chan net.Conn, 10)
	first := httptest.NewUnstartedServer(&simulate.Server{})
	first.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- c
		}
	}
	first.Start()
	defer first.Close()
	other := &simulate.Server{Script: func(int, *simulate.Request) simulate.Scenario {
		return simulate.Scenario{Message: "from the second"}
	}}
	second := httptest.NewServer(other)
	defer second.Close()
	w := serveFile(t, "upstreams: {default: {url: '"+first.URL+"/v1'}}", nil)
	wantText(t, askFor(t, w.base(t), "m").text(t), "response.completed")
	w.change(t, "upstreams: {default: {url: '"+first.URL+"/v1'}, second: {url: '"+second.URL+"/v1'}}")
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Error("the idle connection from before is still open")
	}
	named := strings.TrimSuffix(w.base(t), "/v1") + "/second/v1"
	wantText(t, askFor(t, named, "m").text(t), "from the second")
	w.change(t, "upstreams: {default: {url: '"+second.URL+"/v1'}}")
	wantText(t, askFor(t, w.base(t), "m").text(t), "from the second")
	askFor(t, named, "m").text(t)
	if got := sent(other)[1:]; !slices.Equal(got, []string{"/v1/responses", "/v1/second/v1/responses"}) {
		t.Errorf("got %q at the upstream, want its name to be a part of the path, now that it is the only one", got)
	}
	w.wantReloads(t, 2, 0)
	wantText(t, w.stderr.String(), "changed=[upstreams.second.url]", `changed="[upstreams.default.url upstreams.second.url]"`)
}

func TestReloadOfTokens(t *testing.T) {
	good := "upstreams: {default: {url: '" + nowhere + "'}}\nretry: {max_retries: 0}\n"
	w := serveFile(t, good, nil, "--listen", "0.0.0.0:0")
	const open = "other machines may reach the proxy"
	if got := strings.Count(w.stderr.String(), open); got != 1 {
		t.Errorf("got %d warnings of an open listener, want 1", got)
	}
	w.change(t, good+"auth: {tokens: [{name: a, file: '"+file(t, "token-a")+"'}]}")
	wantStatus(t, w.base(t)+"/models", http.StatusUnauthorized)
	resp := do(t, direct(), http.MethodGet, w.base(t)+"/models", "", "X-Doomproxy-Token", "token-a")
	if resp.status != http.StatusBadGateway {
		t.Errorf("got status %d with the new token, want 502 of an upstream that is not there", resp.status)
	}
	w.change(t, good)
	wantStatus(t, w.base(t)+"/models", http.StatusBadGateway)
	if got := strings.Count(w.stderr.String(), open); got != 2 {
		t.Errorf("got %d warnings of an open listener, want one more since it is open again", got)
	}
}

func TestReloadOfAdminToken(t *testing.T) {
	good := "upstreams: {default: {url: '" + nowhere + "'}}\nadmin: {token: token-old}\n"
	w := serveFile(t, good, nil)
	wants := func(tokens map[string]int) {
		t.Helper()
		for token, want := range tokens {
			resp := do(t, direct(), http.MethodGet, w.admin(t)+"/debug/requests", "", "Authorization", "Bearer "+token)
			if resp.status != want {
				t.Errorf("%s: got status %d, want %d", token, resp.status, want)
			}
		}
		wantStatus(t, w.admin(t)+"/readyz", http.StatusOK)
	}
	wants(map[string]int{"token-old": 200, "token-new": 401})
	w.change(t, strings.Replace(good, "old", "new", 1))
	wants(map[string]int{"token-old": 401, "token-new": 200})
	if all := w.stdout.String() + w.stderr.String(); strings.Contains(all, "token-old") || strings.Contains(all, "token-new") {
		t.Errorf("a token is told:\n%s", all)
	}
}

// As a process, with a signal and with time.
func TestReloadByProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "upstreams: {default: {url: '" + nowhere + "'}}\nlisten: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nledger: {store: memory}\n"
	replace(t, path, []byte(text))
	cmd, stdout, stderr := process(t, "serve", "--config", path)
	stdout.find(t, `ledger +memory`)
	wantText(t, stdout.String(), "settings   "+path)
	replace(t, path, []byte(text+"recovery: {max_threshold: 8}"))
	send(t, cmd, syscall.SIGHUP)
	stderr.find(t, taken+`.*changed=\[recovery.max_threshold\]`)
	replace(t, path, []byte(text+"recovery: {max_treshold: 4}"))
	send(t, cmd, syscall.SIGHUP)
	stderr.find(t, refused+`.*did you mean recovery.max_threshold\?`)
	replace(t, path, []byte(text+"recovery: {max_retries: 4}")) // noticed without a signal
	stderr.find(t, taken+`.*changed="\[recovery.max_threshold recovery.max_retries\]"`)
	send(t, cmd, syscall.SIGTERM)
	wantExit(t, cmd, 0)
}

// SIGHUP means that a service is to read its configuration, even if nothing has
// changed, and that a terminal is gone.
func TestHangUp(t *testing.T) {
	good := "upstreams: {default: {url: '" + nowhere + "'}}\n"
	w := serveFile(t, good, nil)
	w.hangUp(t)
	w.look(t)
	w.wantReloads(t, 1, 0)
	wantText(t, w.stderr.String(), "changed=[]")
	w.write(t, good+"nope: 1")
	w.hangUp(t)
	w.hangUp(t)
	w.look(t)
	w.wantReloads(t, 1, 2) // it was asked twice

	var mu sync.Mutex
	there := true
	w = serveFile(t, good, func(a *app) {
		a.terminal = func() bool {
			mu.Lock()
			defer mu.Unlock()
			return there
		}
	})
	w.hangUp(t)
	w.look(t)
	w.wantReloads(t, 1, 0)
	mu.Lock()
	there = false
	mu.Unlock()
	w.hangUp(t)
	w.wantEnd(t)
	wantText(t, w.stderr.String(), "the terminal is gone", "shutting down")
}
