package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
)

// sink is a client that takes everything.
type sink struct {
	header http.Header
	n      int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Flush()              {}
func (s *sink) Write(b []byte) (int, error) {
	s.n += len(b)
	return len(b), nil
}

// inProcess returns a proxy whose upstream answers from memory, so that only
// the proxy's own work is measured.
func inProcess(tb testing.TB, answer func(*http.Request) io.Reader) http.Handler {
	tb.Helper()
	return inProcessWith(tb, nil, answer)
}

// inProcessWith is inProcess with another configuration.
func inProcessWith(tb testing.TB, change func(*proxy.Config), answer func(*http.Request) io.Reader) http.Handler {
	tb.Helper()
	cfg := proxy.Config{
		Upstream:  &url.URL{Scheme: "http", Host: "upstream"},
		Policy:    recovery.Policy{MaxRetries: 2},
		CutJitter: 1,
		Transport: fromMemory(answer),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := proxy.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// fromMemory returns an upstream that answers from memory.
func fromMemory(answer func(*http.Request) io.Reader) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {"text/event-stream"}},
			Body:       io.NopCloser(answer(r)),
		}, nil
	})
}

// reverseProxy returns what the proxy is compared with.
func reverseProxy(upstream *url.URL, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:     transport,
		FlushInterval: -1,
	}
}

func ask(h http.Handler) int { return askWith(h, streamBody) }

func askWith(h http.Handler, body string) int {
	s := &sink{header: http.Header{}}
	h.ServeHTTP(s, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/responses", strings.NewReader(body)))
	return s.n
}

// longStream is a healthy answer with n deltas of thinking and as many of text.
func longStream(n int) []byte {
	think, say := make([]string, n), make([]string, n)
	for i := range n {
		think[i] = fmt.Sprintf("Step %d, \"quoted\".\n", i)
		say[i] = fmt.Sprintf("word %d ", i)
	}
	sc := simulate.Scenario{Thinking: think, Message: strings.Join(say, "")}
	return []byte(strings.Join(sc.Stream(0, []byte(streamBody)), ""))
}

// On the healthy path a forwarded frame costs no allocation: a stream ten times
// as long takes hardly more of them.
func TestHealthyPathDoesNotAllocatePerFrame(t *testing.T) {
	allocs := func(stream []byte) float64 {
		h := inProcess(t, func(*http.Request) io.Reader { return bytes.NewReader(stream) })
		return testing.AllocsPerRun(20, func() { ask(h) })
	}
	const n = 1000
	short, long := longStream(n), longStream(10*n)
	frames := bytes.Count(long, []byte("\n\n")) - bytes.Count(short, []byte("\n\n"))
	few, many := allocs(short), allocs(long)
	// The terminal event of the long stream is longer too, and makes buffers grow.
	if perFrame := (many - few) / float64(frames); perFrame > 0.01 {
		t.Errorf("got %v allocations for %d more frames (%v and %v), want none for each", perFrame, frames, many, few)
	}
}

func BenchmarkHealthy(b *testing.B) {
	stream := longStream(1000)
	frames := float64(bytes.Count(stream, []byte("\n\n")))
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole reads": func(r io.Reader) io.Reader { return r },
		"1 KiB reads": func(r io.Reader) io.Reader { return limited{r, 1 << 10} },
		"half reads":  iotest.HalfReader,
	} {
		b.Run(name, func(b *testing.B) {
			h := inProcess(b, func(*http.Request) io.Reader { return wrap(bytes.NewReader(stream)) })
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				ask(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/frames, "ns/frame")
		})
	}
}

type limited struct {
	r io.Reader
	n int
}

func (l limited) Read(p []byte) (int, error) { return l.r.Read(p[:min(len(p), l.n)]) }

// BenchmarkRecovery is a cut and a spliced answer of 1,000 deltas each way.
func BenchmarkRecovery(b *testing.B) {
	looped := strings.Join(finite().Stream(0, []byte(streamBody)), "")
	stream := longStream(1000)
	attempts := 0
	h := inProcess(b, func(*http.Request) io.Reader {
		if attempts++; attempts%2 == 1 {
			return strings.NewReader(looped)
		}
		return bytes.NewReader(stream)
	})
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		ask(h)
	}
	runtime.KeepAlive(h)
}

// BenchmarkSockets compares a healthy stream over loopback sockets with what
// httputil.ReverseProxy makes of it.
func BenchmarkSockets(b *testing.B) {
	stream := longStream(200)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a request from below
		w.Header().Set("Content-Type", "text/event-stream")
		for chunk := range bytes.SplitAfterSeq(stream, []byte("\n\n")) {
			w.Write(chunk) //nolint:errcheck // the client sees it
		}
	}))
	defer up.Close()
	u, _ := url.Parse(up.URL)
	p, err := proxy.New(proxy.Config{Upstream: u, Policy: recovery.Policy{MaxRetries: 2}})
	if err != nil {
		b.Fatal(err)
	}
	plain := reverseProxy(u, proxy.NewTransport())
	duplex := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() //nolint:errcheck // as in Proxy.passThrough
		plain.ServeHTTP(w, r)
	})
	for name, h := range map[string]http.Handler{"doomproxy": p, "ReverseProxy": duplex} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			for b.Loop() {
				resp, err := client.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(streamBody))
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				if err != nil || n != int64(len(stream)) {
					b.Fatalf("got %d bytes, %v", n, err)
				}
				resp.Body.Close()
			}
		})
	}
}

// What a short answer costs, all in all.
func BenchmarkShort(b *testing.B) {
	stream := longStream(3)
	h := inProcess(b, func(*http.Request) io.Reader { return bytes.NewReader(stream) })
	b.ReportAllocs()
	for b.Loop() {
		ask(h)
	}
}

// deltas is a stream of n deltas of thinking, no two alike, and little else.
func deltas(n int) []byte {
	var b bytes.Buffer
	b.WriteString("data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\"}}\n\n")
	for i := range n {
		fmt.Fprintf(&b, "event: response.reasoning_text.delta\ndata: {\"type\":\"response.reasoning_text.delta\",\"sequence_number\":%d,\"item_id\":\"rs_0123456789abcdef\",\"output_index\":0,\"content_index\":0,\"delta\":\" word %d of text\"}\n\n", i+1, i*7919)
	}
	b.WriteString("data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"output\":[{\"type\":\"message\"}]}}\n\n")
	return b.Bytes()
}

// What a delta costs on its way, apart from reading and writing.
func BenchmarkDeltas(b *testing.B) {
	const n = 10_000
	stream := deltas(n)
	for _, mode := range []proxy.Mode{proxy.ModeOff, proxy.ModeEnforce} {
		b.Run("detector="+string(mode), func(b *testing.B) {
			h := inProcessWith(b, func(c *proxy.Config) { c.Detector.Mode = mode }, func(*http.Request) io.Reader { return bytes.NewReader(stream) })
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				ask(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delta")
		})
	}
}
