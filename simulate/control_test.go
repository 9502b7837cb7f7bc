package simulate

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// call makes a request and returns the status and body of the answer.
func call(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("X-Test", "shown")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got)
}

// shown asks a Control what it was sent.
func shown(t *testing.T, base string) []Received {
	t.Helper()
	status, body := call(t, http.MethodGet, base+"/simulate/requests", "")
	if status != http.StatusOK {
		t.Fatalf("status = %d, want 200: %s", status, body)
	}
	if strings.Contains(body, "secret") {
		t.Errorf("a secret is shown: %s", body)
	}
	var list []Received
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestControl(t *testing.T) {
	first := func(int, *Request) Scenario { return Scenario{Message: "before any script"} }
	ts := httptest.NewServer(&Control{Server: &Server{Script: first, Strict: true}})
	t.Cleanup(ts.Close)
	if list := shown(t, ts.URL); len(list) != 0 {
		t.Errorf("before the first request: %d requests are shown, want none", len(list))
	}
	ask := func(body, want string) {
		t.Helper()
		if _, got := call(t, http.MethodPost, ts.URL+"/v1/responses?q=1", body); !strings.Contains(got, want) {
			t.Errorf("answer to %s = %s, want %q in it", body, got, want)
		}
	}
	play := func(script string, want int) {
		t.Helper()
		if got, body := call(t, http.MethodPut, ts.URL+"/simulate/script", script); got != want {
			t.Fatalf("status of the script %s = %d, want %d: %s", script, got, want, body)
		}
	}

	ask(`{"n":1}`, "before any script")
	play(`[{"message":"A"},{"message":"B"},{"message":"C"}]`, http.StatusNoContent)
	if list := shown(t, ts.URL); len(list) != 0 {
		t.Errorf("after a new script: %d requests are shown, want none", len(list))
	}
	ask(`{"n":2}`, `"A"`)
	call(t, http.MethodGet, ts.URL+"/v1/models", "")
	list := shown(t, ts.URL)
	if len(list) != 2 {
		t.Fatalf("%d requests are shown, want 2: %+v", len(list), list)
	}
	if got := list[0]; got.Ordinal != 0 || got.Method != http.MethodPost || got.Path != "/v1/responses" || got.Query != "q=1" ||
		got.Body != `{"n":2}` || !strings.Contains(got.Reply, `"A"`) || got.Gone || !got.Done {
		t.Errorf("first request = %+v", got)
	}
	header := list[0].Header
	if got := header.Get("X-Test"); got != "shown" {
		t.Errorf("X-Test = %q, want it shown", got)
	}
	if got, ok := header["Authorization"]; !ok || len(got) != 0 {
		t.Errorf("Authorization = %q, %v; want its name alone", got, ok)
	}
	if list[1].Ordinal != -1 {
		t.Errorf("ordinal of GET /models = %d, want -1", list[1].Ordinal)
	}

	call(t, http.MethodDelete, ts.URL+"/simulate/requests", "")
	if list := shown(t, ts.URL); len(list) != 0 {
		t.Errorf("after DELETE: %d requests are shown, want none", len(list))
	}
	ask(`{"n":3}`, `"B"`)
	if list := shown(t, ts.URL); len(list) != 1 || list[0].Ordinal != 1 {
		t.Errorf("after DELETE and one request: %+v, want that one, ordinal 1", list)
	}
	play(`[{"mesage":"D"}]`, http.StatusBadRequest)
	ask(`{"n":4}`, `"C"`) // goes on
	play(`[{"message":"D"}]`, http.StatusNoContent)
	ask(`{"n":5}`, `"D"`)
	ask(`no JSON`, "invalid_request_error") // still strict
}

func TestControlZero(t *testing.T) {
	ts := httptest.NewServer(new(Control))
	t.Cleanup(ts.Close)
	if status, body := call(t, http.MethodPost, ts.URL+"/responses", `{}`); status != http.StatusOK {
		t.Errorf("status = %d, want 200: %s", status, body)
	}
	if list := shown(t, ts.URL); len(list) != 1 {
		t.Errorf("%d requests are shown, want 1", len(list))
	}
}
