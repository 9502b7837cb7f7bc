package simulate

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

func TestServeStatus(t *testing.T) {
	tests := []struct {
		name   string
		sc     Scenario
		body   string
		header http.Header
	}{
		{
			"own body",
			Scenario{Status: 418, Body: `{"a":1}`, Header: map[string]string{"Content-Type": "text/x", "retry-after": "3"}},
			`{"a":1}`,
			http.Header{"Content-Type": {"text/x"}, "Retry-After": {"3"}},
		},
		{
			"400",
			Scenario{Status: 400},
			`{"error":{"message":"The simulated upstream answers 400.","type":"invalid_request_error","param":null,"code":null}}`, nil,
		},
		{
			"429",
			Scenario{Status: 429},
			`{"error":{"message":"The simulated upstream answers 429.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, nil,
		},
		{
			"502",
			Scenario{Status: 502},
			`{"error":{"message":"The simulated upstream answers 502.","type":"server_error","param":null,"code":"server_error"}}`, nil,
		},
		{"204", Scenario{Status: 204}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, _ := serve(t, tt.sc)
			res := post(t.Context(), t, srv, streamBody, nil)
			if got := readAll(t, res.Body); got != tt.body || res.StatusCode != tt.sc.Status {
				t.Errorf("answer is %d %s, want %d %s", res.StatusCode, got, tt.sc.Status, tt.body)
			}
			for name, want := range tt.header {
				if got := res.Header[name]; !slices.Equal(got, want) {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestServeRoutes(t *testing.T) {
	tests := []struct {
		method, path string
		status       int
		key, want    string
		ordinal      int
	}{
		{"POST", "/responses", 200, "object", "response", 0},
		{"POST", "/backend-api/codex/responses", 200, "object", "response", 0},
		{"GET", "/v1/models", 200, "data.0.id", defaultModel, -1},
		{"GET", "/v1/responses", 404, "error.code", "unknown_url", -1},
		{"POST", "/v1/responses/resp_1/cancel", 404, "error.code", "unknown_url", -1},
		{"POST", "/v1/models", 404, "error.type", "invalid_request_error", -1},
		{"GET", "/", 404, "error.code", "unknown_url", -1},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			s := new(Server)
			srv := start(t, s)
			res, err := send(t.Context(), srv, tt.method, tt.path+"?a=b", plainBody, http.Header{"X-One": {"1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			got := readAll(t, res.Body)
			if res.StatusCode != tt.status || gjson.Get(got, tt.key).Str != tt.want {
				t.Errorf("answer is %d %s, want %d, %s = %q", res.StatusCode, got, tt.status, tt.key, tt.want)
			}
			if res.Header.Get("X-Request-Id") == "" {
				t.Error("answer has no x-request-id")
			}
			req := s.Requests()[0]
			if req.Ordinal != tt.ordinal || req.Method != tt.method || req.Path != tt.path || req.RawQuery != "a=b" ||
				string(req.Body) != plainBody || req.Header.Get("X-One") != "1" || req.RemoteAddr == "" {
				t.Errorf("recorded %+v", req)
			}
		})
	}
}

func TestServeWantsStream(t *testing.T) {
	tests := []struct {
		name, body string
		header     http.Header
		want       bool
	}{
		{"true", `{"stream":true}`, nil, true},
		{"false", `{"stream":false}`, http.Header{"Accept": {"text/event-stream"}}, false},
		{"absent", `{}`, nil, false},
		{"a string", `{"stream":"true"}`, nil, false},
		{"broken", `{"stream":true`, nil, false},
		{"compressed", "\x28\xb5\x2f\xfd", http.Header{"Content-Encoding": {"zstd"}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := start(t, new(Server))
			res := post(t.Context(), t, srv, tt.body, tt.header)
			if got := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"); got != tt.want {
				t.Errorf("answer is a stream: %v, want %v", got, tt.want)
			}
			readAll(t, res.Body)
		})
	}
}

func TestServeStrict(t *testing.T) {
	own := func(id, blob string) string {
		return `{"stream":true,"input":[{"role":"user","content":"x"},{"type":"reasoning","id":"` + id + `","encrypted_content":"` + blob + `"}]}`
	}
	tests := []struct {
		name, body string
		header     http.Header
		code       string // "" where the request is accepted
	}{
		{"tombstone", own("rs_1", "doomproxy-tombstone-v1:AAAA"), nil, "invalid_encrypted_content"},
		{"blob of another item", own("rs_1", encrypted("rs_2")), nil, "invalid_encrypted_content"},
		{"own blob", own("rs_1", encrypted("rs_1")), nil, ""},
		{"own blob, id stripped", own("", encrypted("rs_1")), nil, ""},
		{"foreign blob", own("rs_1", "xyz"), nil, ""},
		{"string input", streamBody, nil, ""},
		{"quoted in a message", `{"stream":true,"input":[{"type":"message","encrypted_content":"doomproxy-tombstone-"}]}`, nil, ""},
		{"not JSON", `{"stream":true`, nil, "-"},
		{"no object", `[]`, nil, "-"},
		{"compressed", "\x28", http.Header{"Content-Encoding": {"zstd"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, strict := range []bool{true, false} {
				srv := start(t, &Server{Strict: strict})
				res := post(t.Context(), t, srv, tt.body, tt.header)
				body := readAll(t, res.Body)
				refused := strict && tt.code != ""
				if got := res.StatusCode == http.StatusBadRequest; got != refused {
					t.Errorf("strict %v: status %d, want refused: %v", strict, res.StatusCode, refused)
				}
				if got := gjson.Get(body, "error.code").Str; refused && tt.code != "-" && got != tt.code {
					t.Errorf("code = %q, want %q", got, tt.code)
				}
			}
		})
	}
}

func TestServeOrdinals(t *testing.T) {
	const n = 40
	got := make(chan int, n)
	s := &Server{Script: func(ordinal int, req *Request) Scenario {
		if ordinal != req.Ordinal {
			t.Errorf("script got ordinal %d for request %d", ordinal, req.Ordinal)
		}
		got <- ordinal
		return Scenario{}
	}}
	srv := start(t, s)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			path := "/responses"
			if i%2 == 0 {
				path = "/nowhere"
			}
			res, err := send(t.Context(), srv, http.MethodPost, path, streamBody, nil)
			if err != nil {
				t.Errorf("send: %v", err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
	wg.Wait()
	close(got)
	var ordinals, recorded []int
	for o := range got {
		ordinals = append(ordinals, o)
	}
	slices.Sort(ordinals)
	for _, req := range s.Requests() {
		if req.Ordinal >= 0 {
			recorded = append(recorded, req.Ordinal)
		}
	}
	if len(ordinals) != n/2 || ordinals[n/2-1] != n/2-1 || !slices.Equal(recorded, ordinals) {
		t.Errorf("script saw %v, recorded are %v, want 0 to %d in order", ordinals, recorded, n/2-1)
	}
}

func TestServeTooLarge(t *testing.T) {
	w := httptest.NewRecorder()
	s := &Server{MaxBody: 10}
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/responses", strings.NewReader(`{"a": 7890}`)))
	if got := w.Body.String(); w.Code != http.StatusRequestEntityTooLarge || !gjson.Get(got, "error.message").Exists() {
		t.Errorf("answer is %d %s, want 413 and an error", w.Code, got)
	}
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/responses", strings.NewReader(`{"a": 789}`)))
	if w.Code != http.StatusOK {
		t.Errorf("answer to a body of just 10 bytes is %d, want 200", w.Code)
	}
}

func TestServeInvalidScenario(t *testing.T) {
	s := &Server{Script: func(int, *Request) Scenario { return Scenario{End: "eventually"} }}
	defer func() {
		err, ok := recover().(error)
		if !ok || !strings.Contains(err.Error(), "eventually") {
			t.Errorf("handler panics with %v, want the error of Validate", err)
		}
	}()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/responses", bytes.NewReader(nil))
	s.ServeHTTP(httptest.NewRecorder(), r)
}
