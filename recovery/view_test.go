package recovery_test

import (
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

const (
	created     = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_a","object":"response","created_at":1700000000,"model":"m-1","output":[]}}`
	inProgress  = `{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_a"}}`
	itemAdded   = `{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_a","type":"reasoning","summary":[]}}`
	partAdded   = `{"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"rs_a","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`
	summaryText = `{"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"rs_a","output_index":0,"summary_index":0,"delta":"hm"}`
)

func newView(closing recovery.Close) *recovery.View {
	return recovery.NewView(closing, recovery.Response{ID: `"resp_own"`, Model: `"m-own"`, CreatedAt: "1"})
}

func TestVisible(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		visible   bool
	}{
		{"comment", ": keepalive\n\n", false},
		{"blank line", "\n", false},
		{"no data", "event: response.output_text.delta\n\n", false},
		{"ping", frame(`{"type":"ping"}`), false},
		{"ping with null members", frame(`{"type":"ping","item":null,"item_id":null,"output_index":null}`), false},
		{"other vocabulary", frame(`{"type":"codex.rate_limits","limits":{"item":1,"output_index":2}}`), false},
		{"end mark", "data: [DONE]\n\n", false},
		{"garbage", "data: nonsense\n\n", false},
		{"empty data", "data\n\n", false},
		{"array", "data: [{\"output_index\":0}]\n\n", false},
		{"check that breaks off", "data: " + checkData[:60] + "\n\n", false},
		{"created", frame(created), false},
		{"queued", frame(`{"type":"response.queued"}`), false},
		{"in progress", frame(inProgress), false},

		{"reasoning added", frame(`{"type":"response.output_item.added","output_index":1,"item":{"id":"rs_b","type":"reasoning"}}`), false},
		{"reasoning done", frame(`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`), false},
		{"reasoning done, never added", frame(`{"type":"response.output_item.done","output_index":9,"item":{"type":"reasoning"}}`), false},
		{"done without item", frame(`{"type":"response.output_item.done","output_index":0}`), false},
		{"summary text", frame(summaryText), false},
		{"reasoning text of no known item", frame(`{"type":"response.reasoning_text.delta","output_index":9,"delta":"x"}`), false},
		{"reasoning part", frame(`{"type":"response.reasoning_part.added","output_index":0,"part":{"type":"reasoning_text"}}`), false},
		{"content part", frame(`{"type":"response.content_part.added","item_id":"rs_a","output_index":0,"content_index":0,"part":{"type":"reasoning_text"}}`), false},
		{"content part by id", frame(`{"type":"response.content_part.added","item_id":"rs_a","content_index":0}`), false},
		{"content part, null item", frame(`{"type":"response.content_part.added","item":null,"output_index":0}`), false},

		{"content part of another item", frame(`{"type":"response.content_part.added","item_id":"msg_a","output_index":1,"part":{"type":"output_text"}}`), true},
		{"content part of another id", frame(`{"type":"response.content_part.added","item_id":"msg_a"}`), true},
		{"message added", frame(`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_a","type":"message"}}`), true},
		{"message at the index of reasoning", frame(`{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_a","type":"message"}}`), true},
		{"call added", frame(`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call"}}`), true},
		{"item without type", frame(`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_a"}}`), true},
		{"item that is no object", frame(`{"type":"response.output_item.added","item":"reasoning"}`), true},
		{"item of odd type", frame(`{"type":"response.output_item.added","item":{"type":["reasoning"]}}`), true},
		{"text", frame(`{"type":"response.output_text.delta","item_id":"msg_a","output_index":1,"delta":"x"}`), true},
		{"text at the index of reasoning", frame(`{"type":"response.output_text.delta","item_id":"rs_a","output_index":0,"delta":"x"}`), true},
		{"text of nothing", frame(`{"type":"response.output_text.delta","delta":"x"}`), true},
		{"text named only by its frame", "event: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n", true},
		{"arguments", frame(`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{"}`), true},
		{"other response event", frame(`{"type":"response.hologram"}`), true},
		{"unknown with an item", frame(`{"type":"hologram","item":{"type":"hologram"}}`), true},
		{"unknown with an output index", frame(`{"type":"hologram","output_index":3}`), true},
		{"unknown with the index of reasoning", frame(`{"type":"hologram","output_index":0}`), true},
		{"unknown with an item id", frame(`{"type":"hologram","item_id":"x"}`), true},
		{"no type, an output index", "data: {\"output_index\":3}\n\n", true},
		{"key written with escapes", frame(`{"type":"hologram","\u006futput_index":3}`), true},
		{"error", frame(`{"type":"error","code":"server_error"}`), true},
		{"completed", frame(`{"type":"response.completed"}`), true},
		{"incomplete", frame(`{"type":"response.incomplete"}`), true},
		{"failed", frame(`{"type":"response.failed"}`), true},
	} {
		v := newView(recovery.CloseTombstone)
		sendData(v, created, itemAdded, partAdded, summaryText)
		if v.Visible {
			t.Fatal("got visible thinking, want none")
		}
		raw, action := v.Forward(parse(tc.raw))
		if v.Visible != tc.visible {
			t.Errorf("%s: got visible %v, want %v", tc.name, v.Visible, tc.visible)
		}
		if string(raw) != tc.raw || action != recovery.Forwarded {
			t.Errorf("%s: got %q, %v, want the frame as it is", tc.name, raw, action)
		}
		send(v, ": later\n\n")
		if v.Visible != tc.visible {
			t.Errorf("%s: got visible %v later, want %v", tc.name, v.Visible, tc.visible)
		}
	}
}

func TestViewMarks(t *testing.T) {
	for _, tc := range []struct {
		data                       string
		created, terminal, errored bool
	}{
		{created, true, false, false},
		{inProgress, false, false, false},
		{`{"type":"response.completed"}`, false, true, false},
		{`{"type":"response.incomplete"}`, false, true, false},
		{`{"type":"response.failed"}`, false, true, false},
		{`{"type":"error"}`, false, false, true},
		{summaryText, false, false, false},
	} {
		v := newView(recovery.CloseTombstone)
		sendData(v, tc.data)
		if v.Created() != tc.created || v.Terminal != tc.terminal || v.Errored != tc.errored {
			t.Errorf("%s: got created %v, terminal %v, errored %v", tc.data, v.Created(), v.Terminal, v.Errored)
		}
	}
}

// An upstream that leaves out indexes and ids may think as long as others.
func TestThinkingWithoutIndexStaysInvisible(t *testing.T) {
	for _, data := range []string{
		`{"type":"response.reasoning_text.delta","delta":"x"}`,
		`{"type":"response.reasoning_text.delta","item_id":null,"output_index":null,"delta":"x"}`,
		`{"type":"response.reasoning_text.delta","item_id":"rs_a","delta":"x"}`,
		`{"type":"response.reasoning_text.delta","output_index":0,"delta":"x"}`,
	} {
		v := newView(recovery.CloseTombstone)
		for range 1000 {
			sendData(v, data)
		}
		if v.Visible {
			t.Errorf("%s: got visible, want not", data)
		}
		splice(v)
		b := decode(t, sendData(v, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`))
		if got := b["output_index"]; value(t, "1") != got {
			t.Errorf("%s: got index %v behind it, want 1", data, got)
		}
	}
}

// More than a View can keep account of can no longer be taken back.
func TestTooMuchToCloseIsVisible(t *testing.T) {
	for name, next := range map[string]func(i int) string{
		"items": func(i int) string { return rawDelta(i, "rs_a", 0, "x") },
		"parts": func(i int) string { return rawDelta(0, "rs_a", i, "x") },
	} {
		v := newView(recovery.CloseTombstone)
		n := 0
		for ; n < 10_000 && !v.Visible; n++ {
			sendData(v, next(n))
		}
		if n != 257 {
			t.Errorf("%s: got visible behind %d, want 257", name, n)
		}
	}
}

func TestForwardDoesNotAllocate(t *testing.T) {
	delta := sseframe.Frame{Raw: []byte(thinkingDelta)}
	text := sseframe.Frame{Raw: []byte(textDelta)}
	for name, prepare := range map[string]func(v *recovery.View){
		"first attempt":     func(*recovery.View) {},
		"behind a splice":   func(v *recovery.View) { splice(v) },
		"something visible": func(v *recovery.View) { v.Visible = true },
	} {
		v := newView(recovery.CloseTombstone)
		sendData(v, created, itemAdded, partAdded, summaryText)
		prepare(v)
		var p recovery.Parser
		var c recovery.Collector
		one := func(f sseframe.Frame) {
			ev := p.Parse(f)
			c.Absorb(ev)
			v.Forward(ev)
		}
		one(delta)
		if got := testing.AllocsPerRun(100, func() { one(delta) }); got != 0 {
			t.Errorf("%s: got %v allocations for a thinking delta, want 0", name, got)
		}
		if got := testing.AllocsPerRun(100, func() { one(text) }); got != 0 {
			t.Errorf("%s: got %v allocations for a text delta, want 0", name, got)
		}
	}
}
