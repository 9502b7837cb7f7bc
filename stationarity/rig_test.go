package stationarity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

// conversation builds an input, item by item.
type conversation struct {
	items []string
	calls int
}

func (c *conversation) add(items ...string) *conversation {
	c.items = append(c.items, items...)
	return c
}

func (c *conversation) String() string { return "[" + strings.Join(c.items, ",") + "]" }

// step adds a whole step: reasoning, the calls, then their results.
func (c *conversation) step(calls ...invocation) *conversation {
	c.add(reasoning)
	outputs := make([]string, len(calls))
	for i, call := range calls {
		c.calls++
		id := fmt.Sprintf("call_%06d", c.calls)
		c.add(functionCall(id, call.name, call.args))
		outputs[i] = functionOutput(id, call.result)
	}
	return c.add(outputs...)
}

// repeat adds the same step n times.
func (c *conversation) repeat(n int, calls ...invocation) *conversation {
	for range n {
		c.step(calls...)
	}
	return c
}

// invocation is a call with its result.
type invocation struct{ name, args, result string }

func call(name, args, result string) invocation { return invocation{name, args, result} }

const (
	reasoning = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`
	assistant = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I check again."}]}`
)

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func functionCall(id, name, args string) string {
	return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":%q,"name":%s,"arguments":%s,"status":"completed"}`,
		id, id, quote(name), quote(args))
}

func functionOutput(id, output string) string {
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%s}`, id, quote(output))
}

func userMessage(text string) string {
	return fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%s}]}`, quote(text))
}

// begun is a conversation that the user has begun.
func begun() *conversation { return new(conversation).add(userMessage("Fix the build.")) }

// Calls that repeat: one of the tight tier, one of the loose, one that does nothing.
var (
	read = call("read_file", `{"path":"main.go"}`, "package main")
	poll = call("bash", `{"command":"curl -s http://localhost/health"}`, "starting")
	noop = call("bash", `{"command":"true"}`, "")
)

// all has every tier acted on from the second time on, to see what counts.
var all = stationarity.Config{
	Tight: stationarity.Thresholds{Nudge: 2, Stop: -1},
	Loose: stationarity.Thresholds{Nudge: 2, Stop: -1},
	NoOp:  stationarity.Thresholds{Nudge: 2, Stop: -1},
}

// count returns how often an input repeats its last steps, 1 if it does not.
func count(c *conversation) int {
	return max(stationarity.Check(c.String(), all).Count, 1)
}

func wantCount(t *testing.T, c *conversation, want int) {
	t.Helper()
	if got := count(c); got != want {
		t.Errorf("got %d times, want %d, in\n%s", got, want, c)
	}
}
