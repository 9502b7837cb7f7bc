package recovery_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

// The reminder of these tests, and what it becomes.
const (
	note     = `stop "it"`
	reminder = `{"type":"message","role":"user","content":[{"type":"input_text","text":"stop \"it\""}]}`
)

// thought returns the capture of a cut attempt, and its item.
func thought(text string) (c *recovery.Capture, item string) {
	return capture(summaryDelta(0, "rs_a", 0, text)),
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"` + text + `"}]}`
}

func TestAmend(t *testing.T) {
	c, item := thought("a")
	added := item + "," + reminder
	for _, tc := range []struct{ name, body, want string }{
		{
			"array", `{"model":"m","input":[{"role":"user","content":"hi"}],"stream":true}`,
			`{"model":"m","input":[{"role":"user","content":"hi"},` + added + `],"stream":true}`,
		},
		{
			"odd formatting",
			"\n{ \"stream\":true,\r\n\t\"input\" : [\n  {\"a\":\"]}\\\"\"} , 1.50\n ] ,\"x\":[ 1e3,-0 ]}\n",
			"\n{ \"stream\":true,\r\n\t\"input\" : [\n  {\"a\":\"]}\\\"\"} , 1.50\n ," + added + "] ,\"x\":[ 1e3,-0 ]}\n",
		},
		{"empty array", `{"input":[]}`, `{"input":[` + added + `]}`},
		{"empty array with space", "{\"input\":[ \n ]}", "{\"input\":[ \n " + added + `]}`},
		{
			"text", `{"input":"say \"hi\" \u00e4","n":1}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"say \"hi\" \u00e4"}]},` + added + `],"n":1}`,
		},
		{
			"empty text", `{"input":""}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":""}]},` + added + `]}`,
		},
		{"absent", `{"stream":true}`, `{"stream":true,"input":[` + added + `]}`},
		{"absent, space at the end", "{\"stream\": true \n} \n", "{\"stream\": true \n,\"input\":[" + added + "]} \n"},
		{"absent, no members", `{ }`, `{ "input":[` + added + `]}`},
		{"absent, but in an inner object", `{"x":{"input":"a"}}`, `{"x":{"input":"a"},"input":[` + added + `]}`},
		{"absent, but named in a text", `{"x":"\"input\":[]"}`, `{"x":"\"input\":[]","input":[` + added + `]}`},
		{"null", `{"input": null ,"n":1}`, `{"input": [` + added + `] ,"n":1}`},
		{"key written with escapes", `{"\u0069nput":[1]}`, `{"\u0069nput":[1,` + added + `]}`},
		{"last of two", `{"input":[1],"input":[2]}`, `{"input":[1],"input":[2,` + added + `]}`},
		{"object", `{"input":{"a":1}}`, `{"input":{"a":1}}`},
		{"number", `{"input":5}`, `{"input":5}`},
		{"deep", `{"input":[` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `]}`, `{"input":[` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,` + added + `]}`},
	} {
		r := recovery.Replay{Reminder: note}
		r.Add(c)
		got := r.Amend(tc.body)
		if got != tc.want {
			t.Errorf("%s:\ngot  %.500s\nwant %.500s", tc.name, got, tc.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: got %.500s, want JSON", tc.name, got)
		}
	}
}

func TestAmendKeepsWhatWasThereBefore(t *testing.T) {
	r := recovery.Replay{Reminder: note}
	const body = `{"input":[0]}`
	if got := r.Amend(body); got != body || r.Amends() {
		t.Errorf("got %s, %v before a cut, want the body", got, r.Amends())
	}
	a, itemA := thought("a")
	b, itemB := thought("b")
	for _, step := range []struct {
		capture *recovery.Capture
		want    string
	}{
		{a, `{"input":[0,` + itemA + `,` + reminder + `]}`},
		{new(recovery.Capture), `{"input":[0,` + itemA + `,` + reminder + `,` + reminder + `]}`},
		{b, `{"input":[0,` + itemA + `,` + reminder + `,` + reminder + `,` + itemB + `,` + reminder + `]}`},
	} {
		r.Add(step.capture)
		if got := r.Amend(body); got != step.want || !r.Amends() {
			t.Errorf("got  %s\nwant %s", got, step.want)
		}
	}
}

func TestDefaultReminder(t *testing.T) {
	var r recovery.Replay
	r.Add(new(recovery.Capture))
	var body struct {
		Input []struct {
			Type, Role string
			Content    []struct{ Type, Text string }
		}
	}
	if err := json.Unmarshal([]byte(r.Amend(`{}`)), &body); err != nil {
		t.Fatal(err)
	}
	if got := body.Input[0].Content[0].Text; got != recovery.DefaultReminder {
		t.Errorf("got %q, want the default", got)
	}
}

func TestReplayAdd(t *testing.T) {
	full, item := thought("a")
	empty := new(recovery.Capture)
	vetoed := capture(summaryDelta(0, "rs_a", 0, "a"), itemDone(1, `{"type":"function_call"}`))
	for _, tc := range []struct {
		name    string
		start   recovery.Mode
		capture *recovery.Capture
		added   recovery.Added
		holds   bool
		input   string
	}{
		{"full", recovery.ModeFull, full, recovery.AddedFull, true, item + "," + reminder},
		{"nothing captured", recovery.ModeFull, empty, recovery.AddedReminder, false, reminder},
		{"vetoed", recovery.ModeFull, vetoed, recovery.AddedVetoed, false, reminder},
		{"reminder only", recovery.ModeReminder, full, recovery.AddedReminder, false, reminder},
		{"reminder only, vetoed", recovery.ModeReminder, vetoed, recovery.AddedVetoed, false, reminder},
	} {
		r := recovery.Replay{Reminder: note}
		r.StartAt(tc.start)
		if got := r.Add(tc.capture); got != tc.added {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.added)
		}
		if got := r.Holds(); got != tc.holds {
			t.Errorf("%s: got holds %v, want %v", tc.name, got, tc.holds)
		}
		if got, want := r.Amend(`{}`), `{"input":[`+tc.input+`]}`; got != want {
			t.Errorf("%s: got %s, want %s", tc.name, got, want)
		}
	}
}

func TestReplayStartAtTellsNoMoreAgain(t *testing.T) {
	c, _ := thought("a")
	r := recovery.Replay{Reminder: note}
	r.StartAt(recovery.ModeReminder)
	r.StartAt(recovery.ModeFull)
	r.Add(c)
	if r.Holds() {
		t.Error("got reasoning replayed, want none")
	}
}

// Each rung that the ladder takes sends other bytes than the one before, and
// none comes back.
func TestReplayStepDown(t *testing.T) {
	full, item := thought("a")
	empty := new(recovery.Capture)
	all, note1, original := `{"input":[`+item+`,`+reminder+`]}`, `{"input":[`+reminder+`]}`, `{}`
	for _, tc := range []struct {
		name    string
		start   recovery.Mode
		capture *recovery.Capture
		want    []string
	}{
		{"full", recovery.ModeFull, full, []string{all, note1, original}},
		{"nothing captured: the reminder was refused already", recovery.ModeFull, empty, []string{note1, original}},
		{"reminder only", recovery.ModeReminder, full, []string{note1, original}},
		{"original", recovery.ModeOriginal, full, []string{original}},
		{"no cut", recovery.ModeFull, nil, []string{original}},
	} {
		r := recovery.Replay{Reminder: note}
		r.StartAt(tc.start)
		if tc.capture != nil {
			r.Add(tc.capture)
		}
		got := []string{r.Amend(`{}`)}
		for r.StepDown() {
			got = append(got, r.Amend(`{}`))
		}
		if g, w := strings.Join(got, "\n"), strings.Join(tc.want, "\n"); g != w {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tc.name, g, w)
		}
		if got := r.Amend(`{}`); r.StepDown() || got != original {
			t.Errorf("%s: got another step down from %s", tc.name, got)
		}
	}
}

func TestReplayStepsLast(t *testing.T) {
	c, _ := thought("a")
	r := recovery.Replay{Reminder: note}
	r.Add(c)
	r.StepDown()
	r.Add(c)
	if got, want := r.Amend(`{}`), `{"input":[`+reminder+`]}`; got != want || r.Holds() {
		t.Errorf("got %s behind a further cut, want %s", got, want)
	}
	r.StepDown()
	r.Add(c)
	if got := r.Amend(`{}`); got != `{}` || r.Amends() {
		t.Errorf("got %s behind a third, want the client's own body", got)
	}
}
