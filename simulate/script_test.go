package simulate

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestLoadScript(t *testing.T) {
	script, err := LoadScript(strings.NewReader(` [
		{"loop": {"after": 3, "phrase": "la ", "triggers": ["a"], "then": "finish"}, "delay": "5ms"},
		{"status": 429, "header": {"Retry-After": "1"}},
		{"calls": [{"name": "ls", "arguments": "{}"}], "end": "abort", "line_end": "\r\n"}
	] `))
	if err != nil {
		t.Fatal(err)
	}
	last := Scenario{Calls: []Call{{"ls", "{}"}}, End: EndAbort, LineEnd: "\r\n"}
	for ordinal, want := range []Scenario{
		{Loop: &Loop{After: 3, Phrase: "la ", Triggers: []string{"a"}, Then: ThenFinish}, Delay: 5 * time.Millisecond},
		{Status: 429, Header: map[string]string{"Retry-After": "1"}},
		last, last, last,
	} {
		if got := script(ordinal, nil); !reflect.DeepEqual(got, want) {
			t.Errorf("scenario %d = %+v, want %+v", ordinal, got, want)
		}
	}
}

func TestLoadScriptWhen(t *testing.T) {
	script, err := LoadScript(strings.NewReader(`[
		{"when": "a title", "message": "Title"},
		{"when": "\"shell\"", "message": "one"},
		{"when": "\"shell\"", "message": "two"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct{ body, want string }{
		{`{"tools":["shell"]}`, "one"},
		{`Make a title.`, "Title"},
		{`A warm-up.`, ""},
		{`Make a title.`, "Title"},
		{`{"tools":["shell"]}`, "two"},
		{`{"tools":["shell"]}`, "two"},
		{`{"tools":["shell"]} and a title`, "two"}, // the last that fits
	} {
		// Ordinals do not count.
		if got := script(0, &Request{Body: []byte(step.body)}).Message; got != step.want {
			t.Errorf("request %d (%s): message = %q, want %q", i, step.body, got, step.want)
		}
	}
}

func TestLoadScriptWithAndWithoutWhen(t *testing.T) {
	script, err := LoadScript(strings.NewReader(`[{"when": "a", "message": "A"}, {"message": "first"}, {"message": "rest"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct{ body, want string }{
		{"b", "first"}, {"b", "rest"}, {"a", "A"}, {"b", "rest"}, {"a", "rest"},
	} {
		if got := script(7, &Request{Body: []byte(step.body)}).Message; got != step.want {
			t.Errorf("request %d (%s): message = %q, want %q", i, step.body, got, step.want)
		}
	}
}

func TestLoadScriptErrors(t *testing.T) {
	tests := []struct {
		name, script string
		want         []string // all in the message
	}{
		{"unknown key", `[{}, {"mesage": "x"}]`, []string{"entry 1", `"mesage"`}},
		{"unknown key inside", `[{"loop": {"dletas": 3}}]`, []string{"entry 0", `"dletas"`}},
		{"when of a wrong type", `[{"when": 5}]`, []string{"entry 0", "when"}},
		{"wrong type", `[{"message": 5}]`, []string{"entry 0", "message"}},
		{"delay without unit", `[{"delay": "5"}]`, []string{"entry 0", "unit"}},
		{"delay as a number", `[{"delay": 5}]`, []string{"entry 0", "delay"}},
		{"no such end", `[{"end": "later"}]`, []string{"entry 0", "end", `"later"`, `"eof", "hang"`}},
		{"negative", `[{"loop": {"every": -1}}]`, []string{"entry 0", "loop.every", "-1"}},
		{"no list", `{}`, []string{"list"}},
		{"empty list", `[]`, []string{"empty"}},
		{"nothing", ``, []string{"list"}},
		{"more after the list", `[{}] {}`, []string{"list"}},
		{"too large", "[{}" + strings.Repeat(" ", maxScript), []string{"larger"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadScript(strings.NewReader(tt.script))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %s in it", err, want)
				}
			}
		})
	}

	broken := errors.New("broken")
	if _, err := LoadScript(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestScenarioJSON(t *testing.T) {
	// Every field, so that none is forgotten.
	want := Scenario{
		Status: 200, Header: map[string]string{"a": "b"}, Body: "b", Model: "m", ResponseID: "r", Seed: 1,
		Reasoning: ReasoningRaw, ReasoningItems: 2, Thinking: []string{"t"}, NoEncrypted: true, ReasoningStatus: true, Message: "m",
		NoMessage: true, Calls: []Call{{"n", "a"}}, Incomplete: "i",
		Failure: &Failure{Code: "c", Message: "m", Event: FailureError, After: 3},
		Loop: &Loop{
			Channel: ChannelTool, After: 1, Phrase: "p", Deltas: 2, Every: 3, Triggers: []string{"t"},
			Raw: []string{"r"}, Unnamed: true, TerminalOnly: true, Always: true, Then: ThenEOF,
		},
		EmptyOutput: true, NoAdded: true, NoSequence: true, NoEventNames: true, DoneMarker: true, LineEnd: "\r",
		Frames: []string{"f"}, Limit: 9, End: EndHang, Delay: 1500 * time.Millisecond,
	}
	for _, v := range []any{want, *want.Loop, *want.Failure} {
		for f, value := range reflect.ValueOf(v).Fields() {
			if value.IsZero() && f.Tag.Get("json") != "-" {
				t.Errorf("%T.%s is not tested", v, f.Name)
			}
		}
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"delay":"1.5s"`) {
		t.Errorf("delay is not text: %s", data)
	}
	var got Scenario
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after a round trip: %+v, want %+v", got, want)
	}
	// Empty is not nil: no text at all, not the default text.
	empty := Scenario{Thinking: []string{}, Frames: []string{}, Loop: &Loop{Triggers: []string{}, Raw: []string{}}}
	data, err = json.Marshal(empty)
	if want := `{"thinking":[],"loop":{"triggers":[],"raw":[]},"frames":[]}`; err != nil || string(data) != want {
		t.Errorf("empty lists = %s, %v, want %s", data, err, want)
	}
	if data, err := json.Marshal(Scenario{}); err != nil || string(data) != "{}" {
		t.Errorf("zero scenario = %s, %v, want {}", data, err)
	}
}
