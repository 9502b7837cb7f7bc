package simulate

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

func joined(sc Scenario, ordinal int) string {
	return strings.Join(sc.Stream(ordinal, []byte(streamBody)), "")
}

func TestServeStream(t *testing.T) {
	byByte := func(stream []byte) [][]byte { return slices.Collect(slices.Chunk(stream, 1)) }
	tests := []struct {
		name   string
		sc     Scenario
		writes int // 0: one for each frame
	}{
		{"zero", Scenario{}, 0},
		{"CRLF", Scenario{LineEnd: "\r\n"}, 0},
		{"one byte at a time", Scenario{Split: byByte}, len(joined(Scenario{}, 0))},
		{"all at once", Scenario{Split: func(s []byte) [][]byte { return [][]byte{nil, s, nil} }}, 1},
		{"loop", Scenario{Loop: &Loop{After: 2, Deltas: 30, Then: ThenFinish}}, 0},
		{"loop that just ends", Scenario{Loop: &Loop{Deltas: 30, Then: ThenEOF}}, 0},
		{"raw frames", Scenario{Frames: []string{"\ufeff: hi\r\r", "", "data: x\n\n", "data: unterminated"}}, 3},
		{"limit", Scenario{Limit: 4}, 4},
		{"nothing", Scenario{Frames: []string{}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, requests := serve(t, tt.sc)
			res := post(t.Context(), t, srv, streamBody, optIn())
			got, want := readAll(t, res.Body), joined(tt.sc, 0)
			if got != want {
				t.Errorf("stream = %q\nwant %q", got, want)
			}
			if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream; charset=utf-8" {
				t.Errorf("answer is %d, %q", res.StatusCode, got)
			}
			if res.Header.Get("X-Request-Id") == "" {
				t.Error("answer has no x-request-id")
			}
			req := await(t, "request", requests)
			await(t, "Done", req.Done)
			if closed(req.Gone) {
				t.Error("Gone is closed after a complete reply")
			}
			if got := string(req.Reply()); got != want {
				t.Errorf("Reply = %q, want all that was sent", got)
			}
			if tt.writes == 0 {
				tt.writes = len(tt.sc.Stream(0, []byte(streamBody)))
			}
			if writes, n := req.Sent(); n != int64(len(want)) || writes != tt.writes {
				t.Errorf("Sent = %d writes, %d bytes, want %d, %d", writes, n, tt.writes, len(want))
			}
		})
	}
}

func TestServeReportsOnlyIfAsked(t *testing.T) {
	tests := []struct {
		name             string
		header           http.Header
		loop             Loop
		frames, terminal bool
	}{
		{"asked", optIn(), Loop{}, true, true},
		{"not asked", nil, Loop{}, false, false},
		{"always", nil, Loop{Always: true}, true, true},
		{"terminal only, asked", optIn(), Loop{TerminalOnly: true}, false, true},
		{"terminal only, not asked", nil, Loop{TerminalOnly: true}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.loop.Deltas, tt.loop.Then = 16, ThenFinish
			srv, _ := serve(t, Scenario{Loop: &tt.loop})
			got := readAll(t, post(t.Context(), t, srv, streamBody, tt.header).Body)
			if has := strings.Contains(got, "event: "+checkName); has != tt.frames {
				t.Errorf("has check frames: %v, want %v", has, tt.frames)
			}
			_, terminal, ok := strings.Cut(got, "event: response.completed")
			if has := strings.Contains(terminal, "doom_loop_check"); has != tt.terminal || !ok {
				t.Errorf("terminal event (there: %v) has a report: %v, want %v", ok, has, tt.terminal)
			}
		})
	}
}

// Each frame goes out at once: the server blocks before a write until the
// client has read all that came before it.
func TestServeFlushesEachFrame(t *testing.T) {
	writes := make(chan int)
	sc := Scenario{Before: func(write int) { writes <- write }}
	srv, requests := serve(t, sc)
	frames := sc.Stream(0, []byte(streamBody))
	res := post(t.Context(), t, srv, streamBody, nil) // returns before write 0: the headers are out
	req := await(t, "request", requests)
	for i, want := range frames {
		if got, _ := req.Sent(); got != i {
			t.Fatalf("Sent = %d writes, want %d", got, i)
		}
		if got := await(t, "write", writes); got != i {
			t.Fatalf("Before(%d), want %d", got, i)
		}
		if got := readN(t, res.Body, len(want)); got != want {
			t.Fatalf("frame %d = %q, want %q", i, got, want)
		}
	}
	if rest := readAll(t, res.Body); rest != "" {
		t.Errorf("after the last frame: %q", rest)
	}
}

// The headers go out even if nothing follows them.
func TestServeHeadersOnly(t *testing.T) {
	srv, requests := serve(t, Scenario{Frames: []string{}, End: EndHang})
	ctx, cancel := context.WithCancel(t.Context())
	if res := post(ctx, t, srv, streamBody, nil); res.StatusCode != http.StatusOK {
		t.Errorf("status = %d, want 200", res.StatusCode)
	}
	req := await(t, "request", requests)
	cancel()
	await(t, "Done", req.Done)
}

func TestServeDrops(t *testing.T) {
	tests := []struct {
		name    string
		sc      Scenario
		body    string
		headers bool
		want    string
	}{
		{"after the last frame", Scenario{End: EndAbort}, streamBody, true, joined(Scenario{}, 0)},
		{"in the middle", Scenario{End: EndAbort, Limit: 4}, streamBody, true, joined(Scenario{Limit: 4}, 0)},
		{"before the headers", Scenario{End: EndRefuse}, streamBody, false, ""},
		{"plain", Scenario{End: EndAbort}, plainBody, false, ""},
		{"plain without an end", Scenario{Limit: 4}, plainBody, false, ""},
		{"plain, loop without an end", Scenario{Loop: &Loop{Deltas: 4, Then: ThenEOF}}, plainBody, false, ""},
		{"plain, cut before the last frame", Scenario{Limit: len(Scenario{}.Stream(0, nil)) - 1}, plainBody, false, ""},
		{"plain, cut before the failure", Scenario{Limit: 2, Failure: &Failure{Event: FailureError, After: 2}}, plainBody, false, ""},
		{"plain, frames without an end", Scenario{Frames: []string{"data: {}\n\n"}}, plainBody, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, requests := serve(t, tt.sc)
			res, err := send(t.Context(), srv, http.MethodPost, "/v1/responses", tt.body, nil)
			if (err == nil) != tt.headers {
				t.Fatalf("answer %v, error %v; want headers: %v", res, err, tt.headers)
			}
			if err == nil {
				defer func() { _ = res.Body.Close() }()
				got, err := io.ReadAll(res.Body)
				if err == nil {
					t.Error("the body ends cleanly")
				}
				if string(got) != tt.want {
					t.Errorf("body = %q, want %q", got, tt.want)
				}
			}
			// A transport may try a request again that got no answer at all.
			req := await(t, "request", requests)
			await(t, "Done", req.Done)
			if closed(req.Gone) {
				t.Error("Gone is closed, but the server dropped the connection")
			}
		})
	}
}

func TestServePlain(t *testing.T) {
	tests := []struct {
		name   string
		sc     Scenario
		status int
		key    string
		want   string
	}{
		{"completed", Scenario{Message: "hi"}, 200, "output.1.content.0.text", "hi"},
		{"incomplete", Scenario{Incomplete: "content_filter"}, 200, "incomplete_details.reason", "content_filter"},
		{"failed", Scenario{Failure: &Failure{Code: "c"}}, 200, "error.code", "c"},
		{"error", Scenario{Failure: &Failure{Event: FailureError, Code: "c"}}, 500, "error.code", "c"},
		{"loop", Scenario{Loop: &Loop{Deltas: 2, Always: true, TerminalOnly: true, Triggers: []string{"a"}}}, 200, "doom_loop_check.triggers.0", "a"},
		{"frames", Scenario{Frames: []string{
			"data: {\"type\":\"response.created\",\"response\":{\"id\":\"no\"}}\n\n",
			"event: x\rdata: {\"type\":\"response.completed\",\"response\":{\"id\":\"yes\"}}\r\r",
			"data: [DONE]\n\n",
		}}, 200, "id", "yes"},
		{"status", Scenario{Status: 503}, 503, "error.code", "server_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, requests := serve(t, tt.sc)
			res := post(t.Context(), t, srv, plainBody, nil)
			got := readAll(t, res.Body)
			if res.StatusCode != tt.status || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("answer is %d, %q, want %d, JSON", res.StatusCode, res.Header.Get("Content-Type"), tt.status)
			}
			if v := gjson.Get(got, tt.key).Str; v != tt.want {
				t.Errorf("%s = %q, want %q in %s", tt.key, v, tt.want, got)
			}
			req := await(t, "request", requests)
			await(t, "Done", req.Done)
			if string(req.Reply()) != got || closed(req.Gone) {
				t.Errorf("Reply = %q, Gone = %v", req.Reply(), closed(req.Gone))
			}
		})
	}

	// The object of a plain answer is the one in the stream's last frame.
	srv, _ := serve(t, Scenario{})
	got := readAll(t, post(t.Context(), t, srv, plainBody, nil).Body)
	want := last(t, Scenario{}.Stream(0, []byte(plainBody))).Get("response").Raw
	if got != want {
		t.Errorf("plain answer = %s\nwant %s", got, want)
	}
}

func TestServeDelay(t *testing.T) {
	for _, body := range []string{streamBody, plainBody} {
		synctest.Test(t, func(t *testing.T) {
			sc := Scenario{Delay: time.Second}
			s := &Server{Script: func(int, *Request) Scenario { return sc }}
			began := time.Now()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/responses", strings.NewReader(body)))
			want := time.Duration(len(sc.Stream(0, []byte(body)))-1) * time.Second
			if got := time.Since(began); got != want {
				t.Errorf("%s took %v, want %v", body, got, want)
			}
		})
	}
}
