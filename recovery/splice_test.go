package recovery_test

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

var tombstone = regexp.MustCompile(`doomproxy-tombstone-v1:[A-Za-z0-9_-]{22}"`)

const spliceComment = ": cut\n\n"

func TestSpliceCloses(t *testing.T) {
	const (
		textDone = `{"type":"response.reasoning_summary_text.done","sequence_number":%d,"item_id":"rs_a","output_index":0,"summary_index":0,"text":""}`
		partDone = `{"type":"response.reasoning_summary_part.done","sequence_number":%d,"item_id":"rs_a","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`
		done     = `{"type":"response.output_item.done","sequence_number":%d,"output_index":0,"item":{"id":"rs_a","type":"reasoning","summary":[],"encrypted_content":"T"}}`
	)
	for _, tc := range []struct {
		name string
		sent []string
		want []string
	}{
		{"nothing sent", nil, nil},
		{"lifecycle only", []string{created, inProgress}, nil},
		{"item", []string{itemAdded}, []string{fmt.Sprintf(done, 3)}},
		{"part", []string{itemAdded, partAdded}, []string{fmt.Sprintf(partDone, 4), fmt.Sprintf(done, 5)}},
		{"text", []string{itemAdded, partAdded, summaryText}, []string{fmt.Sprintf(textDone, 5), fmt.Sprintf(partDone, 6), fmt.Sprintf(done, 7)}},
		{
			"text that ended",
			[]string{itemAdded, partAdded, summaryText, `{"type":"response.reasoning_summary_text.done","sequence_number":9,"item_id":"rs_a","output_index":0,"summary_index":0,"text":"hm"}`},
			[]string{fmt.Sprintf(partDone, 10), fmt.Sprintf(done, 11)},
		},
		{
			"part that ended, its text without an end",
			[]string{itemAdded, partAdded, summaryText, `{"type":"response.reasoning_summary_part.done","sequence_number":9,"item_id":"rs_a","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"hm"}}`},
			[]string{fmt.Sprintf(done, 10)},
		},
		{
			"part that began again",
			[]string{itemAdded, partAdded, `{"type":"response.reasoning_summary_part.done","sequence_number":4,"item_id":"rs_a","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`, partAdded},
			[]string{fmt.Sprintf(partDone, 5), fmt.Sprintf(done, 6)},
		},
		{"item that ended", []string{itemAdded, partAdded, summaryText, `{"type":"response.output_item.done","sequence_number":9,"output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`}, nil},
		{"item never added", []string{summaryText}, nil},
		{
			"several, by index",
			[]string{
				`{"type":"response.output_item.added","output_index":2,"item":{"id":"rs_c","type":"reasoning"}}`,
				`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`,
				`{"type":"response.output_item.added","output_index":1,"item":{"id":"rs_b","type":"reasoning"}}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"id":"rs_b","type":"reasoning"}}`,
			},
			[]string{
				`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_a","type":"reasoning","summary":[],"encrypted_content":"T"}}`,
				`{"type":"response.output_item.done","output_index":2,"item":{"id":"rs_c","type":"reasoning","summary":[],"encrypted_content":"T"}}`,
			},
		},
		{
			"one index for all",
			[]string{
				`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`,
				`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_b","type":"reasoning"}}`,
				`{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"x"}`,
			},
			[]string{
				`{"type":"response.reasoning_text.done","item_id":"rs_b","output_index":0,"content_index":0,"text":""}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_b","type":"reasoning","summary":[],"encrypted_content":"T"}}`,
			},
		},
		{
			"ids as they are written",
			[]string{`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs\u005f\"\n\/ä","type":"reasoning"}}`, `{"type":"response.reasoning_text.delta","output_index":0,"delta":"x"}`},
			[]string{
				`{"type":"response.reasoning_text.done","item_id":"rs\u005f\"\n\/ä","output_index":0,"text":""}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs\u005f\"\n\/ä","type":"reasoning","summary":[],"encrypted_content":"T"}}`,
			},
		},
		{
			"no ids, no indexes, no numbers",
			[]string{`{"type":"response.output_item.added","item":{"id":null,"type":"reasoning"}}`, `{"type":"response.reasoning_text.delta","item_id":null,"delta":"x"}`, `{"type":"response.reasoning_text.delta","delta":"x"}`},
			[]string{`{"type":"response.reasoning_text.done","text":""}`, `{"type":"response.output_item.done","item":{"type":"reasoning","summary":[],"encrypted_content":"T"}}`},
		},
		{
			"no ids, no indexes, ended",
			[]string{`{"type":"response.output_item.added","item":{"id":null,"type":"reasoning"}}`, `{"type":"response.output_item.done","item":{"id":null,"type":"reasoning"}}`},
			nil,
		},
		{
			"an id told once",
			[]string{`{"type":"response.output_item.added","item":{"id":"rs_a","type":"reasoning"}}`, `{"type":"response.reasoning_text.delta","delta":"x"}`},
			[]string{`{"type":"response.reasoning_text.done","item_id":"rs_a","text":""}`, `{"type":"response.output_item.done","item":{"id":"rs_a","type":"reasoning","summary":[],"encrypted_content":"T"}}`},
		},
		{
			"an id that changes with each event",
			[]string{itemAdded, strings.Replace(partAdded, "rs_a", "rs_b", 1), strings.Replace(summaryText, "rs_a", "rs_c", 1)},
			[]string{fmt.Sprintf(textDone, 5), fmt.Sprintf(partDone, 6), fmt.Sprintf(done, 7)},
		},
		{
			"an index told late",
			[]string{`{"type":"response.output_item.added","item":{"id":"rs_a","type":"reasoning"}}`, `{"type":"response.reasoning_text.delta","item_id":"rs_a","output_index":0,"delta":"x"}`},
			[]string{`{"type":"response.reasoning_text.done","item_id":"rs_a","text":""}`, `{"type":"response.output_item.done","item":{"id":"rs_a","type":"reasoning","summary":[],"encrypted_content":"T"}}`},
		},
		{
			"odd indexes and numbers",
			[]string{
				`{"type":"response.output_item.added","sequence_number":-3,"output_index":1.5,"item":{"id":"rs_a","type":"reasoning"}}`,
				`{"type":"response.reasoning_text.delta","sequence_number":99999999999999999999999,"output_index":-1,"item_id":"rs_a","content_index":"0","delta":"x"}`,
			},
			[]string{
				`{"type":"response.reasoning_text.done","item_id":"rs_a","text":""}`,
				`{"type":"response.output_item.done","item":{"id":"rs_a","type":"reasoning","summary":[],"encrypted_content":"T"}}`,
			},
		},
		{
			"type of the part as it came",
			[]string{itemAdded, `{"type":"response.reasoning_part.added","output_index":0,"content_index":3,"part":{"type":"thought\"s"}}`, `{"type":"response.reasoning_part.added","output_index":0,"summary_index":3,"part":{"type":7}}`},
			[]string{
				`{"type":"response.reasoning_part.done","sequence_number":3,"item_id":"rs_a","output_index":0,"summary_index":3,"part":{"type":"summary_text","text":""}}`,
				`{"type":"response.reasoning_part.done","sequence_number":4,"item_id":"rs_a","output_index":0,"content_index":3,"part":{"type":"thought\"s","text":""}}`,
				fmt.Sprintf(done, 5),
			},
		},
	} {
		v := newView(recovery.CloseTombstone)
		sendData(v, tc.sent...)
		if v.Visible {
			t.Errorf("%s: got visible, want not", tc.name)
		}
		raw, n := v.Splice("cut")
		var want strings.Builder
		for _, data := range tc.want {
			want.WriteString(frame(data))
		}
		want.WriteString(spliceComment)
		if got := tombstone.ReplaceAllString(string(raw), `T"`); got != want.String() {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, want.String())
		}
		if n != len(tc.want)+1 {
			t.Errorf("%s: got %d frames, want %d", tc.name, n, len(tc.want)+1)
		}
	}
}

// A type may hold a line end, and data that is no JSON may put one into an id.
// None of them must get out.
func TestSpliceInjectsNothing(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	send(v,
		"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"a\ndata: event: b\"}}\n\n",
		"data: {\"type\":\"response.reasoning_part.added\",\"output_index\":0,\"part\":{\"type\":\"a\ndata: event: b\"}}\n\n",
		`data: {"type":"response.reasoning\nevent: b\n\n.delta","output_index":0,"delta":"x"}`+"\n\n",
		`data: {"type":"response.reasoning\".delta","output_index":0,"delta":"x"}`+"\n\n",
	)
	frames := split(t, splice(v))
	if len(frames) != 3 {
		t.Errorf("got %d frames %q, want 3: a part, its item, a comment", len(frames), frames)
	}
	for _, raw := range frames {
		decode(t, raw) // fails if it is no JSON
		if strings.Contains(raw, "event: b") {
			t.Errorf("got %q, want nothing of what was in the line", raw)
		}
	}
}

func TestSpliceDangling(t *testing.T) {
	v := newView(recovery.CloseDangling)
	sendData(v, created, itemAdded, partAdded, summaryText)
	if raw, n := v.Splice("cut"); string(raw) != spliceComment || n != 1 {
		t.Errorf("got %d frames %q, want the comment alone", n, raw)
	}
	got := sendData(v, itemAdded)
	if want := frame(strings.NewReplacer(`"sequence_number":2`, `"sequence_number":5`, `"output_index":0`, `"output_index":1`).Replace(itemAdded)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTombstonesDiffer(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	sendData(v, itemAdded, strings.ReplaceAll(itemAdded, `"output_index":0`, `"output_index":1`))
	all := tombstone.FindAllString(splice(v), -1)
	if len(all) != 2 || all[0] == all[1] {
		t.Errorf("got %q, want two that differ", all)
	}
}

// Every place in every shape of thinking is one where an attempt may end. The
// client's picture must hold, and the next attempt's events must all be there.
func TestSpliceEverywhere(t *testing.T) {
	names := slices.Sorted(maps.Keys(shapes))
	for _, closing := range []recovery.Close{recovery.CloseTombstone, recovery.CloseDangling} {
		for _, first := range []int{-1, 0} {
			for i, one := range names {
				two := names[(i+1)%len(names)]
				a, thinking := stream("a", first, one, two)
				for cut := range thinking + 1 {
					name := fmt.Sprintf("%s, %s, close %d, from %d, cut at %d", one, two, closing, first, cut)
					spliceTwice(t, name, closing, a[:cut], one, first)
				}
			}
		}
	}
}

// spliceTwice sends a, then a part of a second attempt, then a third.
func spliceTwice(t *testing.T, name string, closing recovery.Close, a []string, shape string, first int) {
	t.Helper()
	v := newView(closing)
	c := newClient(t, name)
	sendAll := func(attempt string, frames []string) {
		for _, raw := range frames {
			out, action := v.Forward(parse(raw))
			c.read(string(out))
			if action != recovery.Swallowed {
				compare(t, name+", "+attempt, raw, string(out))
			} else if want := decode(t, raw)["type"]; want != "response.created" && want != "response.in_progress" {
				t.Errorf("%s: got %s swallowed", name, raw)
			}
		}
	}
	cut := func() {
		before := c.events
		raw, frames := v.Splice("cut")
		c.read(string(raw))
		if frames != c.events-before+1 {
			t.Errorf("%s: got %d frames told, want %d and a comment", name, frames, c.events-before)
		}
		if n := c.openItems(); closing == recovery.CloseTombstone && n > 0 {
			t.Errorf("%s: got %d items left open", name, n)
		}
	}
	sendAll("first", a)
	cut()
	b, thinking := stream("b", first, shape)
	sendAll("second", b[:thinking/2+1])
	cut()
	last, _ := stream("c", first, shape)
	sendAll("third", last)
	if c.created != 1 || c.terminal != 1 || !v.Terminal {
		t.Errorf("%s: got %d created, %d terminal, want one of each", name, c.created, c.terminal)
	}
}

// compare reports whether out is raw but for what a splice may change.
func compare(t *testing.T, name, raw, out string) {
	t.Helper()
	want, got := decode(t, raw), decode(t, out)
	for _, key := range []string{"sequence_number", "output_index"} {
		if _, ok := want[key]; ok {
			want[key] = got[key]
		}
	}
	if r, ok := want["response"].(map[string]any); ok {
		if r2, ok := got["response"].(map[string]any); ok {
			r["id"] = r2["id"]
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %s, want %s", name, out, raw)
	}
}
