package proxy_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
)

// What the proxy costs is compared with what stands beside it in one process, so that
// the limits below hold on any machine. They are some third above what was measured;
// docs/performance.md tells what it costs as a process of its own.
const (
	maxAllocsRatio  = 3.5  // of a short answer, to httputil.ReverseProxy; net/http's client and server are in neither
	maxFrameRatio   = 0.75 // of a frame that is read and sent by itself, to json.Valid of its data; sockets are not in it
	maxWatchedRatio = 1.35 // likewise, with the detector
	maxStackRatio   = 1.1  // of an open stream, to ReverseProxy; all of net/http is in both
	maxHeapRatio    = 1.0  // likewise
)

// framewise returns one frame with each read.
type framewise struct{ rest []byte }

func (f *framewise) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.rest[:bytes.Index(f.rest, []byte("\n\n"))+2])
	f.rest = f.rest[n:]
	return n, nil
}

// inMemory returns a ReverseProxy whose upstream answers from memory.
func inMemory(answer func() io.Reader) http.Handler {
	return reverseProxy(&url.URL{Scheme: "http", Host: "upstream"}, fromMemory(func(*http.Request) io.Reader { return answer() }))
}

// skipUnderRace skips a test of ratios that are others under the race detector.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector costs one more than the other")
	}
}

func TestAllocationsInRatio(t *testing.T) {
	stream := longStream(3)
	answer := func() io.Reader { return bytes.NewReader(stream) }
	ours := inProcess(t, func(*http.Request) io.Reader { return answer() })
	got := testing.AllocsPerRun(200, func() { ask(ours) })
	peer := inMemory(answer)
	than := testing.AllocsPerRun(200, func() { ask(peer) })
	t.Logf("%.0f allocations, ReverseProxy %.0f", got, than)
	if got > maxAllocsRatio*than {
		t.Errorf("a short answer takes %.0f allocations, want %.2f times the %.0f of ReverseProxy at most", got, maxAllocsRatio, than)
	}
}

func TestFramesInRatio(t *testing.T) {
	skipUnderRace(t)
	const n = 2000
	stream := deltas(n)
	answer := func(*http.Request) io.Reader { return &framewise{stream} }
	plain := inProcessWith(t, func(c *proxy.Config) { c.Detector.Mode = proxy.ModeOff }, answer)
	watched := inProcess(t, answer)
	parse := func() {
		for frame := range bytes.SplitSeq(stream, []byte("\n\n")) {
			if _, data, ok := bytes.Cut(frame, []byte("data: ")); ok && !json.Valid(data) {
				t.Error("a frame holds no JSON")
			}
		}
	}
	// The least of many rounds is what it costs when nothing else disturbs it.
	var least [3]time.Duration
	for range 30 {
		for i, work := range []func(){parse, func() { ask(plain) }, func() { ask(watched) }} {
			start := time.Now()
			work()
			if took := time.Since(start); least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	t.Logf("a frame: %v, with the detector %v; json.Valid %v", least[1]/n, least[2]/n, least[0]/n)
	for i, limit := range map[int]float64{1: maxFrameRatio, 2: maxWatchedRatio} {
		if ratio := float64(least[i]) / float64(least[0]); ratio > limit {
			t.Errorf("a frame costs %.2f times what json.Valid of its data does, want %.2f at most, as the %s of these", ratio, limit, []string{"", "first", "second"}[i])
		}
	}
}

// openCost returns what a stream takes of stack and heap, in bytes, while it is open.
func openCost(t *testing.T, handler func(upstream *url.URL) http.Handler) (stack, heap float64) {
	t.Helper()
	const streams = 100
	first := deltas(1)
	first = first[:bytes.Index(first, []byte("event: response.reasoning"))]
	end := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(first)                        //nolint:errcheck // the client sees it
		http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		<-end
	}))
	defer up.Close()
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler(u))
	defer srv.Close()
	before := memory()
	var opened, closed sync.WaitGroup
	defer closed.Wait()
	defer close(end)
	for range streams {
		opened.Add(1)
		closed.Go(func() {
			resp, err := client.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(streamBody))
			if err != nil {
				t.Error(err)
				opened.Done()
				return
			}
			defer resp.Body.Close()
			waitFor(resp.Body, "response.created")
			opened.Done()
			io.Copy(io.Discard, resp.Body) //nolint:errcheck // it ends as it ends
		})
	}
	opened.Wait()
	after := memory()
	return float64(after.StackInuse-before.StackInuse) / streams, float64(after.HeapAlloc-before.HeapAlloc) / streams
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what the first one found in pools goes
	runtime.ReadMemStats(&m)
	return m
}

// The upstream, the client and both sides of net/http are in what is measured, the
// same for both.
func TestMemoryInRatio(t *testing.T) {
	skipUnderRace(t)
	peerStack, peerHeap := openCost(t, func(u *url.URL) http.Handler {
		return reverseProxy(u, proxy.NewTransport())
	})
	stack, heap := openCost(t, func(u *url.URL) http.Handler {
		p, err := proxy.New(proxy.Config{Upstream: u})
		if err != nil {
			t.Fatal(err)
		}
		return proxy.NewMux(p)
	})
	t.Logf("an open stream: stack %.0f, ReverseProxy %.0f; heap %.0f and %.0f", stack, peerStack, heap, peerHeap)
	if stack > maxStackRatio*peerStack {
		t.Errorf("an open stream takes %.0f bytes of stack, want %.2f times the %.0f of ReverseProxy at most", stack, maxStackRatio, peerStack)
	}
	if heap > maxHeapRatio*peerHeap {
		t.Errorf("an open stream takes %.0f bytes of heap, want %.2f times the %.0f of ReverseProxy at most", heap, maxHeapRatio, peerHeap)
	}
}
