package simulate

import (
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	streamBody = `{"model":"m-1","stream":true,"input":"hello"}`
	plainBody  = `{"model":"m-1","input":"hello"}`
)

func optIn() http.Header {
	return http.Header{"X-Grok-Doom-Loop-Check": {"1024"}}
}

func start(t *testing.T, s *Server) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ErrorLog = log.New(failing{t}, "", 0) // a handler that panics
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// failing is a log that fails the test.
type failing struct{ t *testing.T }

func (f failing) Write(p []byte) (int, error) {
	f.t.Errorf("server log: %s", p)
	return len(p), nil
}

// serve starts a server that answers everything with one scenario. The channel
// gives the requests as they come in.
func serve(t *testing.T, sc Scenario) (*httptest.Server, <-chan *Request) {
	t.Helper()
	requests := make(chan *Request, 16)
	return start(t, &Server{Script: func(_ int, req *Request) Scenario {
		requests <- req
		return sc
	}}), requests
}

func send(ctx context.Context, srv *httptest.Server, method, path, body string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	return srv.Client().Do(r)
}

// answer is what a test looks at in a response. Its body is closed at the end
// of the test.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

// post sends a request for a response.
func post(ctx context.Context, t *testing.T, srv *httptest.Server, body string, header http.Header) answer {
	t.Helper()
	res, err := send(ctx, srv, http.MethodPost, "/v1/responses", body, header)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return answer{res.StatusCode, res.Header, res.Body}
}

// readAll gives all of an answer that ends cleanly.
func readAll(t *testing.T, body io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("read answer: %v after %q", err, data)
	}
	return string(data)
}

// readN gives exactly n bytes.
func readN(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	data := make([]byte, n)
	if k, err := io.ReadFull(r, data); err != nil {
		t.Fatalf("read answer: %v after %q", err, data[:k])
	}
	return string(data)
}

// await waits for a channel to be closed, or to give something.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: nothing after 5 s", what)
		panic("not reached")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sse takes generated frames apart: the event names and the data of each.
func sse(t *testing.T, frames []string) (names []string, data []gjson.Result) {
	t.Helper()
	for _, frame := range frames {
		name := ""
		for line := range strings.Lines(frame) {
			line = strings.TrimRight(line, "\r\n")
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				if v != "[DONE]" && !gjson.Valid(v) {
					t.Errorf("data is no JSON: %s", v)
				}
				data = append(data, gjson.Parse(v))
			}
		}
		names = append(names, name)
	}
	if len(names) != len(data) {
		t.Fatalf("%d frames hold %d data lines", len(names), len(data))
	}
	return names, data
}

// types gives the type of each frame's data.
func types(t *testing.T, frames []string) []string {
	t.Helper()
	_, data := sse(t, frames)
	list := make([]string, len(data))
	for i, d := range data {
		list[i] = d.Get("type").Str
	}
	return list
}

// last gives the data of the last frame.
func last(t *testing.T, frames []string) gjson.Result {
	t.Helper()
	if len(frames) == 0 {
		t.Fatal("no frames")
	}
	_, data := sse(t, frames[len(frames)-1:])
	return data[0]
}

// triggers gives the labels of an array, joined.
func triggers(v gjson.Result) string {
	var labels []string
	for _, l := range v.Array() {
		labels = append(labels, l.Str)
	}
	return strings.Join(labels, " ")
}
