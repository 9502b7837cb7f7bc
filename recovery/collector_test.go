package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

// check returns a check frame with the given triggers, as JSON.
func check(triggers string) string {
	return frame(`{"sequence_number":7,"type":"response.doom_loop_check","doom_loop_check":{"triggers":` + triggers + `}}`)
}

func labels(signals []recovery.Signal) []string {
	var all []string
	for _, s := range signals {
		all = append(all, s.Label)
	}
	return all
}

func TestCollectorReports(t *testing.T) {
	terminal := func(member string) string {
		return frame(`{"type":"response.completed","response":{"id":"resp_1","output":[]` + member + `}}`)
	}
	for _, tc := range []struct {
		name, raw string
		labels    []string
		malformed int
	}{
		{"one", check(`["tail_repetition:8@thinking"]`), []string{"tail_repetition:8@thinking"}, 0},
		{"several", check(`["b@x", "a@x", ""]`), []string{"b@x", "a@x", ""}, 0},
		{"twice in one set", check(`["a@x","a@x"]`), []string{"a@x"}, 0},
		{"escapes", check(`["tail\u005frepetition:8@thinking"]`), []string{"tail_repetition:8@thinking"}, 0},
		{"empty", check(`[]`), nil, 1},
		{"empty with a space", check(`[ ]`), nil, 1},
		{"null", check(`null`), nil, 1},
		{"text", check(`"tail_repetition:8@thinking"`), nil, 1},
		{"object", check(`{"0":"tail_repetition:8@thinking"}`), nil, 1},
		{"number", check(`8`), nil, 1},
		{"other than text among them", check(`[1,"a@x",null,["b@x"],{"c":"c@x"}]`), []string{"a@x"}, 1},
		{"nothing but other than text", check(`[null]`), nil, 1},
		{"no triggers", frame(`{"type":"response.doom_loop_check","doom_loop_check":{}}`), nil, 1},
		{"no object", frame(`{"type":"response.doom_loop_check","doom_loop_check":["a@x"]}`), nil, 1},
		{"triggers elsewhere", frame(`{"type":"response.doom_loop_check","triggers":["a@x"]}`), nil, 1},
		{"named, garbage", "event: " + checkName + "\ndata: {\"doom_loop_check\":{\"triggers\":[\"a@x\"\n\n", nil, 1},
		{"named, trailing garbage", "event: " + checkName + "\ndata: {\"doom_loop_check\":{\"triggers\":[\"a@x\"]}}}\n\n", nil, 1},
		{"named, no data", "event: " + checkName + "\n\n", nil, 1},
		{"named, no type", "event: " + checkName + "\ndata: {\"doom_loop_check\":{\"triggers\":[\"a@x\"]}}\n\n", []string{"a@x"}, 0},
		{"unnamed, garbage", "data: " + checkData[:len(checkData)-1] + "\n\n", nil, 0},
		{"in lines", "data: {\"type\":\"" + checkName + "\",\"doom_loop_check\":{\"triggers\":[\r\ndata: \"a@x\"]}}\r\n\r\n", []string{"a@x"}, 0},
		{"quoted in a delta", frame(`{"type":"response.output_text.delta","doom_loop_check":{"triggers":["a@x"]},"delta":""}`), nil, 0},
		{"terminal", terminal(`,"doom_loop_check":{"triggers":["a@x"]}`), []string{"a@x"}, 0},
		{"terminal without", terminal(``), nil, 0},
		{"terminal without triggers", terminal(`,"doom_loop_check":{}`), nil, 0},
		{"terminal null", terminal(`,"doom_loop_check":{"triggers":null}`), nil, 0},
		{"terminal null object", terminal(`,"doom_loop_check":null`), nil, 0},
		{"terminal empty", terminal(`,"doom_loop_check":{"triggers":[]}`), nil, 0},
		{"terminal empty with a space", terminal(`,"doom_loop_check":{"triggers":[ ]}`), nil, 0},
		{"terminal text", terminal(`,"doom_loop_check":{"triggers":"a@x"}`), nil, 1},
		{"terminal other than text", terminal(`,"doom_loop_check":{"triggers":[5]}`), nil, 1},
		{"terminal, not in the response", frame(`{"type":"response.completed","response":{},"doom_loop_check":{"triggers":["a@x"]}}`), nil, 0},
		{"incomplete", frame(`{"type":"response.incomplete","response":{"doom_loop_check":{"triggers":["a@x"]}}}`), []string{"a@x"}, 0},
		{"created", frame(`{"type":"response.created","response":{"doom_loop_check":{"triggers":["a@x"]}}}`), nil, 0},
		{"comment", ": " + checkData + "\n\n", nil, 0},
	} {
		var c recovery.Collector
		fresh := c.Absorb(parse(tc.raw))
		if got := labels(fresh); !slices.Equal(got, tc.labels) {
			t.Errorf("%s: got fresh %q, want %q", tc.name, got, tc.labels)
		}
		if got := labels(c.Signals()); !slices.Equal(got, tc.labels) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.labels)
		}
		if got := c.Malformed(); got != tc.malformed {
			t.Errorf("%s: got %d malformed, want %d", tc.name, got, tc.malformed)
		}
	}
}

// Each report repeats the ones before.
func TestCollectorCountsALabelOnce(t *testing.T) {
	var c recovery.Collector
	for _, step := range []struct {
		triggers string
		fresh    []string
	}{
		{`["a@x"]`, []string{"a@x"}},
		{`["a@x"]`, nil},
		{`["a@x","b@x"]`, []string{"b@x"}},
		{`["c@x","b@x","a@x"]`, []string{"c@x"}},
		{`["A@x"]`, []string{"A@x"}},
	} {
		if got := labels(c.Absorb(parse(check(step.triggers)))); !slices.Equal(got, step.fresh) {
			t.Errorf("%s: got fresh %q, want %q", step.triggers, got, step.fresh)
		}
	}
	if got, want := labels(c.Signals()), []string{"a@x", "b@x", "c@x", "A@x"}; !slices.Equal(got, want) {
		t.Errorf("got %q in all, want %q", got, want)
	}
}

func TestCollectorBounds(t *testing.T) {
	long := strings.Repeat("x", 256)
	var set []string
	for i := range 63 {
		set = append(set, fmt.Sprintf("%q", fmt.Sprint("low_logprob@", i)))
	}
	var c recovery.Collector
	c.Absorb(parse(check(`["` + long + `","` + long + `y",` + strings.Join(set, ",") + `]`)))
	if got, dropped := len(c.Signals()), c.Dropped(); got != 64 || dropped != 1 {
		t.Errorf("got %d signals, %d dropped, want 64, 1 for its length", got, dropped)
	}
	if got := c.Signals()[0].Label; got != long {
		t.Errorf("got %q, want the label of 256 bytes", got)
	}
	if got := c.Absorb(parse(check(`["late@x","late@y","low_logprob@3"]`))); len(got) != 0 || c.Dropped() != 3 {
		t.Errorf("got %v, %d dropped, want the two new labels dropped", got, c.Dropped())
	}
	if got := c.Malformed(); got != 2 {
		t.Errorf("got %d malformed, want both reports", got)
	}
}

// Signals of this side stand beside those of the upstream, also under the same
// label, and leave it the room that the contract gives it.
func TestCollectorAdd(t *testing.T) {
	const label = "tail_repetition:8@thinking"
	var c recovery.Collector
	warn := recovery.ParseLabel(label)
	warn.WarnOnly = true
	for range 2 {
		c.Add(recovery.ParseLabel(label))
		c.Add(warn)
		c.Absorb(parse(check(`["` + label + `"]`)))
	}
	for i := range 100 {
		c.Add(recovery.ParseLabel(fmt.Sprintf("exact_repetition:64x%d@tool", i)))
	}
	c.Absorb(parse(check(`["low_logprob@thinking"]`)))
	counts := map[recovery.Source]int{}
	confident := 0
	for _, s := range c.Signals() {
		counts[s.Source]++
		if (recovery.Policy{}).Confident(s) {
			confident++
		}
	}
	if counts[recovery.SourceLocal] != 64 || counts[recovery.SourceUpstream] != 2 || confident != 2 {
		t.Errorf("got %v signals, %d confident, want 64 local ones, 2 of the upstream, 2 confident", counts, confident)
	}
	if c.Malformed() != 0 || c.Dropped() != 0 {
		t.Errorf("got %d malformed, %d dropped, want none: the upstream sent nothing wrong", c.Malformed(), c.Dropped())
	}
}

// What is kept must not change with the parser's and the scanner's buffers.
func TestCollectorKeepsItsOwn(t *testing.T) {
	var c recovery.Collector
	ev := parse(check(`["tail_repetition:8@thinking"]`))
	c.Absorb(ev)
	clear(ev.Frame.Raw)
	if got := c.Signals()[0]; got != recovery.ParseLabel("tail_repetition:8@thinking") {
		t.Errorf("got %+v behind the end of the frame", got)
	}
}
