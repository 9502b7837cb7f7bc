package stationarity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

func TestSignatures(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b invocation
		same bool
	}{
		{"equal", call("f", `{"a":1}`, ""), call("f", `{"a":1}`, ""), true},
		{"name", call("f", `{"a":1}`, ""), call("g", `{"a":1}`, ""), false},
		{"case of the name", call("f", `{}`, ""), call("F", `{}`, ""), false},
		{"value", call("f", `{"a":1}`, ""), call("f", `{"a":2}`, ""), false},
		{"kind of value", call("f", `{"a":1}`, ""), call("f", `{"a":"1"}`, ""), false},
		{"key", call("f", `{"a":1}`, ""), call("f", `{"b":1}`, ""), false},
		{"one key more", call("f", `{"a":1}`, ""), call("f", `{"a":1,"b":null}`, ""), false},
		{"key order", call("f", `{"a":1,"b":2}`, ""), call("f", `{"b":2,"a":1}`, ""), true},
		{"key order at depth", call("f", `{"x":[{"a":{"c":1,"d":[]},"b":2}]}`, ""), call("f", `{"x":[{"b":2,"a":{"d":[],"c":1}}]}`, ""), true},
		{"values of two keys changed", call("f", `{"a":1,"b":2}`, ""), call("f", `{"a":2,"b":1}`, ""), false},
		{"array order", call("f", `{"a":[1,2]}`, ""), call("f", `{"a":[2,1]}`, ""), false},
		{"nesting", call("f", `[[1],2]`, ""), call("f", `[[1,2]]`, ""), false},
		{"array or object", call("f", `{"a":[]}`, ""), call("f", `{"a":{}}`, ""), false},
		{"member moved", call("f", `{"a":{"b":1},"c":{}}`, ""), call("f", `{"a":{},"c":{"b":1}}`, ""), false},
		{"white space in JSON", call("f", `{"a":[1,2]}`, ""), call("f", " {\n\t\"a\" : [ 1 , 2 ] } ", ""), true},
		{"white space in a value", call("f", `{"a":"b c"}`, ""), call("f", `{"a":"b  c"}`, ""), false},
		{"escapes", call("f", `{"a":"\u00e9\/"}`, ""), call("f", `{"a":"é/"}`, ""), true},
		{"escaped key", call("f", `{"\u0061":"b"}`, ""), call("f", `{"a":"b"}`, ""), true},
		{"text", call("f", "go test", ""), call("f", " go test\n", ""), true},
		{"other text", call("f", "go test", ""), call("f", "go  test", ""), false},
		{"broken JSON", call("f", `{"a":1,"b":2`, ""), call("f", `{"b":2,"a":1`, ""), false},
		{"broken JSON, equal", call("f", `{"a":1,"b":`, ""), call("f", ` {"a":1,"b":`, ""), true},
		{"text behind JSON", call("f", `{"a":1} x`, ""), call("f", `{"a":1} y`, ""), false},
		{"no arguments", call("f", ``, ""), call("f", " ", ""), true},
		{"nested too deep", call("f", deep(`{"a":1,"b":2}`), ""), call("f", deep(`{"b":2,"a":1}`), ""), false},
		{"nested too deep, equal", call("f", deep(`{"a":1}`), ""), call("f", deep(`{"a":1}`), ""), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := 1
			if tc.same {
				want = 2
			}
			wantCount(t, begun().step(tc.a).step(tc.b), want)
		})
	}
}

func deep(s string) string { return strings.Repeat("[", 5000) + s + strings.Repeat("]", 5000) }

func TestKindsOfCalls(t *testing.T) {
	for name, form := range map[string][2]string{
		"custom":       {`{"type":"custom_tool_call","call_id":"%[1]d","name":"apply_patch","input":"*** %[2]s"}`, `{"type":"custom_tool_call_output","call_id":"%d","output":"%s"}`},
		"local shell":  {`{"type":"local_shell_call","id":"lsh_%[1]d","call_id":"%[1]d","action":{"type":"exec","command":["ls","%[2]s"],"env":{}},"status":"completed"}`, `{"type":"local_shell_call_output","id":"%d","output":"%s"}`},
		"by item id":   {`{"type":"local_shell_call","id":"%[1]d","call_id":"c%[1]d","action":{"command":["ls","%[2]s"]}}`, `{"type":"local_shell_call_output","id":"%d","output":"%s"}`},
		"codex shell":  {`{"type":"local_shell_call","call_id":"%[1]d","action":{"command":["ls","%[2]s"]}}`, `{"type":"function_call_output","call_id":"%d","output":"%s"}`},
		"shell":        {`{"type":"shell_call","call_id":"%[1]d","action":{"commands":["ls %[2]s"]}}`, `{"type":"shell_call_output","call_id":"%d","output":[{"stdout":"%s"}]}`},
		"namespace":    {`{"type":"function_call","call_id":"%[1]d","name":"f","namespace":"%[2]s","arguments":""}`, `{"type":"function_call_output","call_id":"%d","output":"%s"}`},
		"object":       {`{"type":"function_call","call_id":"%[1]d","name":"f","arguments":{"a":"%[2]s","b":1}}`, `{"type":"function_call_output","call_id":"%d","output":{"a":"%s"}}`},
		"parts":        {`{"type":"function_call","call_id":"%[1]d","name":"f","arguments":"%[2]s"}`, `{"type":"function_call_output","call_id":"%d","output":[{"type":"input_text","text":"%s"}]}`},
		"new":          {`{"type":"teleport_call","call_id":"%[1]d","to":"%[2]s","status":"%[1]d"}`, `{"type":"teleport_call_output","call_id":"%d","output":"%s"}`},
		"keys in turn": {`{"arguments":"%[2]s","name":"f","call_id":"%[1]d","type":"function_call"}`, ` { "output" : "%[2]s" , "call_id" : "%[1]d" , "type" : "function_call_output" } `},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			step := func(c *conversation, what, result string) {
				n++
				c.add(fmt.Sprintf(form[0], n, what), fmt.Sprintf(form[1], n, result))
			}
			c := begun()
			for range 4 {
				step(c, "x", "y")
			}
			wantCount(t, c, 4)
			step(c, "x", "z")
			wantCount(t, c, 1)
			step(c, "x", "z")
			wantCount(t, c, 2)
			step(c, "w", "z")
			wantCount(t, c, 1)
		})
	}
}

// Of a call of an unknown kind all counts, but what is new each time.
func TestUnknownCalls(t *testing.T) {
	output := `{"type":"teleport_call_output","call_id":"%d","output":"x"}`
	for second, want := range map[string]int{
		`{"type":"teleport_call","call_id":"2","id":"b","status":"b","to":{"b":1,"a":2},"name":"f"}`:  2,
		`{"type":"teleport_call","call_id":"2","id":"b","status":"b","to":{"b":1,"a":2},"name":"g"}`:  1,
		`{"type":"teleport_call","call_id":"2","id":"b","status":"b","at":{"b":1,"a":2},"name":"f"}`:  1,
		`{"type":"teleport_call","call_id":"2","id":"b","status":"b","to":{"b":1},"name":"f"}`:        1,
		`{"type":"transport_call","call_id":"2","id":"b","status":"b","to":{"b":1,"a":2},"name":"f"}`: 1,
	} {
		c := begun().add(`{"type":"teleport_call","call_id":"1","id":"a","status":"a","name":"f","to":{"a":2,"b":1}}`, fmt.Sprintf(output, 1))
		wantCount(t, c.add(second, fmt.Sprintf(output, 2)), want)
	}
}

func TestNoOps(t *testing.T) {
	item := func(kind, rest string) string { return `{"type":"` + kind + `","call_id":"%d",` + rest + `}` }
	function := func(name, args string) string {
		return item("function_call", `"name":"`+name+`","arguments":`+strings.ReplaceAll(quote(args), "%", "%%"))
	}
	for _, tc := range []struct {
		call string
		want stationarity.Tier
	}{
		{function("bash", `{"command":"true"}`), stationarity.NoOp},
		{function("Bash", `{"command":" TRUE\n"}`), stationarity.NoOp},
		{function("bash", `{"timeout":5,"command":"True","description":"wait"}`), stationarity.NoOp},
		{function("exec_command", `{"cmd":"true"}`), stationarity.NoOp},
		{function("shell", `{"command":["true"]}`), stationarity.NoOp},
		{function("shell", `{"command":["bash","-lc"," true "]}`), stationarity.NoOp},
		{function("bash", `true`), stationarity.NoOp},
		{item("custom_tool_call", `"name":"bash","input":" true "`), stationarity.NoOp},
		{item("local_shell_call", `"action":{"type":"exec","command":["true"]}`), stationarity.NoOp},
		{item("shell_call", `"action":{"commands":["true"]}`), stationarity.NoOp},
		{function("bash", `{"command":"true && make"}`), stationarity.Loose},
		{function("bash", `{"command":"true;"}`), stationarity.Loose},
		{function("bash", `{"command":true}`), stationarity.Loose},
		{function("shell", `{"command":["echo","true"]}`), stationarity.Loose},
		{function("shell", `{"command":["grep","-q","true"]}`), stationarity.Loose},
		{function("shell", `{"command":["true","x"]}`), stationarity.Loose},
		{function("shell", `{"command":["echo","-c"]}`), stationarity.Loose},
		{function("shell", `{"command":[]}`), stationarity.Loose},
		{function("set_flag", `{"command":"true"}`), stationarity.Loose},
		{function("bash", ``), stationarity.Loose},
	} {
		c := begun()
		for i := range 8 {
			c.add(fmt.Sprintf(tc.call, i), functionOutput(fmt.Sprint(i), ""))
		}
		if got := stationarity.Check(c.String(), stationarity.Config{}); got.Tier != tc.want || got.Count != 8 {
			t.Errorf("%s: got %+v, want tier %v", tc.call, got, tc.want)
		}
	}
	// Its other arguments may change.
	c := begun()
	for i := range 4 {
		c.step(call("bash", fmt.Sprintf(`{"command":"true","description":"wait %d"}`, i), ""))
	}
	if got := stationarity.Check(c.String(), stationarity.Config{}); got.Action != stationarity.ActionNudge || got.Tier != stationarity.NoOp {
		t.Errorf("with other arguments: got %+v", got)
	}
}
