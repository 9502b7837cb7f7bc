package recovery_test

import (
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

func lifecycle(event, id string) string {
	return frame(`{"type":"response.` + event + `","response":{"id":"` + id + `"}}`)
}

// What the client has is not sent again; what it has not goes out, with the id
// that it knows.
func TestSpliceLifecycle(t *testing.T) {
	const a, b = "resp_a", "resp_b"
	other, other2 := frame(`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}`), frame(`{"type":"ping"}`)
	shifted := func(raw string) string {
		return strings.Replace(raw, `"output_index":0`, `"output_index":1`, 1)
	}
	for _, tc := range []struct {
		name                string
		first, second, want []string
	}{
		{"all sent", []string{lifecycle("created", a), lifecycle("in_progress", a)}, []string{lifecycle("created", b), lifecycle("in_progress", b), other}, []string{other}},
		{"all sent, byte order mark", []string{lifecycle("created", a)}, []string{"\ufeff" + lifecycle("created", b), other}, []string{other}},
		{"created alone sent", []string{lifecycle("created", a)}, []string{lifecycle("created", b), lifecycle("in_progress", b), other}, []string{lifecycle("in_progress", a), other}},
		{"queued never sent", []string{lifecycle("created", a), lifecycle("in_progress", a)}, []string{lifecycle("created", b), lifecycle("queued", b), lifecycle("in_progress", b)}, []string{lifecycle("queued", a)}},
		{"nothing sent", nil, []string{lifecycle("created", b), lifecycle("in_progress", b), other}, []string{lifecycle("created", b), lifecycle("in_progress", b), other}},
		{"no created sent", []string{lifecycle("in_progress", a)}, []string{lifecycle("created", b), lifecycle("in_progress", b)}, []string{lifecycle("created", a)}},
		{"twice, sent once", nil, []string{lifecycle("created", b), lifecycle("in_progress", b), lifecycle("in_progress", b)}, []string{lifecycle("created", b), lifecycle("in_progress", b)}},
		{"later ones", []string{lifecycle("created", a), lifecycle("in_progress", a)}, []string{lifecycle("created", b), other, lifecycle("in_progress", b), lifecycle("created", b)}, []string{other, lifecycle("in_progress", a), lifecycle("created", a)}},
		{"comments end no preamble", []string{lifecycle("created", a)}, []string{": c\n\n", lifecycle("created", b)}, []string{": c\n\n"}},
		{"any event does", []string{lifecycle("created", a)}, []string{other2, lifecycle("created", b)}, []string{other2, lifecycle("created", a)}},
		{"terminal", []string{lifecycle("created", a)}, []string{lifecycle("created", b), lifecycle("completed", b)}, []string{lifecycle("completed", a)}},
		{"first without an id", []string{frame(`{"type":"response.created","response":{"id":null}}`)}, []string{lifecycle("created", b), lifecycle("in_progress", b)}, []string{lifecycle("in_progress", b)}},
		{"first without a response", []string{frame(`{"type":"response.created"}`)}, []string{lifecycle("in_progress", b), lifecycle("completed", b)}, []string{lifecycle("in_progress", b), lifecycle("completed", b)}},
		{"id told late", []string{frame(`{"type":"response.created"}`), lifecycle("in_progress", a)}, []string{lifecycle("completed", b)}, []string{lifecycle("completed", a)}},
		{"id told twice", []string{frame(`{"type":"response.created","response":{"id":"x","id":"resp_a"}}`)}, []string{frame(`{"type":"response.completed","response":{"id":"y","id":"resp_b"}}`)}, []string{frame(`{"type":"response.completed","response":{"id":"y","id":"resp_a"}}`)}},
		{"id with escapes", []string{lifecycle("created", `r\u0041\"\\`)}, []string{lifecycle("completed", b)}, []string{lifecycle("completed", `r\u0041\"\\`)}},
	} {
		v := recovery.NewView(recovery.CloseDangling, recovery.Response{})
		send(v, tc.first...)
		send(v, other)
		splice(v)
		if got, want := send(v, tc.second...), shifted(strings.Join(tc.want, "")); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", tc.name, got, want)
		}
	}
}

func TestSpliceLifecycleActions(t *testing.T) {
	v := newView(recovery.CloseDangling)
	send(v, lifecycle("created", "resp_a"))
	splice(v)
	for _, step := range []struct {
		raw  string
		want recovery.Action
	}{
		{lifecycle("created", "resp_b"), recovery.Swallowed},
		{lifecycle("in_progress", "resp_b"), recovery.Rewritten},
		{frame(`{"type":"response.reasoning_text.delta","delta":"x"}`), recovery.Forwarded},
	} {
		raw, action := v.Forward(parse(step.raw))
		if action != step.want {
			t.Errorf("%q: got %v, want %v", step.raw, action, step.want)
		}
		if swallowed := len(raw) == 0; swallowed != (step.want == recovery.Swallowed) {
			t.Errorf("%q: got %q of a frame that was %v", step.raw, raw, action)
		}
	}
}

// The second of three attempts tells the id, if the first did not come to it.
func TestIDIsTheFirstSent(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	out := splice(v) + send(v, lifecycle("created", "resp_b")) +
		splice(v) + send(v, lifecycle("created", "resp_c"), lifecycle("completed", "resp_c"))
	if want := spliceComment + lifecycle("created", "resp_b") + spliceComment + lifecycle("completed", "resp_b"); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestActionNames(t *testing.T) {
	var got []string
	for a := range recovery.Actions {
		got = append(got, recovery.Action(a).String())
	}
	if g, want := strings.Join(got, " "), "forwarded swallowed rewritten discarded synthesized"; g != want {
		t.Errorf("got %q, want %q", g, want)
	}
}
