package recovery_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

// capture returns what is kept of events with the given data.
func capture(data ...string) *recovery.Capture {
	var c recovery.Capture
	absorb(&c, data...)
	return &c
}

func absorb(c *recovery.Capture, data ...string) {
	for _, d := range data {
		ev := parse(frame(d))
		c.Absorb(ev)
		clear(ev.Frame.Raw) // what is kept must not alias it
	}
}

// items returns what is replayed, which must be JSON.
func items(t *testing.T, c *recovery.Capture) []string {
	t.Helper()
	all, ok := c.Items()
	if !ok {
		t.Error("got a veto, want items")
	}
	for _, it := range all {
		if !json.Valid([]byte(it)) {
			t.Errorf("got %s, want JSON", it)
		}
	}
	return all
}

func wantItems(t *testing.T, name string, c *recovery.Capture, want ...string) {
	t.Helper()
	if got := items(t, c); !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
	}
}

// Events of a reasoning item; index and id are those of the item.
func summaryDelta(index int, id string, part int, text string) string {
	return fmt.Sprintf(`{"type":"response.reasoning_summary_text.delta","item_id":%q,"output_index":%d,"summary_index":%d,"delta":%s}`, id, index, part, quote(text))
}

func rawDelta(index int, id string, part int, text string) string {
	return fmt.Sprintf(`{"type":"response.reasoning_text.delta","item_id":%q,"output_index":%d,"content_index":%d,"delta":%s}`, id, index, part, quote(text))
}

func itemDone(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func completed(output string) string {
	return `{"type":"response.completed","response":{"id":"resp_b","output":` + output + `}}`
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestCaptureItems(t *testing.T) {
	for _, tc := range []struct {
		name string
		data []string
		want []string
	}{
		{
			"finished with encrypted content, byte for byte",
			[]string{
				summaryDelta(0, "rs_a", 0, "delta"),
				itemDone(0, `{"id":"rs_\u0061","type":"reasoning","status":"completed","encrypted_content":"gAAAA\/+\u003d=","summary":[{"type":"summary_text","text":"**why**"}]}`),
			},
			[]string{`{"type":"reasoning","id":"rs_\u0061","encrypted_content":"gAAAA\/+\u003d=","summary":[{"type":"summary_text","text":"**why**"}]}`},
		},
		{
			"finished with encrypted content alone",
			[]string{itemDone(0, `{"id":"rs_a","type":"reasoning","encrypted_content":"gAAA","summary":[]}`)},
			[]string{`{"type":"reasoning","id":"rs_a","encrypted_content":"gAAA","summary":[]}`},
		},
		{
			"finished with nothing to tell",
			[]string{itemDone(0, `{"id":"rs_a","type":"reasoning","summary":[]}`)},
			nil,
		},
		{
			"finished wins over deltas",
			[]string{summaryDelta(0, "rs_a", 0, "delta"), itemDone(0, `{"type":"reasoning","summary":[{"text":"final"}]}`)},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"final"}]}`},
		},
		{
			"deltas behind the end of their item",
			[]string{itemDone(0, `{"type":"reasoning","summary":[{"text":"final"}]}`), summaryDelta(0, "rs_a", 0, "delta")},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"final"}]}`},
		},
		{
			"deltas only: no id, for the upstream knows none",
			[]string{summaryDelta(0, "rs_a", 0, "I "), summaryDelta(0, "rs_a", 0, "see"), summaryDelta(0, "rs_a", 1, "more")},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"I see"},{"type":"summary_text","text":"more"}]}`},
		},
		{
			"raw deltas only",
			[]string{rawDelta(0, "rs_a", 0, "I "), rawDelta(0, "rs_a", 0, "see")},
			[]string{`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"I see"}]}`},
		},
		{
			"raw text wins over the summary",
			[]string{summaryDelta(0, "rs_a", 0, "short"), rawDelta(0, "rs_a", 0, "long")},
			[]string{`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"long"}]}`},
		},
		{
			"finished: raw text wins over the summary",
			[]string{itemDone(0, `{"type":"reasoning","summary":[{"text":"short"}],"content":[{"type":"reasoning_text","text":"long"}]}`)},
			[]string{`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"long"}]}`},
		},
		{
			"finished: not where it holds none",
			[]string{itemDone(0, `{"type":"reasoning","content":[{"type":"reasoning_text","text":""}],"summary":[{"text":"short"}]}`)},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"short"}]}`},
		},
		{
			"the text of a done event replaces the deltas",
			[]string{
				rawDelta(0, "rs_a", 0, "a lost delta"), rawDelta(0, "rs_a", 1, "part two"),
				`{"type":"response.reasoning_text.done","item_id":"rs_a","output_index":0,"content_index":0,"text":"all of it"}`,
				`{"type":"response.reasoning_text.done","item_id":"rs_a","output_index":0,"content_index":1,"text":""}`,
			},
			[]string{`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"all of it"},{"type":"reasoning_text","text":"part two"}]}`},
		},
		{
			"the text of a finished part does, too",
			[]string{
				summaryDelta(0, "rs_a", 0, "a lost delta"),
				`{"type":"response.reasoning_summary_part.done","item_id":"rs_a","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"all of it"}}`,
			},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"all of it"}]}`},
		},
		{
			"reasoning parts of other servers",
			[]string{
				`{"type":"response.reasoning_part.added","item_id":"rs_a","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}}`,
				rawDelta(0, "rs_a", 0, "delta"),
				`{"type":"response.reasoning_part.done","item_id":"rs_a","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"all"}}`,
			},
			[]string{`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"all"}]}`},
		},
		{
			"parts in the order they came",
			[]string{summaryDelta(0, "rs_a", 1, "b"), summaryDelta(0, "rs_a", 0, "a"), summaryDelta(0, "rs_a", 1, "c")},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"bc"},{"type":"summary_text","text":"a"}]}`},
		},
		{
			"finished ones keep their order, the others come behind",
			[]string{
				itemDone(0, `{"id":"rs_a","type":"reasoning","summary":[{"text":"a"}]}`),
				summaryDelta(1, "rs_b", 0, "b"),
				itemDone(2, `{"id":"rs_c","type":"reasoning","summary":[{"text":"c"}]}`),
			},
			[]string{
				`{"type":"reasoning","id":"rs_a","summary":[{"type":"summary_text","text":"a"}]}`,
				`{"type":"reasoning","id":"rs_c","summary":[{"type":"summary_text","text":"c"}]}`,
				`{"type":"reasoning","summary":[{"type":"summary_text","text":"b"}]}`,
			},
		},
		{
			"terminal output wins",
			[]string{
				itemDone(0, `{"id":"rs_x","type":"reasoning","summary":[{"text":"x"}]}`), summaryDelta(1, "rs_b", 0, "delta"),
				completed(`[{"id":"rs_a","type":"reasoning","summary":[{"text":"a"}]},{"id":"rs_b","type":"reasoning","summary":[{"text":"b"}]}]`),
			},
			[]string{
				`{"type":"reasoning","id":"rs_a","summary":[{"type":"summary_text","text":"a"}]}`,
				`{"type":"reasoning","id":"rs_b","summary":[{"type":"summary_text","text":"b"}]}`,
			},
		},
		{
			"terminal output that lacks the item never finished",
			[]string{
				summaryDelta(1, "rs_b", 0, "delta"),
				completed(`[{"id":"rs_a","type":"reasoning","summary":[{"text":"a"}]}]`),
			},
			[]string{
				`{"type":"reasoning","id":"rs_a","summary":[{"type":"summary_text","text":"a"}]}`,
				`{"type":"reasoning","summary":[{"type":"summary_text","text":"delta"}]}`,
			},
		},
		{
			"terminal output empty though items finished",
			[]string{itemDone(0, `{"id":"rs_a","type":"reasoning","encrypted_content":"gAAA"}`), completed(`[ ]`)},
			[]string{`{"type":"reasoning","id":"rs_a","encrypted_content":"gAAA","summary":[]}`},
		},
		{
			"terminal event without output",
			[]string{itemDone(0, `{"id":"rs_a","type":"reasoning","encrypted_content":"gAAA"}`), `{"type":"response.incomplete"}`},
			[]string{`{"type":"reasoning","id":"rs_a","encrypted_content":"gAAA","summary":[]}`},
		},
		{
			"a message",
			[]string{completed(`[{"id":"msg_a","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[]}]}]`)},
			[]string{`{"type":"message","role":"assistant","id":"msg_a","content":[{"type":"output_text","text":"Hi"}]}`},
		},
		{
			"text that is no reasoning is not captured from deltas",
			[]string{`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hi"}`},
			nil,
		},
		{
			"an empty delta",
			[]string{summaryDelta(0, "rs_a", 0, "")},
			nil,
		},
		{
			"ids that are no text",
			[]string{itemDone(0, `{"id":null,"type":"reasoning","summary":[{"text":"a"}]}`), itemDone(1, `{"id":5,"type":"reasoning","summary":[{"text":"b"}]}`)},
			[]string{
				`{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}]}`,
				`{"type":"reasoning","summary":[{"type":"summary_text","text":"b"}]}`,
			},
		},
		{
			"members of other types",
			[]string{itemDone(0, `{"type":"reasoning","encrypted_content":{"a":1},"content":"text","summary":[1,null,{"text":5},{"text":"a"}]}`)},
			[]string{`{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}]}`},
		},
	} {
		wantItems(t, tc.name, capture(tc.data...), tc.want...)
	}
}

// Some servers leave out what tells items apart.
func TestCaptureWithoutOutputIndex(t *testing.T) {
	delta := func(member, text string) string {
		return `{"type":"response.reasoning_text.delta"` + member + `,"delta":` + quote(text) + `}`
	}
	const done = `{"type":"response.output_item.done","item":{"id":"rs_a","type":"reasoning","summary":[{"text":"final"}]}}`
	const a, b = `,"item_id":"rs_a"`, `,"item_id":"rs_b"`
	raw := func(text string) string {
		return `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"` + text + `"}]}`
	}
	final := `{"type":"reasoning","id":"rs_a","summary":[{"type":"summary_text","text":"final"}]}`

	wantItems(t, "ids", capture(delta(a, "1"), delta(b, "2"), delta(a, "3")), raw("13"), raw("2"))
	wantItems(t, "ids, one finished", capture(delta(a, "1"), delta(b, "2"), done), final, raw("2"))
	wantItems(t, "null", capture(delta(`,"item_id":null,"output_index":null`, "1"), delta(`,"item_id":null,"output_index":null`, "2")), raw("12"))
	wantItems(t, "neither", capture(delta("", "1"), delta("", "2"), delta("", "3")), raw("123"))
	wantItems(t, "neither, then an end without", capture(delta("", "1"), `{"type":"response.output_item.done","item":{"type":"reasoning","summary":[{"text":"final"}]}}`),
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"final"}]}`)
	wantItems(t, "neither, behind a finished one", capture(done, delta("", "1"), delta("", "2")), final, raw("12"))
	wantItems(t, "negative", capture(delta(`,"output_index":-1`, "1"), delta(`,"output_index":-1`, "2")), raw("12"))
	wantItems(t, "terminal output", capture(delta("", "1"), completed(`[{"id":"rs_a","type":"reasoning","summary":[{"text":"final"}]}]`)), final)
}

func TestCaptureVeto(t *testing.T) {
	reasoning := itemDone(0, `{"id":"rs_a","type":"reasoning","encrypted_content":"gAAA"}`)
	for name, data := range map[string][]string{
		"a finished call":       {itemDone(1, `{"id":"fc_a","type":"function_call","name":"rm"}`)},
		"a call that began":     {`{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_a","type":"function_call","name":"rm"}}`},
		"a call, then thinking": {`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call"}}`, `{"type":"response.output_item.added","output_index":2,"item":{"type":"reasoning"}}`},
		"an unknown item":       {itemDone(1, `{"type":"hologram"}`)},
		"an item without type":  {itemDone(1, `{"id":"x"}`)},
		"no item":               {`{"type":"response.output_item.done","output_index":1}`},
		"a call in the output":  {completed(`[{"type":"reasoning","encrypted_content":"gAAA"},{"type":"function_call"}]`)},
		"a call, then output":   {itemDone(1, `{"type":"function_call"}`), completed(`[{"type":"reasoning","encrypted_content":"gAAA"}]`)},
		"a call behind the budget": {
			itemDone(1, `{"type":"reasoning","summary":[{"text":"`+strings.Repeat("x", 10_000)+`"}]}`),
			itemDone(2, `{"type":"function_call"}`),
		},
	} {
		c := capture(append([]string{reasoning}, data...)...)
		if got, ok := c.Items(); ok || got != nil {
			t.Errorf("%s: got %q, %v, want a veto and nothing", name, got, ok)
		}
	}
	c := capture(`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`, reasoning)
	if _, ok := c.Items(); !ok {
		t.Error("got a veto of reasoning alone, want none")
	}
}

// Escapes are put together over the borders of deltas.
func TestCaptureSplitCharacters(t *testing.T) {
	raw := func(literal string) string {
		return `{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"` + literal + `"}`
	}
	for _, tc := range []struct {
		literals []string
		want     string
	}{
		{[]string{`a\ud83d`, `\ude00b`}, "a😀b"},
		{[]string{`\uD83D`, ``, `\uDE00`}, "😀"},
		{[]string{`\ud83d\ude00\ud83d`, `\ude00`}, "😀😀"},
		{[]string{`\\ud83d`, `\\ude00`}, `\ud83d\ude00`},
		{[]string{`\\\ud83d`, `\ude00`}, `\😀`},
		{[]string{`\ud83d`, `x`}, "\ufffdx"},
		{[]string{`x\ud83d`}, "x"},
		{[]string{`\"\n\t`, `\u00e4\/ä`}, "\"\n\tä/ä"},
		{[]string{`\ude00`, `\ud83d`, `\ud83d\ude00`}, "\ufffd\ufffd😀"},
	} {
		var data []string
		for _, l := range tc.literals {
			data = append(data, raw(l))
		}
		var got struct{ Content []struct{ Text string } }
		all := items(t, capture(data...))
		if len(all) != 1 {
			t.Errorf("%q: got %d items, want 1", tc.literals, len(all))
			continue
		}
		if err := json.Unmarshal([]byte(all[0]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Content[0].Text != tc.want {
			t.Errorf("%q: got %q, want %q", tc.literals, got.Content[0].Text, tc.want)
		}
	}
}
