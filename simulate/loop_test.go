package simulate

import (
	"slices"
	"strings"
	"testing"
)

// checks gives the labels of each check frame, and after how many deltas with
// the loop's phrase it came.
func checks(t *testing.T, frames []string, phrase string) (labels []string, at []int) {
	t.Helper()
	deltas := 0
	_, data := sse(t, frames)
	for _, d := range data {
		if strings.HasSuffix(d.Get("type").Str, ".delta") && d.Get("delta").Str == phrase {
			deltas++
		}
		if d.Get("type").Str == checkName {
			labels = append(labels, triggers(d.Get("doom_loop_check.triggers")))
			at = append(at, deltas)
		}
	}
	return labels, at
}

func TestLoopChecks(t *testing.T) {
	const phrase = "again "
	tests := []struct {
		name     string
		loop     Loop
		labels   []string
		at       []int
		terminal string
		status   string
	}{
		{
			"cumulative",
			Loop{After: 2, Deltas: 20, Then: ThenFinish},
			[]string{"tail_repetition:64@thinking", "tail_repetition:64@thinking tail_repetition:32@thinking"},
			[]int{8, 16},
			"tail_repetition:64@thinking tail_repetition:32@thinking", "completed",
		},
		{
			"own labels, then silence",
			Loop{Deltas: 9, Every: 2, Triggers: []string{"a", "b"}, Then: ThenFinish},
			[]string{"a", "a b"},
			[]int{2, 4},
			"a b", "completed",
		},
		{
			"as many deltas as it takes",
			Loop{Every: 3, Triggers: []string{"a", "b"}, Then: ThenIncomplete},
			[]string{"a", "a b"},
			[]int{3, 6},
			"a b", "incomplete",
		},
		{
			"response channel",
			Loop{Channel: ChannelResponse, Deltas: 8, Then: ThenFinish},
			[]string{"tail_repetition:64@response"},
			[]int{8},
			"tail_repetition:64@response", "completed",
		},
		{
			"tool channel",
			Loop{Channel: ChannelTool, Deltas: 8, Then: ThenFinish},
			[]string{"tail_repetition:64@tool"},
			[]int{8},
			"tail_repetition:64@tool", "completed",
		},
		{
			"terminal only",
			Loop{TerminalOnly: true, Triggers: []string{"a", "b"}},
			nil, nil, "a b", "completed",
		},
		{
			"stream ends",
			Loop{Deltas: 8, Triggers: []string{"a"}, Then: ThenEOF},
			[]string{"a"},
			[]int{8},
			"", "",
		},
		{
			"silence",
			Loop{Deltas: 8, Triggers: []string{"a"}},
			[]string{"a"},
			[]int{8},
			"", "",
		},
		{
			"no labels",
			Loop{Deltas: 8, Every: 1, Triggers: []string{}, Then: ThenFinish},
			nil, nil, "", "completed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.loop.Phrase = phrase
			frames := Scenario{Loop: &tt.loop}.Stream(0, nil)
			labels, at := checks(t, frames, phrase)
			if !slices.Equal(labels, tt.labels) || !slices.Equal(at, tt.at) {
				t.Errorf("check frames %q after %d deltas, want %q after %d", labels, at, tt.labels, tt.at)
			}
			for _, raw := range tt.loop.Raw {
				if !slices.Contains(frames, raw) {
					t.Errorf("raw frame %q was not sent", raw)
				}
			}
			r := last(t, frames).Get("response")
			if got := triggers(r.Get("doom_loop_check.triggers")); got != tt.terminal {
				t.Errorf("terminal triggers = %q, want %q", got, tt.terminal)
			}
			if got := r.Get("status").Str; got != tt.status {
				t.Errorf("terminal status = %q, want %q", got, tt.status)
			}
			if has := r.Get("doom_loop_check").Exists(); has != (tt.terminal != "") {
				t.Errorf("terminal has a report: %v", has)
			}
		})
	}
}

func TestLoopFrameBytes(t *testing.T) {
	find := func(t *testing.T, l Loop) string {
		t.Helper()
		l.Deltas, l.Every, l.Triggers = 1, 1, []string{"low_logprob@thinking"}
		for _, frame := range (Scenario{Thinking: []string{}, Loop: &l}).Stream(0, nil) {
			if strings.Contains(frame, "low_logprob") || strings.Contains(frame, "garbage") {
				return frame
			}
		}
		return ""
	}
	data := `data: {"sequence_number":5,"type":"response.doom_loop_check","doom_loop_check":{"triggers":["low_logprob@thinking"]}}` + "\n\n"
	tests := []struct {
		name string
		loop Loop
		want string
	}{
		{"named", Loop{}, "event: response.doom_loop_check\n" + data},
		{"unnamed", Loop{Unnamed: true}, data},
		{"raw", Loop{Raw: []string{"event: response.doom_loop_check\ndata: garbage\n\n"}}, "event: response.doom_loop_check\ndata: garbage\n\n"},
		{"terminal only", Loop{TerminalOnly: true, Then: ThenEOF}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := find(t, tt.loop); got != tt.want {
				t.Errorf("frame = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLoopIncompleteClosesItem(t *testing.T) {
	frames := Scenario{
		Message: "never", Calls: []Call{{Name: "never"}},
		Loop: &Loop{After: 1, Deltas: 3, Then: ThenIncomplete},
	}.Stream(0, nil)
	r := last(t, frames).Get("response")
	if got := r.Get("output.#.type").Raw; got != `["reasoning"]` {
		t.Errorf("output = %s, want the reasoning only", got)
	}
	if got := r.Get("incomplete_details.reason").Str; got != "max_output_tokens" {
		t.Errorf("reason = %q, want max_output_tokens", got)
	}
	if got := strings.Count(r.Get("output.0.summary.0.text").Str, "Wait, let me check that again. "); got != 3 {
		t.Errorf("phrase comes %d times, want 3", got)
	}
}

func TestLoopHealthyStart(t *testing.T) {
	frames := Scenario{Thinking: []string{"one", "two"}, Loop: &Loop{After: 30, Deltas: 1, Phrase: "again", Then: ThenEOF}}.Stream(0, nil)
	var deltas []string
	_, data := sse(t, frames)
	for _, d := range data {
		if d.Get("delta").Exists() {
			deltas = append(deltas, d.Get("delta").Str)
		}
	}
	if len(deltas) != 31 || deltas[0] != "one" || deltas[1] != "two" || deltas[30] != "again" {
		t.Fatalf("deltas = %q, want one, two, 28 more, again", deltas)
	}
	slices.Sort(deltas)
	if got := len(slices.Compact(deltas)); got != 31 {
		t.Errorf("%d different deltas, want 31", got)
	}
}

// A finished tool loop is a call whose arguments are valid JSON, even if the
// phrase needs escapes.
func TestLoopToolArguments(t *testing.T) {
	frames := Scenario{Loop: &Loop{Channel: ChannelTool, Phrase: "say \"hi\"\n", Deltas: 2, Then: ThenFinish}}.Stream(0, nil)
	call := last(t, frames).Get("response.output.1")
	if got, want := call.Get("arguments").Str, `{"text":"say \"hi\"\nsay \"hi\"\n"}`; got != want {
		t.Errorf("arguments = %s, want %s", got, want)
	}
	if got := call.Get("name").Str; got != "write_file" {
		t.Errorf("name = %q, want write_file", got)
	}
}

// Only the first call loops.
func TestLoopToolCalls(t *testing.T) {
	frames := Scenario{
		Calls: []Call{{Name: "one"}, {Name: "two", Arguments: `{"a":1}`}},
		Loop:  &Loop{Channel: ChannelTool, Phrase: "x", Deltas: 2, Then: ThenFinish},
	}.Stream(0, nil)
	got := last(t, frames).Get("response.output.#.arguments").Raw
	if want := `["{\"text\":\"xx\"}","{\"a\":1}"]`; got != want {
		t.Errorf("arguments = %s, want %s", got, want)
	}
}

func TestLoopEndlessIsBounded(t *testing.T) {
	frames := Scenario{Loop: &Loop{Phrase: "x", Triggers: []string{}}}.Stream(0, nil)
	if got := len(frames); got < maxLoopDeltas || got > maxLoopDeltas+10 {
		t.Errorf("%d frames, want about %d", got, maxLoopDeltas)
	}
}
