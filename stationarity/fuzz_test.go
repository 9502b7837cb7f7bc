package stationarity_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
)

// FuzzCheck holds that nothing panics, that a finding is the same each time, and
// that what is amended is the body and one item more.
func FuzzCheck(f *testing.F) {
	f.Add(begun().repeat(4, read).String())
	f.Add(begun().repeat(3, noop).add(functionCall("9", "bash", `{"command":["true"]}`)).String())
	f.Add(begun().step(read, poll).step(poll, read).add(userMessage("<skill>x</skill>")).String())
	f.Add(`[{"type":"local_shell_call","id":"1","action":{}},{"type":"local_shell_call_output","id":"1"},7]`)
	f.Fuzz(func(t *testing.T, input string) {
		for _, cfg := range []stationarity.Config{{}, all, {Results: stationarity.ResultsIgnore, OnStop: stationarity.OnStopEnd}} {
			got := stationarity.Check(input, cfg)
			if again := stationarity.Check(input, cfg); !reflect.DeepEqual(got, again) {
				t.Fatalf("got %+v and %+v", got, again)
			}
			if got.Action != stationarity.ActionNone && (got.Count < 2 || got.Cycle < 1 || got.Cycle > 5 || got.Tier == 0 || got.Count < got.Threshold) {
				t.Fatalf("got %+v", got)
			}
			if !json.Valid([]byte(input)) {
				stationarity.Nudge(input, got)
				continue
			}
			before, after := `{"model":"m","input":`+input, `,"x":[1]}`
			body := stationarity.Nudge(before+after, got)
			if got.Action != stationarity.ActionNudge {
				if body != before+after {
					t.Fatalf("%+v: got %s", got, body)
				}
				continue
			}
			cut := strings.LastIndexByte(before, ']')
			if !strings.HasPrefix(body, before[:cut]) || !strings.HasSuffix(body, before[cut:]+after) || !json.Valid([]byte(body)) {
				t.Fatalf("%+v: got %s", got, body)
			}
			if n, m := gjson.Get(body, "input.#").Int(), gjson.Get(before+after, "input.#").Int(); n != m+1 {
				t.Fatalf("got %d items of %d", n, m)
			}
			if again := stationarity.Check(gjson.Get(body, "input").Raw, cfg); !reflect.DeepEqual(got, again) {
				t.Fatalf("with its nudge: got %+v, want %+v", again, got)
			}
		}
	})
}

// FuzzResult holds that a result equals itself, whatever white space is around it, and
// is no other one when a word is added.
func FuzzResult(f *testing.F) {
	for _, s := range []string{"ok", "took 5s at 03:04:05", `{"a":"\n12:00:00"}`, "Chunk ID: f800eb", "1h2m3.5s µs", "0x0123456789 \\u \\", "2026-01-02T03:04"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pair := func(a, b string) int {
			return count(begun().step(call("f", "", a)).step(call("f", "", b)))
		}
		if pair(s, s) != 2 {
			t.Fatalf("%q: not equal to itself", s)
		}
		if pair(" "+s+"\n", s) != 2 && !strings.HasSuffix(s, "\\") {
			t.Fatalf("%q: not equal with white space around it", s)
		}
		if pair(s, s+" more") != 1 {
			t.Fatalf("%q: equal with a word more", s)
		}
	})
}

// Nothing takes longer than a multiple of its length. What is quadratic would
// take minutes.
func TestHugeInputs(t *testing.T) {
	for name, input := range inputs(256 << 10) {
		start := time.Now()
		stationarity.Check(input, stationarity.Config{})
		stationarity.Check(input, stationarity.Config{Results: stationarity.ResultsIgnore, Injected: []string{"x"}})
		stationarity.Nudge(body(input), stationarity.Finding{Action: stationarity.ActionNudge})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// A long repetition is counted to 100, or to a threshold that is higher.
func TestCountedTo(t *testing.T) {
	input := begun().repeat(250, read).String()
	if got := stationarity.Check(input, stationarity.Config{}).Count; got != 100 {
		t.Errorf("got %d, want 100", got)
	}
	for _, n := range []int{250, 251} {
		cfg := stationarity.Config{OnStop: stationarity.OnStopEnd}
		cfg.Tight.Stop = n
		got := stationarity.Check(input, cfg)
		if want := min(n, 250); got.Count != want || (got.Action == stationarity.ActionStop) != (n <= 250) {
			t.Errorf("%d: got %+v", n, got)
		}
	}
}

// Bounds on what is looked at: past them a run ends, and nothing is done.
func TestBounds(t *testing.T) {
	t.Run("calls of a step", func(t *testing.T) {
		step := func(n int) []invocation {
			calls := make([]invocation, n)
			for i := range calls {
				calls[i] = call("f", fmt.Sprint(i), "")
			}
			return calls
		}
		wantCount(t, begun().repeat(2, step(256)...), 2)
		wantCount(t, begun().repeat(2, step(257)...), 1)
		wantCount(t, begun().step(step(257)...).repeat(2, read), 2)
	})
	t.Run("results that differ in noise", func(t *testing.T) {
		c := begun()
		for i := range 100 {
			c.step(call("f", "", fmt.Sprintf("took %ds %s", i, strings.Repeat("The build goes on.\n", 5_000))))
		}
		if n := count(c); n < 12 || n > 30 {
			t.Errorf("got %d times", n)
		}
	})
	t.Run("arguments", func(t *testing.T) {
		long := strings.Repeat("x", 256<<10)
		wantCount(t, begun().step(call("f", `{"a":"`+long+`"}`, "")).step(call("f", `{"a":"`+long+`"}`, "")), 2)
		wantCount(t, begun().step(call("f", `{"a":"`+long+`"}`, "")).step(call("f", `{ "a":"`+long+`"}`, "")), 1)
	})
}
