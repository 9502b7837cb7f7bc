package simulate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

var update = flag.Bool("update", false, "write the golden files")

func goldenScenarios() map[string]Scenario {
	return map[string]Scenario{
		"healthy": {},
		"raw":     {Reasoning: ReasoningRaw, ReasoningItems: 2, NoEncrypted: true, DoneMarker: true},
		"parts": {
			Thinking: []string{"one, ", "still one", "", "two"},
			Message:  "Ça va, tout est prêt <ici> & là.", Calls: []Call{{"ls", `{"path":"src"}`}, {Name: "pwd"}},
		},
		"loop_finish":     {Loop: &Loop{After: 1, Deltas: 9, Every: 4, Then: ThenFinish}},
		"loop_incomplete": {Loop: &Loop{Channel: ChannelTool, Deltas: 2, Every: 1, Then: ThenIncomplete}},
		"failed":          {Failure: &Failure{Code: "rate_limit_exceeded", After: 4}, NoSequence: true},
		"bare": {
			NoAdded: true, NoEventNames: true, EmptyOutput: true, Reasoning: ReasoningNone,
			Incomplete: "content_filter", LineEnd: "\r\n",
		},
	}
}

func TestStreamGolden(t *testing.T) {
	for name, sc := range goldenScenarios() {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(sc.Stream(0, []byte(streamBody)), "")
			file := filepath.Join("testdata", name+".sse")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("stream differs from %s (-update rewrites it)\n got: %s\nwant: %s", file, got, want)
			}
		})
	}
}

// TestStreamProtocol checks what holds for any stream of the API, whatever is
// in it.
func TestStreamProtocol(t *testing.T) {
	scenarios := goldenScenarios()
	delete(scenarios, "bare")   // leaves out what is checked here
	delete(scenarios, "failed") // has no sequence, and stops in the middle
	scenarios["loop_response"] = Scenario{Loop: &Loop{Channel: ChannelResponse, Deltas: 9, Then: ThenFinish}}
	scenarios["no_part"] = Scenario{Thinking: []string{}, Message: strings.Repeat("word ", 50)}

	id := regexp.MustCompile(`^(resp|rs|msg|fc)_[0-9a-f]{48}$`)
	for name, sc := range scenarios {
		t.Run(name, func(t *testing.T) {
			names, data := sse(t, sc.Stream(7, []byte(streamBody)))
			if sc.DoneMarker {
				if got := data[len(data)-1].Raw; got != "[DONE]" {
					t.Errorf("last data = %s, want [DONE]", got)
				}
				names, data = names[:len(names)-1], data[:len(data)-1]
			}
			items := map[int64]string{} // id by output_index
			open, openPart := int64(-1), ""
			var text strings.Builder
			var output []string
			for i, d := range data {
				typ := d.Get("type").Str
				if names[i] != typ {
					t.Errorf("frame %d: event %q, want its type %q", i, names[i], typ)
				}
				if got := d.Get("sequence_number"); !got.Exists() || got.Int() != int64(i) {
					t.Errorf("frame %d: sequence_number = %s, want %d", i, got.Raw, i)
				}
				if r := d.Get("response"); r.Exists() && !id.MatchString(r.Get("id").Str) {
					t.Errorf("frame %d: response id = %q", i, r.Get("id").Str)
				}
				if v := d.Get("item_id"); v.Exists() {
					if open < 0 || v.Str != items[open] || d.Get("output_index").Int() != open {
						t.Errorf("frame %d: %s is not in the open item %d", i, typ, open)
					}
				}
				switch {
				case typ == "response.output_item.added":
					index := d.Get("output_index").Int()
					if open >= 0 || index != int64(len(items)) {
						t.Errorf("frame %d: item %d added while %d is open and %d were", i, index, open, len(items))
					}
					open, items[index] = index, d.Get("item.id").Str
					text.Reset()
					if !id.MatchString(items[index]) {
						t.Errorf("frame %d: item id = %q", i, items[index])
					}
				case typ == "response.output_item.done":
					if d.Get("output_index").Int() != open || d.Get("item.id").Str != items[open] || openPart != "" {
						t.Errorf("frame %d: done for item %s, part %q, open is %d", i, d.Get("item.id"), openPart, open)
					}
					output = append(output, d.Get("item").Raw)
					open = -1
				case strings.HasSuffix(typ, "_part.added"):
					openPart = d.Get("part.type").Str
					text.Reset()
				case strings.HasSuffix(typ, "_part.done"):
					if got := d.Get("part.text").Str; got != text.String() || openPart != d.Get("part.type").Str {
						t.Errorf("frame %d: part text = %q, want %q", i, got, text.String())
					}
					openPart = ""
				case strings.HasSuffix(typ, "arguments.done"):
					if got := d.Get("arguments").Str; got != text.String() {
						t.Errorf("frame %d: arguments = %q, want %q", i, got, text.String())
					}
				case strings.HasSuffix(typ, ".delta"):
					if !strings.Contains(typ, "arguments") && openPart == "" {
						t.Errorf("frame %d: %s outside a part", i, typ)
					}
					text.WriteString(d.Get("delta").Str)
				case strings.HasSuffix(typ, "text.done"):
					if got := d.Get("text").Str; got != text.String() {
						t.Errorf("frame %d: text = %q, want %q", i, got, text.String())
					}
				}
			}
			want := "response.completed"
			if sc.Loop != nil && sc.Loop.Then == ThenIncomplete {
				want = "response.incomplete"
			}
			if got := names[len(names)-1]; got != want {
				t.Errorf("last event = %s, want %s", got, want)
			}
			final := data[len(data)-1].Get("response")
			if got, want := final.Get("output").Raw, "["+strings.Join(output, ",")+"]"; got != want {
				t.Errorf("terminal output = %s, want the finished items %s", got, want)
			}
			checkUsage(t, final.Get("usage"))
		})
	}
}

func checkUsage(t *testing.T, u gjson.Result) {
	t.Helper()
	input, output := u.Get("input_tokens").Int(), u.Get("output_tokens").Int()
	if got := u.Get("total_tokens").Int(); input == 0 || output == 0 || got != input+output {
		t.Errorf("usage = %s, want total = input + output, neither 0", u.Raw)
	}
	if got := u.Get("input_tokens_details.cached_tokens").Int(); got == 0 || got > input {
		t.Errorf("cached_tokens = %d, want 1..%d", got, input)
	}
	if got := u.Get("output_tokens_details.reasoning_tokens"); !got.Exists() || got.Int() > output {
		t.Errorf("reasoning_tokens = %s, want at most %d", got.Raw, output)
	}
}

func TestStreamOptions(t *testing.T) {
	tests := []struct {
		name string
		sc   Scenario
		want func(t *testing.T, frames []string)
	}{
		{"no message", Scenario{NoMessage: true}, func(t *testing.T, frames []string) {
			if got := last(t, frames).Get("response.output.#").Int(); got != 1 {
				t.Errorf("items = %d, want the reasoning only", got)
			}
		}},
		{"calls need no message", Scenario{Calls: []Call{{Name: "ls"}}}, func(t *testing.T, frames []string) {
			if got := last(t, frames).Get("response.output.#.type").Raw; got != `["reasoning","function_call"]` {
				t.Errorf("item types = %s", got)
			}
		}},
		{"three reasoning items", Scenario{ReasoningItems: 3}, func(t *testing.T, frames []string) {
			if got := last(t, frames).Get("response.output.#.type").Raw; got != `["reasoning","reasoning","reasoning","message"]` {
				t.Errorf("item types = %s", got)
			}
		}},
		{"reasoning with a status", Scenario{ReasoningStatus: true}, func(t *testing.T, frames []string) {
			var got []string
			_, data := sse(t, frames)
			for _, d := range data {
				if item := d.Get("item"); item.Get("type").Str == "reasoning" {
					got = append(got, item.Get("status").Str)
				}
			}
			if want := []string{"in_progress", "completed"}; !slices.Equal(got, want) {
				t.Errorf("statuses = %q, want %q", got, want)
			}
		}},
		{"message is cut", Scenario{Message: "one two three four five six seven eight nine ten"}, func(t *testing.T, frames []string) {
			n := 0
			for _, typ := range types(t, frames) {
				if typ == "response.output_text.delta" {
					n++
				}
			}
			if n < 3 {
				t.Errorf("output text deltas = %d, want several", n)
			}
		}},
		{"incomplete", Scenario{Incomplete: "content_filter"}, func(t *testing.T, frames []string) {
			d := last(t, frames)
			if d.Get("type").Str != "response.incomplete" || d.Get("response.status").Str != "incomplete" ||
				d.Get("response.incomplete_details.reason").Str != "content_filter" {
				t.Errorf("terminal = %s", d.Raw)
			}
		}},
		{"ids and model given", Scenario{Model: "x", ResponseID: "r"}, func(t *testing.T, frames []string) {
			if d := last(t, frames); d.Get("response.model").Str != "x" || d.Get("response.id").Str != "r" {
				t.Errorf("terminal = %s, want model x, id r", d.Raw)
			}
		}},
		{"raw frames", Scenario{Frames: []string{"a", "", "b\r"}}, func(t *testing.T, frames []string) {
			if !slices.Equal(frames, []string{"a", "", "b\r"}) {
				t.Errorf("frames = %q", frames)
			}
		}},
		{"limit", Scenario{Limit: 3}, func(t *testing.T, frames []string) {
			if !slices.Equal(frames, Scenario{}.Stream(0, []byte(streamBody))[:3]) {
				t.Errorf("frames = %q, want the first 3", frames)
			}
		}},
		{"line end CR", Scenario{LineEnd: "\r"}, func(t *testing.T, frames []string) {
			want := strings.ReplaceAll(strings.Join(Scenario{}.Stream(0, []byte(streamBody)), ""), "\n", "\r")
			if got := strings.Join(frames, ""); got != want {
				t.Errorf("stream = %q\nwant %q", got, want)
			}
		}},
		{"no sequence", Scenario{NoSequence: true, Loop: &Loop{Deltas: 9, Then: ThenFinish}}, func(t *testing.T, frames []string) {
			if all := strings.Join(frames, ""); strings.Contains(all, "sequence_number") {
				t.Errorf("stream has sequence numbers: %s", all)
			}
		}},
		{"failure first", Scenario{Failure: &Failure{Code: "c", Message: "m", Event: FailureError}}, func(t *testing.T, frames []string) {
			want := []string{"event: error\n" + `data: {"type":"error","sequence_number":0,"code":"c","message":"m","param":null}` + "\n\n"}
			if !slices.Equal(frames, want) {
				t.Errorf("frames = %q, want %q", frames, want)
			}
		}},
		{"failure nested", Scenario{Failure: &Failure{Event: FailureErrorNested, After: 2}}, func(t *testing.T, frames []string) {
			d := last(t, frames)
			if len(frames) != 3 || d.Get("error.code").Str != "server_error" || d.Get("sequence_number").Int() != 2 {
				t.Errorf("%d frames, last %s", len(frames), d.Raw)
			}
		}},
		{"failure instead of the end", Scenario{Failure: &Failure{After: 1000}}, func(t *testing.T, frames []string) {
			want := types(t, Scenario{}.Stream(0, []byte(streamBody)))
			want[len(want)-1] = "response.failed"
			if got := types(t, frames); !slices.Equal(got, want) {
				t.Errorf("types = %q, want %q", got, want)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.want(t, tt.sc.Stream(0, []byte(streamBody))) })
	}
}

func TestStreamEchoesRequest(t *testing.T) {
	body := `{"model":"m","tools":[{"type":"function", "name":"f"}],"previous_response_id":"resp_1","store":false}`
	for i, frame := range []int{0, 1, -1} {
		frames := Scenario{}.Stream(0, []byte(body))
		frame = (frame + len(frames)) % len(frames)
		_, data := sse(t, frames[frame:frame+1])
		r := data[0].Get("response")
		got := r.Get("tools").Raw + r.Get("previous_response_id").Raw + r.Get("store").Raw + r.Get("model").Raw
		want := `[{"type":"function","name":"f"}]"resp_1"false"m"`
		if got != want {
			t.Errorf("case %d: response echoes %s, want %s", i, got, want)
		}
	}
	// Not JSON: nothing to echo, but a stream all the same.
	for _, body := range []string{"", "{", "[]", "\xff", `{"tools":[{"a" 1}]}`} {
		if got := last(t, Scenario{}.Stream(0, []byte(body))).Get("response.model").Str; got != defaultModel {
			t.Errorf("body %q: model = %q, want %q", body, got, defaultModel)
		}
	}
}

func TestStreamDeterministic(t *testing.T) {
	keys := []string{
		"id", "output.0.id", "output.0.encrypted_content", "output.0.summary",
		"output.1.id", "output.1.content", "output.2.id", "output.2.call_id",
	}
	seen := map[string]string{} // what had that value
	for ordinal := range 20 {
		for seed := range uint64(3) {
			sc := Scenario{Seed: seed, Calls: []Call{{Name: "ls"}}, Loop: &Loop{Channel: ChannelResponse, After: 9, Deltas: 1, Then: ThenFinish}}
			frames := sc.Stream(ordinal, nil)
			if !slices.Equal(frames, sc.Stream(ordinal, nil)) {
				t.Errorf("ordinal %d, seed %d: two runs differ", ordinal, seed)
			}
			r := last(t, frames).Get("response")
			for _, key := range keys {
				where := fmt.Sprintf("%s of ordinal %d, seed %d", key, ordinal, seed)
				v := r.Get(key).Raw
				if other, ok := seen[v]; ok || v == "" {
					t.Errorf("%s is %s, as is %s", where, v, other)
				}
				seen[v] = where
			}
		}
	}
}

// Whoever takes frames may stop at any of them.
func TestStreamStops(t *testing.T) {
	all := len(Scenario{DoneMarker: true}.Stream(0, nil))
	for n := 1; n <= all; n++ {
		g := newGenerator(&Scenario{DoneMarker: true}, 0, nil, true)
		for range g.run {
			if g.frames == n {
				break
			}
		}
		if !g.stopped || g.frames != n {
			t.Errorf("after %d frames: stopped %v, made %d", n, g.stopped, g.frames)
		}
	}
}

func TestStreamLeavesScenarioAlone(t *testing.T) {
	sc := Scenario{
		Thinking: []string{"a", "b"}[:1],
		Loop:     &Loop{After: 2, Deltas: 20, Every: 2, Triggers: []string{"x", "y"}, Then: ThenFinish},
	}
	sc.Stream(0, nil)
	if got := sc.Thinking[:2][1]; got != "b" {
		t.Errorf("the caller's memory now holds %q, want b", got)
	}
	if sc.Loop.Phrase != "" || sc.Loop.Channel != "" {
		t.Errorf("defaults were written into the caller's loop: %+v", sc.Loop)
	}
}
