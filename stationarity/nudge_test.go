package stationarity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
)

// body is a request with an input, and what clients send around it.
func body(input string) string {
	return `{"model":"m", "input" : ` + input + ` ,"tools":[{"type":"function","name":"input"}],"stream":true}`
}

// nudged checks a body and applies what is found, as a proxy does.
func nudged(t *testing.T, body string, cfg stationarity.Config) string {
	t.Helper()
	got := stationarity.Nudge(body, stationarity.Check(gjson.Get(body, "input").Raw, cfg))
	if !json.Valid([]byte(got)) {
		t.Fatalf("no JSON: %s", got)
	}
	return got
}

// lastText returns the text of the last item of a body's input.
func lastText(t *testing.T, body string) string {
	t.Helper()
	items := gjson.Get(body, "input").Array()
	last := items[len(items)-1]
	if last.Get("type").Str != "message" || last.Get("role").Str != "user" || last.Get("content.0.type").Str != "input_text" {
		t.Fatalf("the last item is no message of the user's: %s", last.Raw)
	}
	return last.Get("content.0.text").Str
}

func TestBelowTheThresholds(t *testing.T) {
	for _, c := range []*conversation{begun(), begun().repeat(3, read), begun().repeat(7, poll), begun().repeat(3, noop)} {
		b := body(c.String())
		if got := nudged(t, b, stationarity.Config{}); got != b {
			t.Errorf("got %s\nwant %s", got, b)
		}
	}
	for _, input := range []string{`"hello"`, `null`, `7`, `{}`} {
		b := body(input)
		if got := nudged(t, b, stationarity.Config{}); got != b {
			t.Errorf("got %s\nwant %s", got, b)
		}
	}
}

// From request to request the nudge is the same, is the last item, and all else is
// as it was; the client's history never holds it.
func TestNudgeIsTheSameEachTime(t *testing.T) {
	for _, tc := range []struct {
		step  []invocation
		from  int
		names string
	}{
		{[]invocation{read}, 4, "read_file"},
		{[]invocation{poll}, 8, "bash"},
		{[]invocation{noop}, 4, "bash"},
		{[]invocation{poll, read}, 8, "bash, read_file"},
	} {
		c, first := begun(), ""
		for n := 1; n <= 40; n++ {
			b := body(c.step(tc.step...).String())
			got := nudged(t, b, stationarity.Config{})
			if n < tc.from {
				if got != b {
					t.Fatalf("%d times: got %s", n, got)
				}
				continue
			}
			said := lastText(t, got)
			if first == "" {
				first = said
			}
			if said != first {
				t.Fatalf("%d times: got %q, want %q", n, said, first)
			}
			cut := strings.LastIndex(b, "] ,") // behind the last item
			if !strings.HasPrefix(got, b[:cut]) || !strings.HasSuffix(got, b[cut:]) {
				t.Fatalf("%d times: more was changed: %s", n, got)
			}
		}
		for _, part := range []string{
			tc.names, " " + string(rune('0'+tc.from)) + " times", "do not poll", "background task",
			"sleep once", "check once", "tell the user what you are waiting for", "will be stopped",
		} {
			if !strings.Contains(first, part) {
				t.Errorf("%q is not in %q", part, first)
			}
		}
	}
}

// A cycle's nudge does not depend on where in the cycle it comes.
func TestNudgeOfACycle(t *testing.T) {
	c, first := begun(), ""
	for n := range 30 {
		got := nudged(t, body(c.step([]invocation{read, poll, call("zap", "{}", "")}[n%3]).String()), stationarity.Config{})
		if n < 23 {
			continue
		}
		if said := lastText(t, got); first == "" {
			first = said
		} else if said != first {
			t.Errorf("got %q, want %q", said, first)
		}
	}
	if !strings.Contains(first, "cycle of 3 steps (bash, read_file, zap) 8 times") {
		t.Errorf("got %q", first)
	}
}

// A nudge that does come back neither hides the run nor becomes a part of it.
func TestNudgeComesBack(t *testing.T) {
	b := nudged(t, body(begun().repeat(5, read).String()), stationarity.Config{})
	got := stationarity.Check(gjson.Get(b, "input").Raw, stationarity.Config{})
	if got.Action != stationarity.ActionNudge || got.Count != 5 {
		t.Errorf("got %+v", got)
	}
}

func TestNudgeBodies(t *testing.T) {
	f := stationarity.Finding{Action: stationarity.ActionNudge, Tier: stationarity.Tight, Count: 4, Threshold: 4, Cycle: 1, Calls: 1, Tools: []string{"read"}}
	for _, tc := range []struct{ before, after string }{
		{`{"input":[{}`, `]}`},
		{`{"input":[`, `]}`},
		{"{\"input\":[\n", "]}"},
		{`{"input":[[],"]"`, `],"x":[]}`},
		{`{"input":[1],"input":[2`, `]}`},
		{`{"a":{"input":[1]},"input":[2`, `],"b":{"input":[]}}`},
	} {
		got := stationarity.Nudge(tc.before+tc.after, f)
		if !strings.HasPrefix(got, tc.before) || !strings.HasSuffix(got, tc.after) || !json.Valid([]byte(got)) {
			t.Errorf("%s%s: got %s", tc.before, tc.after, got)
		}
		if n := strings.Count(got, "Automatic notice"); n != 1 {
			t.Errorf("%s%s: got %d nudges", tc.before, tc.after, n)
		}
	}
	for _, b := range []string{``, `{}`, `{"input":"a"}`, `{"input":null}`, `[]`, `{"input":{}}`} {
		if got := stationarity.Nudge(b, f); got != b {
			t.Errorf("%s: got %s", b, got)
		}
	}
	for _, action := range []stationarity.Action{stationarity.ActionNone, stationarity.ActionStop} {
		f.Action = action
		if got, want := stationarity.Nudge(`{"input":[1]}`, f), `{"input":[1]}`; got != want {
			t.Errorf("%v: got %s", action, got)
		}
	}
}
