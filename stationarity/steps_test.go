package stationarity_test

import (
	"fmt"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

func TestParallelCalls(t *testing.T) {
	a, b := call("f", `{"n":1}`, "one"), call("g", `{"n":2}`, "two")
	wantCount(t, begun().step(a, b).step(b, a), 2)
	wantCount(t, begun().step(a, b).step(a), 1)
	wantCount(t, begun().step(a, b).step(a, a, b), 1)
	wantCount(t, begun().step(a, a).step(a, a), 2)

	// Which of two equal calls had which result does not matter, only that
	// there is the same.
	other := call("f", `{"n":1}`, "other")
	wantCount(t, begun().step(a, other).step(other, a), 2)
	wantCount(t, begun().step(a, other).step(other, other), 1)

	// The results are those of their calls, in whatever order they stand.
	first := []string{functionCall("1", "f", "{}"), functionCall("2", "g", "{}"), functionOutput("1", "one"), functionOutput("2", "two")}
	second := []string{functionCall("3", "f", "{}"), functionCall("4", "g", "{}"), functionOutput("4", "two"), functionOutput("3", "one")}
	wantCount(t, begun().add(first...).add(second...), 2)
	crossed := []string{functionCall("3", "f", "{}"), functionCall("4", "g", "{}"), functionOutput("4", "one"), functionOutput("3", "two")}
	wantCount(t, begun().add(first...).add(crossed...), 1)
}

// What the model says between calls, and what the upstream calls, is no input of
// the model's.
func TestOneStep(t *testing.T) {
	for _, between := range []string{assistant, reasoning, `{"type":"item_reference","id":"msg_1"}`} {
		c := begun()
		for i := range 3 {
			a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
			c.add(functionCall(a, "f", "{}"), between, functionCall(b, "g", "{}"), functionOutput(a, "x"), functionOutput(b, "x"))
		}
		if got := stationarity.Check(c.String(), all); got.Count != 3 || got.Calls != 2 {
			t.Errorf("%s: got %+v", between, got)
		}
	}
}

// Some clients make an item of each call and result in turn: then each call is a
// step, and both together a cycle.
func TestCallsInTurn(t *testing.T) {
	c := begun()
	for i := range 6 {
		id := fmt.Sprint(i)
		c.add(functionCall(id, []string{"f", "g"}[i%2], "{}"), functionOutput(id, "x"))
	}
	wantCount(t, c, 3)
}

func TestWhatStandsBetweenSteps(t *testing.T) {
	step := func(id string, between ...string) []string {
		return append(append([]string{functionCall(id, "f", "{}")}, between...), functionOutput(id, "x"))
	}
	developer := `{"type":"message","role":"developer","content":"Be brief."}`
	for _, tc := range []struct {
		name    string
		between []string // the steps
		within  []string // the calls and their results
		want    int
	}{
		{"nothing", nil, nil, 3},
		{"reasoning", []string{reasoning}, nil, 3},
		{"message", []string{assistant, reasoning}, nil, 3},
		{"message behind the call", nil, []string{assistant}, 3},
		{"reference", []string{`{"type":"item_reference","id":"rs_1"}`}, nil, 3},
		{"developer message", []string{developer}, nil, 3},
		{"developer message before the result", nil, []string{developer}, 3},
		{"system message without a type", []string{`{"role":"system","content":"x"}`}, nil, 3},
		{"something new", []string{`{"type":"weather","call_id":"1","name":"f"}`, `{"role":"narrator"}`, `7`, `"x"`, `[]`}, []string{`{"a":[1]}`}, 3},
		{"reminder", []string{userMessage("<system-reminder>Go on.</system-reminder>")}, nil, 3},
		{"turn of the model's without calls", []string{assistant, developer}, nil, 3},
		{"user", []string{userMessage("And now?")}, nil, 1},
		{"user without a type", []string{`{"role":"user","content":"And now?"}`}, nil, 1},
		{"what was compacted", []string{`{"type":"compaction","encrypted_content":"x"}`}, nil, 1},
		{"a call that is not shown", []string{`{"type":"item_reference","id":"fc_9"}`, functionOutput("9", "x")}, nil, 1},
		{"a result without its call", nil, []string{functionOutput("9", "x")}, 1},
		{"another call, which makes it a cycle", []string{functionCall("8", "g", "{}"), functionOutput("8", "")}, nil, 2},
		{"a call of the upstream's", []string{`{"type":"web_search_call","id":"ws_1","action":{"query":"x"}}`}, nil, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := begun()
			for i := range 3 {
				if i > 0 {
					c.add(tc.between...)
				}
				c.add(step(fmt.Sprint(i), tc.within...)...)
			}
			wantCount(t, c, tc.want)
		})
	}
}

// What the upstream calls by itself is a part of the step. Above, the first step
// has none.
func TestUpstreamCalls(t *testing.T) {
	c := begun()
	search := `{"type":"web_search_call","id":"ws_%d","status":"completed","action":{"query":"%s"}}`
	for i := range 3 {
		id := fmt.Sprint(i)
		c.add(fmt.Sprintf(search, i, "x"), functionCall(id, "f", "{}"), functionOutput(id, "x"))
	}
	wantCount(t, c, 3)
	c.add(fmt.Sprintf(search, 9, "y"), functionCall("9", "f", "{}"), functionOutput("9", "x"))
	wantCount(t, c, 1)
}

func TestCallIDs(t *testing.T) {
	t.Run("the same each time", func(t *testing.T) {
		c := begun()
		for _, result := range []string{"a", "a", "b", "b"} {
			c.add(functionCall("call_0", "f", "{}"), functionOutput("call_0", result))
		}
		wantCount(t, c, 2)
	})
	t.Run("none", func(t *testing.T) {
		c := begun()
		for _, result := range []string{"a", "b", "b"} {
			c.add(`{"type":"function_call","name":"f","arguments":"{}"}`,
				fmt.Sprintf(`{"type":"function_call_output","output":%q}`, result))
		}
		wantCount(t, c, 2)
	})
	t.Run("a call that is there twice", func(t *testing.T) {
		c := begun()
		for i := range 3 {
			id := fmt.Sprint(i)
			c.add(functionCall(id, "f", "{}"), functionCall(id, "f", "{}"), functionOutput(id, "x"), functionOutput(id, "x"))
		}
		if got := stationarity.Check(c.String(), all); got.Count != 3 || got.Calls != 1 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("two calls with one id", func(t *testing.T) {
		c := begun()
		for i := range 3 {
			c.add(functionCall("call_0", "f", fmt.Sprint(i)), functionCall("call_0", "f", "9"), functionOutput("call_0", "x"))
		}
		wantCount(t, c, 1)
	})
	t.Run("two members with one key", func(t *testing.T) {
		c := begun()
		for i := range 3 {
			id := fmt.Sprint(i)
			c.add(fmt.Sprintf(`{"type":"function_call","call_id":"x","name":"%[1]d","call_id":"%[1]d","name":"f","arguments":"%[1]d","arguments":""}`, i), functionOutput(id, "x"))
		}
		wantCount(t, c, 3)
	})
	t.Run("the last of two results", func(t *testing.T) {
		c := begun()
		for i := range 3 {
			id := fmt.Sprint(i)
			c.add(functionCall(id, "f", "{}"), functionOutput(id, id+" is running"), functionOutput(id, "done"))
		}
		wantCount(t, c, 3)
	})
}

func TestUnansweredCalls(t *testing.T) {
	wantCount(t, begun().repeat(3, read).add(functionCall("9", read.name, read.args)), 1)
	for _, between := range []string{
		userMessage("<system-reminder>x</system-reminder>"), `{"role":"developer","content":"x"}`, `{"role":"system","content":"x"}`,
	} {
		c := begun()
		for i := range 3 {
			c.add(functionCall(fmt.Sprint(i), "f", "{}"), between)
		}
		wantCount(t, c, 3)
	}
	// Without anything between them they are one step.
	wantCount(t, begun().add(functionCall("1", "f", "{}"), functionCall("2", "f", "{}")), 1)
}

func TestResets(t *testing.T) {
	wantCount(t, begun().repeat(5, read).step(poll), 1)
	wantCount(t, begun().repeat(5, read).step(poll).repeat(3, read), 3)
	wantCount(t, begun().repeat(5, read).add(userMessage("Go on.")), 1)
	wantCount(t, begun().repeat(5, read).add(assistant, userMessage("Go on.")).repeat(2, read), 2)
	wantCount(t, new(conversation).repeat(3, read), 3)
	// A message of the model's at the end changes nothing.
	wantCount(t, begun().repeat(5, read).add(assistant), 5)
}
