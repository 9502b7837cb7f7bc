package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A rig is the proxy in front of the simulated upstream, both as processes.
type rig struct {
	baseURL  string // the proxy's
	admin    string // the proxy's
	upstream string // the simulator's, without /v1
	log      *lockedBuffer
}

// newRig starts both for the time of the test.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{log: new(lockedBuffer)}
	simulated := start(t, io.Discard, "simulate", "--control", "--listen", "127.0.0.1:0")
	base := simulated(`base URL +(\S+)`)
	r.upstream = strings.TrimSuffix(base, "/v1")
	served := start(t, r.log, "serve", "--upstream", base, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	r.baseURL = served(`base URL +(\S+)`)
	r.admin = served(`admin +(\S+)`)
	return r
}

// start runs the built program until the test ends. The function that it
// returns waits for a line on stdout.
func start(t *testing.T, stderr io.Writer, args ...string) (find func(pattern string) string) {
	t.Helper()
	// Where it keeps things, it is to find nothing of another run.
	find, _ = startIn(t, t.TempDir(), stderr, nil, args...)
	return find
}

// startIn is start with a folder in which things are kept, and with more of an
// environment. The program can be stopped before the test ends.
func startIn(t *testing.T, state string, stderr io.Writer, env []string, args ...string) (find func(pattern string) string, stop func()) {
	t.Helper()
	path, err := filepath.Abs("bin/doomproxy")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + state, "XDG_STATE_HOME=" + state}, env...)
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make e2e builds it)", err)
	}
	lines := make(chan string, 100) // more than are printed
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	stop = sync.OnceFunc(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("%s: %v", args[0], err)
		}
		for range lines {
			// Wait must not come before all is read.
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v", args[0], err)
		}
	})
	t.Cleanup(stop)
	find = func(pattern string) string {
		t.Helper()
		for {
			select {
			case line, ok := <-lines:
				if !ok {
					t.Fatalf("%s ended before it printed %s", args[0], pattern)
				}
				if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
					return m[1]
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: no %s after 10 s", args[0], pattern)
			}
		}
	}
	return find, stop
}

// play gives the upstream a new script; it forgets what it was sent.
func (r *rig) play(t *testing.T, script any) {
	t.Helper()
	fetch(t, http.MethodPut, r.upstream+"/simulate/script", encode(script))
}

// received is one request that the upstream was sent.
type received struct {
	Ordinal int
	Method  string
	Path    string
	Header  http.Header
	Body    string
	Reply   string
	Gone    bool
	Done    bool
}

// received returns what the upstream was sent since the script began.
func (r *rig) received(t *testing.T) (list []received, raw []byte) {
	t.Helper()
	raw = fetch(t, http.MethodGet, r.upstream+"/simulate/requests", nil)
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list, raw
}

// metrics are the values of series, by name and labels.
type metrics map[string]float64

func (r *rig) metrics(t *testing.T) metrics {
	t.Helper()
	m := metrics{}
	for line := range strings.Lines(string(fetch(t, http.MethodGet, r.admin+"/metrics", nil))) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndexByte(line, '}'); i >= 0 { // labels may hold a space
			name, value, ok = line[:i+1], strings.TrimSpace(line[i+1:]), true
		}
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		m[name] = v
	}
	return m
}

// sum adds up the series of a name whose labels hold all the texts.
func (m metrics) sum(name string, labels ...string) (sum float64) {
	for series, v := range m {
		if rest, ok := strings.CutPrefix(series, name); ok && (rest == "" || rest[0] == '{') && containsAll(rest, labels) {
			sum += v
		}
	}
	return sum
}

// since are the differences to an earlier reading.
func (m metrics) since(before metrics) metrics {
	d := metrics{}
	for series, v := range m {
		d[series] = v - before[series]
	}
	return d
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

func fetch(t *testing.T, method, url string, body []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", res.Status, data)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return data
}

// lockedBuffer takes the log of a process while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// take returns what has come since it was called last.
func (b *lockedBuffer) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Next(b.buf.Len()))
}
