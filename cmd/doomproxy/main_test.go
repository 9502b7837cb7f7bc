package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asCommand makes the test binary behave as the command.
const asCommand = "RUN_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// output is what a command prints while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// find waits for text that fits, and returns its first group.
func (o *output) find(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m[len(m)-1]
		}
	}
	t.Fatalf("got no %s in:\n%s", pattern, o)
	return ""
}

// command is a command that runs in this process.
type command struct {
	stdout, stderr output
	stop           context.CancelFunc
	done           chan error
}

// begin runs a command until the test ends. change may adapt it.
func begin(t *testing.T, change func(*app), env []string, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &command{stop: cancel, done: make(chan error, 1)}
	a := &app{
		stdout: &c.stdout, stderr: &c.stderr, env: env, plan: defaultPlan(),
		timeout: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, min(d, 5*time.Second))
		},
		ticks:    func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} },
		hangups:  func() (<-chan os.Signal, func()) { return nil, func() {} },
		terminal: func() bool { return false },
	}
	if change != nil {
		change(a)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.done <- a.run(ctx, args)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c
}

// wait returns the error that the command ended with.
func (c *command) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(15 * time.Second):
		t.Fatalf("the command does not end; it printed:\n%s\n%s", &c.stdout, &c.stderr)
		return nil
	}
}

// process starts the command as a process of its own.
func process(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *output) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stdout, stderr = &output{}, &output{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout, stderr
}

// wantExit waits for the end of a process.
func wantExit(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	err := cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("got exit code %d (%v), want %d", got, err, want)
	}
}

func send(t *testing.T, cmd *exec.Cmd, sig os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

const streamBody = `{"model":"m","stream":true,"input":"hello"}`

// post asks a base URL for a stream, which is closed with the test.
func post(t *testing.T, base string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/responses", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := direct().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got status %s, want 200", resp.Status)
	}
	return resp.Body
}

// get returns the status and the text at a URL.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := direct().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func wantText(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got no %q in:\n%s", w, got)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown command": {[]string{"serv"}, `there is no command "serv"; did you mean serve?`},
		"unknown flag":    {[]string{"serve", "--nope"}, "unknown flag: --nope"},
		"argument":        {[]string{"demo", "now"}, `unexpected argument "now"`},
		"no upstream":     {[]string{"serve"}, "--upstream is required"},
		"two upstreams":   {[]string{"serve", "--upstream", "http://a", "--upstream", "default=http://b"}, "--upstream: there are two upstreams with the name default; give each its own: --upstream NAME=URL"},
		"mode":            {[]string{"serve", "--upstream", "http://a", "--mode", "on"}, `recovery.mode (--mode): "on" is not allowed, want enforce, observe or off`},
		"rate":            {[]string{"simulate", "--loop-rate", "2"}, "--loop-rate: 2 is not allowed, want a share from 0 to 1"},
		"NaN":             {[]string{"simulate", "--fail-rate", "NaN"}, "--fail-rate"},
		"delay":           {[]string{"simulate", "--delay", "-1s"}, "--delay"},
		"script and rate": {[]string{"simulate", "--script", "x", "--seed", "1"}, "--script and --seed exclude each other"},
		"no script":       {[]string{"simulate", "--script", "testdata/none"}, "testdata/none"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, told bytes.Buffer
			code := report(&told, run(t.Context(), test.args, &out, &out, nil))
			if code != 2 {
				t.Errorf("got exit code %d, want 2", code)
			}
			wantText(t, told.String(), "doomproxy: ", test.want, "--help' tells")
			if out.Len() > 0 {
				t.Errorf("got more than the error: %s", &out)
			}
		})
	}
}

// Settings that go together: one is missing.
func TestIncompleteSettings(t *testing.T) {
	for env, want := range map[string]string{
		"DOOMPROXY_TLS_CERT=c.pem":                                        "only one of tls.cert and tls.key is set, want both or neither",
		"DOOMPROXY_TLS_KEY=k.pem":                                         "only one of tls.cert and tls.key is set, want both or neither",
		"DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_CERT=c.pem":                   "only one of upstreams.default.client_cert and upstreams.default.client_key is set",
		"DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_KEY_FILE=" + file(t, "k.pem"): "only one of upstreams.default.client_cert and upstreams.default.client_key is set",
	} {
		var told bytes.Buffer
		code := report(&told, begin(t, nil, []string{env}, "serve", "--upstream", nowhere, "--listen", "127.0.0.1:0", "--admin-listen", "").wait(t))
		if code != 2 {
			t.Errorf("%s: got exit code %d, want 2", env, code)
		}
		wantText(t, told.String(), want)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"serve", "demo", "simulate", "check-config", "healthcheck", "completion", "version"}},
		{[]string{"serve", "--help"}, []string{"Examples:", "--exact-repetition-min-tokens", "DOOMPROXY_LIMITS_FRAME", "(default 127.0.0.1:3666)", "--mode MODE", "--drill ", "--config FILE"}},
		{[]string{"check-config", "--help"}, []string{"Examples:", "--upstream [NAME=]URL"}},
		{[]string{"healthcheck", "--help"}, []string{"Examples:", "--admin URL", "--config FILE"}},
		{[]string{"completion", "--help"}, []string{"Examples:", "bash", "~/.bashrc"}},
		{[]string{"demo", "--help"}, []string{"Examples:", "--keep"}},
		{[]string{"simulate", "--help"}, []string{"Examples:", "--script FILE"}},
		{[]string{"version"}, []string{"doomproxy ", "commit ", "go1."}},
		{[]string{"--version"}, []string{"doomproxy ", "commit ", "go1."}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if err := run(t.Context(), test.args, &stdout, &stderr, nil); err != nil || stderr.Len() > 0 {
				t.Errorf("got %v and %q on stderr, want neither", err, &stderr)
			}
			wantText(t, stdout.String(), test.want...)
		})
	}
}

func TestSignalStopsInOrder(t *testing.T) {
	cmd, stdout, _ := process(t, "serve", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	stdout.find(t, `mode +enforce`)
	send(t, cmd, syscall.SIGTERM)
	wantExit(t, cmd, 0)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	sim := begin(t, nil, nil, "simulate", "--listen", "127.0.0.1:0", "--script", script(t, `[{"end":"hang"}]`))
	cmd, stdout, stderr := process(t, "serve", "--upstream", sim.stdout.find(t, `base URL +(\S+)`), "--listen", "127.0.0.1:0", "--admin-listen", "")
	stream := post(t, stdout.find(t, `base URL +(\S+)`))
	send(t, cmd, os.Interrupt)
	stderr.find(t, "shutting down")
	send(t, cmd, os.Interrupt)
	wantExit(t, cmd, 1)
	if _, err := io.ReadAll(stream); err == nil {
		t.Error("the stream ended as if it were complete")
	}
}

func TestDemoProcess(t *testing.T) {
	t.Parallel()
	cmd, stdout, stderr := process(t, "demo")
	wantExit(t, cmd, 0)
	wantText(t, stdout.String(), "Recovered:")
	if s := stderr.String(); s != "" {
		t.Errorf("got %q on stderr, want nothing", s)
	}
	if strings.Contains(stdout.String(), "\x1b") {
		t.Error("got colours, though the output is no terminal")
	}
}
