package stationarity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

func TestTiers(t *testing.T) {
	write := call("write_file", `{"path":"a","text":"b"}`, "ok")
	plan := call("TodoWrite", `{"todos":[]}`, "saved")
	for _, tc := range []struct {
		name        string
		step        []invocation
		tier        stationarity.Tier
		nudge, stop int // 0: never
	}{
		{"all tight", []invocation{read, plan}, stationarity.Tight, 4, 8},
		{"one tight", []invocation{read}, stationarity.Tight, 4, 8},
		{"none tight", []invocation{poll, write}, stationarity.Loose, 8, 12},
		{"mixed", []invocation{read, write}, stationarity.Loose, 8, 12},
		{"no-op", []invocation{noop}, stationarity.NoOp, 0, 4},
		{"two no-ops", []invocation{noop, noop}, stationarity.Loose, 8, 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for n := range 16 {
				want := stationarity.ActionNone
				if tc.nudge > 0 && n >= tc.nudge {
					want = stationarity.ActionNudge
				}
				if tc.stop > 0 && n >= tc.stop {
					want = stationarity.ActionStop
				}
				input := begun().repeat(n, tc.step...).String()
				got := stationarity.Check(input, stationarity.Config{OnStop: stationarity.OnStopEnd})
				if got.Action != want {
					t.Fatalf("%d times: got action %v, want %v", n, got.Action, want)
				}
				if want != stationarity.ActionNone && (got.Tier != tc.tier || got.Count != n || got.Cycle != 1 || got.Calls != len(tc.step)) {
					t.Errorf("%d times: got %+v", n, got)
				}
			}
		})
	}
}

func TestOnStopNudge(t *testing.T) {
	for _, tc := range []struct {
		step  invocation
		n     int
		want  stationarity.Action
		since int
	}{
		{read, 3, stationarity.ActionNone, 0},
		{read, 8, stationarity.ActionNudge, 4},
		{read, 90, stationarity.ActionNudge, 4},
		{poll, 12, stationarity.ActionNudge, 8},
		{noop, 3, stationarity.ActionNone, 0},
		{noop, 4, stationarity.ActionNudge, 4},
	} {
		got := stationarity.Check(begun().repeat(tc.n, tc.step).String(), stationarity.Config{})
		if got.Action != tc.want || got.Threshold != tc.since {
			t.Errorf("%s %d times: got %+v, want %v since %d", tc.step.name, tc.n, got, tc.want, tc.since)
		}
	}
}

// A stop threshold below that of the nudge is the one that counts.
func TestOnStopNudgeBeforeTheNudge(t *testing.T) {
	cfg := stationarity.Config{Tight: stationarity.Thresholds{Nudge: 9, Stop: 3}}
	for n, want := range map[int]int{2: 0, 3: 3, 10: 3} {
		if got := stationarity.Check(begun().repeat(n, read).String(), cfg); got.Threshold != want {
			t.Errorf("%d times: got %+v, want threshold %d", n, got, want)
		}
	}
}

func TestThresholds(t *testing.T) {
	cfg := stationarity.Config{
		Tight:      stationarity.Thresholds{Nudge: -1, Stop: 3},
		Loose:      stationarity.Thresholds{Nudge: 2},
		NoOp:       stationarity.Thresholds{Stop: -1},
		TightTools: []string{"Peek"},
		OnStop:     stationarity.OnStopEnd,
	}
	for _, tc := range []struct {
		step invocation
		n    int
		want stationarity.Action
	}{
		{call("peek", "{}", ""), 2, stationarity.ActionNone},
		{call("peek", "{}", ""), 3, stationarity.ActionStop},
		{read, 1, stationarity.ActionNone},
		{read, 2, stationarity.ActionNudge},
		{read, 11, stationarity.ActionNudge},
		{read, 12, stationarity.ActionStop},
		{noop, 40, stationarity.ActionNone},
	} {
		if got := stationarity.Check(begun().repeat(tc.n, tc.step).String(), cfg); got.Action != tc.want {
			t.Errorf("%s %d times: got %v, want %v", tc.step.name, tc.n, got.Action, tc.want)
		}
	}
}

func TestTightTools(t *testing.T) {
	for name, want := range map[string]stationarity.Tier{
		"read": stationarity.Tight, "Read": stationarity.Tight, "READ_FILE": stationarity.Tight, "view": stationarity.Tight,
		"cat": stationarity.Tight, "todo_write": stationarity.Tight, "todowrite": stationarity.Tight,
		"update_plan": stationarity.Tight, "update_todo_list": stationarity.Tight,
		"reader": stationarity.Loose, "bash": stationarity.Loose, "": stationarity.Loose,
	} {
		got := stationarity.Check(begun().repeat(8, call(name, "{}", "")).String(), stationarity.Config{})
		if got.Tier != want {
			t.Errorf("%q: got %v, want %v", name, got.Tier, want)
		}
	}
}

func TestCycles(t *testing.T) {
	for length := 1; length <= 6; length++ {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			for n := 2; n <= 5; n++ {
				c := begun().step(call("edit", `{"n":0}`, "ok"))
				for range n {
					for i := range length {
						c.step(call("read", fmt.Sprintf(`{"path":"%d"}`, i), "text"))
					}
				}
				got := stationarity.Check(c.String(), stationarity.Config{})
				want := stationarity.ActionNone
				if n >= 4 && length <= 5 {
					want = stationarity.ActionNudge
				}
				if got.Action != want {
					t.Fatalf("%d times: got %v, want %v", n, got.Action, want)
				}
				if want == stationarity.ActionNudge && (got.Count != n || got.Cycle != length) {
					t.Errorf("got %+v, want %d times a cycle of %d", got, n, length)
				}
			}
		})
	}
}

// A cycle that stands in its middle counts as often as it is complete.
func TestCycleUnderWay(t *testing.T) {
	a, b := call("read", `{"path":"a"}`, "A"), call("read", `{"path":"b"}`, "B")
	c := begun()
	for i, want := range []int{1, 1, 1, 2, 2, 3, 3, 4} {
		wantCount(t, c.step([]invocation{a, b}[i%2]), want)
	}
}

func TestCycleOfTiers(t *testing.T) {
	c := begun()
	for range 7 {
		c.step(read).step(poll)
	}
	if got := stationarity.Check(c.String(), stationarity.Config{}); got.Action != stationarity.ActionNone {
		t.Errorf("7 times a mixed cycle: got %+v", got)
	}
	c = begun()
	for range 7 {
		c.step(read).step(noop)
	}
	if got := stationarity.Check(c.String(), stationarity.Config{}); got.Action != stationarity.ActionNone {
		t.Errorf("7 times a cycle with a no-op: got %+v", got)
	}
	c = begun()
	for range 7 {
		c.step(read).step(poll)
	}
	got := stationarity.Check(c.step(read).step(poll).String(), stationarity.Config{})
	if got.Action != stationarity.ActionNudge || got.Tier != stationarity.Loose || got.Cycle != 2 {
		t.Errorf("8 times a mixed cycle: got %+v", got)
	}
}

func TestToolNames(t *testing.T) {
	hostile := strings.Repeat("x", 100)
	step := []invocation{call("b", "{}", ""), call("a", "{}", ""), call("b", "[]", ""), call("<\n\">"+hostile, "{}", ""), call("\u00e9", "{}", "")}
	got := stationarity.Check(begun().repeat(8, step...).String(), stationarity.Config{})
	if want := []string{"a", "b", hostile[:64]}; !slices.Equal(got.Tools, want) {
		t.Errorf("got %q, want %q", got.Tools, want)
	}
	step = nil
	for i := range 20 {
		step = append(step, call(fmt.Sprintf("t%02d", i), "{}", ""))
	}
	got = stationarity.Check(begun().repeat(8, step...).String(), stationarity.Config{})
	if len(got.Tools) != 8 || got.Tools[7] != "t07" || got.Calls != 20 {
		t.Errorf("got %q of %d calls", got.Tools, got.Calls)
	}
}

func TestNothingToCheck(t *testing.T) {
	for _, input := range []string{
		"", "null", `"read main.go"`, "{}", "[]", " [ ] ", "[", "]", "[1,2]", `[{}]`, `[{"type":"function_call"}`,
		`["a",{"type":"function_call","name":"a"}]`, `[,]`, `}]`, `"]`, `{"type":"x"}]`, `[{"a":1}{"a":1}]`,
	} {
		if got := stationarity.Check(input, all); got.Action != stationarity.ActionNone {
			t.Errorf("%q: got %+v", input, got)
		}
	}
}

func TestNames(t *testing.T) {
	got := fmt.Sprint(stationarity.ActionNone, stationarity.ActionNudge, stationarity.ActionStop,
		stationarity.Tight, stationarity.Loose, stationarity.NoOp)
	if want := "none nudge stop tight loose no_op"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
