package recovery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

func TestFail(t *testing.T) {
	const failure = `"error":{"code":"rate_limit","message":"too much"}`
	own := func(status, failure string) string {
		return `"response":{"id":"resp_own","object":"response","created_at":1,"status":"` + status + `",` + failure + `,"incomplete_details":null,"model":"m-own","output":[]}`
	}
	for _, tc := range []struct {
		name string
		sent []string
		want []string
	}{
		{"nothing sent", nil, []string{
			`{"type":"response.created",` + own("in_progress", `"error":null`) + `}`,
			`{"type":"response.failed",` + own("failed", failure) + `}`,
		}},
		{"created", []string{created}, []string{
			`{"type":"response.failed","sequence_number":1,"response":{"id":"resp_a","object":"response","created_at":1700000000,"status":"failed",` + failure + `,"incomplete_details":null,"model":"m-1","output":[]}}`,
		}},
		{"thinking", []string{created, itemAdded, summaryText}, []string{
			`{"type":"response.failed","sequence_number":5,"response":{"id":"resp_a","object":"response","created_at":1700000000,"status":"failed",` + failure + `,"incomplete_details":null,"model":"m-1","output":[]}}`,
		}},
		{"no created, but an id and numbers", []string{inProgress}, []string{
			`{"type":"response.created","sequence_number":2,` + strings.Replace(own("in_progress", `"error":null`), "resp_own", "resp_a", 1) + `}`,
			`{"type":"response.failed","sequence_number":3,` + strings.Replace(own("failed", failure), "resp_own", "resp_a", 1) + `}`,
		}},
		{"created that tells nothing", []string{`{"type":"response.created","response":{"id":null,"model":["m"],"created_at":{}}}`}, []string{
			`{"type":"response.failed",` + own("failed", failure) + `}`,
		}},
	} {
		v := newView(recovery.CloseTombstone)
		sendData(v, tc.sent...)
		raw, n := v.Fail("rate_limit", "too much")
		var want strings.Builder
		for _, data := range tc.want {
			want.WriteString(frame(data))
		}
		if string(raw) != want.String() || n != len(tc.want) {
			t.Errorf("%s:\ngot  %d %s\nwant %d %s", tc.name, n, raw, len(tc.want), want.String())
		}
		if !v.Created() || !v.Terminal || !v.Visible {
			t.Errorf("%s: got created %v, terminal %v, visible %v, want all", tc.name, v.Created(), v.Terminal, v.Visible)
		}
	}
}

func TestFailGoesOnBehindASplice(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	c := newClient(t, "failed")
	c.read(sendData(v, created, itemAdded, partAdded, summaryText))
	c.read(splice(v))
	c.read(sendData(v, created, strings.Replace(itemAdded, "rs_a", "rs_b", 1)))
	c.read(splice(v))
	raw, _ := v.Fail("server_error", "gave up")
	c.read(string(raw))
	if c.created != 1 || c.terminal != 1 || c.openItems() > 0 {
		t.Errorf("got %d created, %d terminal, %d open, want 1, 1, 0", c.created, c.terminal, c.openItems())
	}
}

// Codes and messages come from upstreams.
func TestFailQuotes(t *testing.T) {
	for _, s := range []string{`"`, `\`, "a\nb", "a\r\n\r\nevent: x\ndata: {}\n\n", "\x00\x1f", "ä😀\u2028\u0085", "\xff", `</script>`, `"},"x":{"`} {
		v := newView(recovery.CloseTombstone)
		raw, _ := v.Fail(s, s)
		frames := split(t, string(raw))
		if len(frames) != 2 {
			t.Fatalf("%q: got %d frames %q, want 2", s, len(frames), frames)
		}
		var e struct {
			Response struct {
				Error struct{ Code, Message string }
			}
		}
		if err := json.Unmarshal([]byte(parse(frames[1]).Data), &e); err != nil {
			t.Fatalf("%q: %v in %s", s, err, frames[1])
		}
		if got, want := e.Response.Error, strings.ToValidUTF8(s, "\ufffd"); got.Code != want || got.Message != want {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

func TestFailWithoutACode(t *testing.T) {
	v := recovery.NewView(recovery.CloseTombstone, recovery.Response{})
	raw, _ := v.Fail("", "")
	failed := decode(t, split(t, string(raw))[1])
	if got := fmt.Sprint(failed["response"].(map[string]any)["error"]); got != "map[code:server_error message:]" {
		t.Errorf("got error %v, want code server_error", got)
	}
}

func TestProgress(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	sendData(v, created, itemAdded)
	want := frame(`{"type":"response.in_progress","response":{"id":"resp_a","object":"response","created_at":1700000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"m-1","output":[]}}`)
	for range 2 {
		if got := string(v.Progress()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if v.Visible {
		t.Error("got visible, want not")
	}
	if got := decode(t, split(t, splice(v))[0])["sequence_number"]; got != json.Number("3") {
		t.Errorf("got sequence number %v behind it, want 3", got)
	}
}
