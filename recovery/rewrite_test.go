package recovery_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

// spliced returns the view of a client that got resp_a, an item at index 0 and
// sequence numbers up to 41, and whose first attempt was cut.
func spliced() *recovery.View {
	v := newView(recovery.CloseDangling)
	sendData(v, created, strings.Replace(itemAdded, `"sequence_number":2`, `"sequence_number":41`, 1))
	splice(v)
	return v
}

func TestRewrite(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"event", frame(`{"type":"x","sequence_number":3,"output_index":1}`), frame(`{"type":"x","sequence_number":42,"output_index":2}`)},
		{"other order", frame(`{"output_index":1,"response":{"id":"resp_b"},"sequence_number":3,"type":"x"}`), frame(`{"output_index":2,"response":{"id":"resp_a"},"sequence_number":42,"type":"x"}`)},
		{"white space", "data:{ \"type\" : \"x\" ,\t\"output_index\" :\t1 , \"sequence_number\": 3 }\n\n", "data:{ \"type\" : \"x\" ,\t\"output_index\" :\t2 , \"sequence_number\": 42 }\n\n"},
		{
			"lines", "id: 5\r\ndata: {\"type\":\"x\",\r\ndata: \"sequence_number\"\r\n: comment\r\ndata: :\r\ndata:3,\r\nevent: x\r\ndata: \"output_index\":1,\"response\":{\r\ndata: \"id\":\"resp_b\"}}\r\nretry: 1\r\n\r\n",
			"id: 5\r\ndata: {\"type\":\"x\",\r\ndata: \"sequence_number\"\r\n: comment\r\ndata: :\r\ndata:42,\r\nevent: x\r\ndata: \"output_index\":2,\"response\":{\r\ndata: \"id\":\"resp_a\"}}\r\nretry: 1\r\n\r\n",
		},
		{"CR", "event: x\rdata: {\"output_index\":\rdata: 1}\r\r", "event: x\rdata: {\"output_index\":\rdata: 2}\r\r"},
		{"byte order mark", "\ufeffdata: {\"output_index\":1}\n\n", "data: {\"output_index\":2}\n\n"},
		{"byte order mark alone", "\ufeffdata: {}\n\n", "data: {}\n\n"},
		{"byte order mark before a comment", "\ufeff: hi\n\n", ": hi\n\n"},
		{"response", frame(`{"type":"response.completed","response":{"output":[{"id":"resp_b","output_index":1}],"id":"resp_b","metadata":{"id":"resp_b"}}}`), frame(`{"type":"response.completed","response":{"output":[{"id":"resp_b","output_index":1}],"id":"resp_a","metadata":{"id":"resp_b"}}}`)},
		{"id with escapes", frame(`{"response":{"id":"resp\"\\}b"}}`), frame(`{"response":{"id":"resp_a"}}`)},
		{"id null", frame(`{"response":{"id":null}}`), frame(`{"response":{"id":"resp_a"}}`)},
		{"no id", frame(`{"response":{"a":1}}`), frame(`{"response":{"a":1}}`)},
		{"response in a response", frame(`{"response":{"response":{"id":"b"},"id":"b"}}`), frame(`{"response":{"response":{"id":"b"},"id":"resp_a"}}`)},
		{"no response", frame(`{"id":"resp_b","response_id":"resp_b"}`), frame(`{"id":"resp_b","response_id":"resp_b"}`)},
		{"response that is no object", frame(`{"response":["id","resp_b"]}`), frame(`{"response":["id","resp_b"]}`)},
		{"inner values", frame(`{"type":"x","item":{"output_index":1,"sequence_number":3,"response":{"id":"b"}},"part":[{"output_index":1}]}`), frame(`{"type":"x","item":{"output_index":1,"sequence_number":3,"response":{"id":"b"}},"part":[{"output_index":1}]}`)},
		{"quoted", frame(`{"type":"x","delta":"\"output_index\":1,\"sequence_number\":3"}`), frame(`{"type":"x","delta":"\"output_index\":1,\"sequence_number\":3"}`)},
		{"other numbers", frame(`{"type":"x","summary_index":1,"content_index":1.0,"n":-0}`), frame(`{"type":"x","summary_index":1,"content_index":1.0,"n":-0}`)},
		{"the last of two", frame(`{"output_index":1,"output_index":5}`), frame(`{"output_index":1,"output_index":6}`)},
		{"key with escapes", frame(`{"\u006futput_index":1}`), frame(`{"\u006futput_index":2}`)},
		{"negative index", frame(`{"output_index":-1}`), frame(`{"output_index":-1}`)},
		{"index that is no whole number", frame(`{"output_index":1.5}`), frame(`{"output_index":1.5}`)},
		{"huge index", frame(`{"output_index":9223372036854775807}`), frame(`{"output_index":9223372036854775807}`)},
		{"index that not every reader keeps exact", frame(`{"output_index":9007199254740993}`), frame(`{"output_index":9007199254740993}`)},
		{"index of another type", frame(`{"output_index":"1"}`), frame(`{"output_index":"1"}`)},
		{"odd sequence number", frame(`{"sequence_number":-7.5e3}`), frame(`{"sequence_number":42}`)},
		{"huge sequence number", frame(`{"sequence_number":99999999999999999999999}`), frame(`{"sequence_number":42}`)},
		{"no sequence number", frame(`{"sequence_number":null}`), frame(`{"sequence_number":null}`)},
		{"sequence number of another type", frame(`{"sequence_number":{"a":1}}`), frame(`{"sequence_number":{"a":1}}`)},
		{"the number it has anyway", frame(`{"sequence_number":42}`), frame(`{"sequence_number":42}`)},
		{"comment", ": keepalive\n\n", ": keepalive\n\n"},
		{"end mark", "data: [DONE]\n\n", "data: [DONE]\n\n"},
		{"garbage", "data: {\"output_index\":1,\"seq\n\n", "data: {\"output_index\":2,\"seq\n\n"},
		{"a value over two lines", "data: {\"response\":{\"id\":\"b\ndata: c\"}}\n\n", "data: {\"response\":{\"id\":\"resp_a\"}}\n\n"},
		{"no end", "data: {\"output_index\":1}", "data: {\"output_index\":2}"},
		{"empty", "", ""},
	} {
		got, action := spliced().Forward(parse(tc.raw))
		if string(got) != tc.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tc.name, got, tc.want)
		}
		want := recovery.Rewritten
		if strings.TrimPrefix(tc.raw, "\ufeff") == tc.want {
			want = recovery.Forwarded
		}
		if action != want {
			t.Errorf("%s: got %v, want %v", tc.name, action, want)
		}
	}
}

// Before a cut nothing changes, whatever it is.
func TestForwardAsItIs(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	for _, raw := range []string{
		"\ufeff" + frame(created), frame(created), frame(inProgress), frame(itemAdded), ": c\r\n\r\n",
		"data: {\"response\":{\"id\":\"other\"},\r\ndata: \"sequence_number\":1.5}\r\n\r\n", "data: x\n\n", "data: x",
	} {
		if got, action := v.Forward(parse(raw)); string(got) != raw || action != recovery.Forwarded {
			t.Errorf("got %q, %v, want %q as it is", got, action, raw)
		}
	}
}

func TestRewriteShiftsOnTop(t *testing.T) {
	added := func(index int) string {
		return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":"reasoning"}}`, index)
	}
	v := newView(recovery.CloseDangling)
	for n, step := range []struct{ send, want int }{{0, 0}, {1, 1}, {-1, 0}, {0, 2}, {1, 3}, {2, 4}, {-1, 0}, {-1, 0}, {0, 5}, {4, 9}, {-1, 0}, {0, 10}} {
		if step.send < 0 {
			splice(v)
			continue
		}
		if got, want := sendData(v, added(step.send)), frame(added(step.want)); got != want {
			t.Errorf("step %d: got %s, want %s", n, got, want)
		}
	}
}

// The shift is the number of items that the first attempt opened, in the usual
// case: no index of it may come again.
func TestRewriteShift(t *testing.T) {
	done := strings.Replace(itemAdded, ".added", ".done", 1)
	at5 := strings.Replace(itemAdded, `"output_index":0`, `"output_index":5`, 1)
	for _, tc := range []struct {
		name string
		sent []string
		want int
	}{
		{"nothing", nil, 0},
		{"lifecycle", []string{created, inProgress}, 0},
		{"one", []string{created, itemAdded, partAdded, summaryText}, 1},
		{"one that ended", []string{itemAdded, done}, 1},
		{"one, and an event behind its end", []string{itemAdded, done, summaryText}, 1},
		{"two at one index", []string{itemAdded, done, itemAdded}, 2},
		{"deltas alone", []string{summaryText, summaryText}, 1},
		{"an index left out", []string{at5}, 6},
		{"no index", []string{`{"type":"response.output_item.added","item":{"id":"a","type":"reasoning"}}`, `{"type":"response.output_item.added","item":{"id":"b","type":"reasoning"}}`}, 2},
	} {
		v := newView(recovery.CloseTombstone)
		sendData(v, tc.sent...)
		splice(v)
		got := sendData(v, `{"type":"x","output_index":0}`)
		if want := frame(fmt.Sprintf(`{"type":"x","output_index":%d}`, tc.want)); got != want {
			t.Errorf("%s: got %s, want %s", tc.name, got, want)
		}
	}
}

// The client's sequence goes on from the last number sent, whatever the next
// attempt's are.
func TestRewriteNumbersGoOn(t *testing.T) {
	v := spliced()
	for n, send := range []int{0, 100, 101, 7} {
		got := sendData(v, fmt.Sprintf(`{"type":"response.reasoning_text.delta","sequence_number":%d}`, send))
		if want := frame(fmt.Sprintf(`{"type":"response.reasoning_text.delta","sequence_number":%d}`, 42+n)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestRewriteInventsNoNumbers(t *testing.T) {
	v := newView(recovery.CloseTombstone)
	sendData(v, `{"type":"response.created","response":{"id":"resp_a"}}`, `{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`)
	closing := splice(v)
	again := sendData(v, `{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_b","type":"reasoning"}}`)
	if out := closing + again + splice(v); strings.Contains(out, "sequence_number") {
		t.Errorf("got %s, want no sequence numbers", out)
	}
}

// events to rewrite, for the fuzz test to start from.
var rewriteSeeds = []string{
	`{"type":"x","sequence_number":3,"output_index":1,"response":{"id":"b"}}`,
	"{\"response\":{\n\"response\":{\"id\":1},\"id\":\n\"b\"},\"sequence_number\":1e2,\n\"output_index\":0}",
	`{"output_index":1,"output_index":null,"\u006futput_index":2,"response":null}`,
	`{"type":"response.created","response":{"id":"b"}}`, `{"type":"response.reasoning_text.delta","delta":"\ud83d"}`,
	`{"type":"response.completed","response":{"id":{"id":"b"},"output":[{"id":"c"}]},"sequence_number":-1}`,
}

func FuzzRewrite(f *testing.F) {
	for _, data := range rewriteSeeds {
		f.Add(data, "\n", "response.x")
		f.Add(data, "\r\n", "")
		f.Add(data, "\r", "x")
	}
	f.Fuzz(func(t *testing.T, data, end, name string) {
		if strings.ContainsAny(data, "\r") || strings.ContainsAny(name, "\r\n") || end != "\n" && end != "\r\n" && end != "\r" {
			return // other frames than meant
		}
		checkRewrite(t, data, end, name)
	})
}

// checkRewrite sends an event behind a splice, its data cut at line ends. If it
// is JSON, it must come out as the same but for what a splice changes.
func checkRewrite(t *testing.T, data, end, name string) {
	t.Helper()
	ev := parse("event: " + name + end + "data: " + strings.ReplaceAll(data, "\n", end+"data: ") + end + end)
	got, action := spliced().Forward(ev)
	if ev.Class == recovery.ClassCheck || action == recovery.Swallowed || !json.Valid([]byte(data)) {
		return
	}
	frames := split(t, string(got))
	if len(frames) != 1 {
		t.Fatalf("got %d frames %q, want 1", len(frames), frames)
	}
	out := parse(frames[0])
	want := rewritten(value(t, data))
	if g := value(t, out.Data); !reflect.DeepEqual(g, want) {
		t.Errorf("%q: got %v, want %v", data, g, want)
	}
	if string(out.Frame.Event()) != name {
		t.Errorf("got event name %q, want %q", out.Frame.Event(), name)
	}
}

func TestRewriteRandomEvents(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	var object func(depth int) string
	inner := func(depth int) string {
		if depth > 0 && rng.IntN(3) == 0 {
			return object(depth - 1)
		}
		return pick(`0`, `7`, `-1`, `2.5`, `1e2`, `null`, `true`, `"b"`, `"}\",\\"`, `[1,{"id":"c"}]`, `"\ud83d\ude00"`, `123456789012345678901234567890`)
	}
	object = func(depth int) string {
		var b strings.Builder
		space := func() { b.WriteString(pick("", "", " ", "\n", "\t \n\n")) }
		b.WriteString("{")
		for i := range rng.IntN(7) {
			if i > 0 {
				b.WriteString(",")
			}
			space()
			b.WriteString(pick(`"sequence_number"`, `"output_index"`, `"response"`, `"id"`, `"type"`, `"item"`, `"item_id"`, `"delta"`, `"output_\u0069ndex"`))
			space()
			b.WriteString(":")
			space()
			b.WriteString(inner(depth))
			space()
		}
		space()
		return b.String() + "}"
	}
	for range 5000 {
		checkRewrite(t, object(3), pick("\n", "\r\n", "\r"), pick("", "response.x"))
	}
}

// rewritten returns what the client of spliced should get for an event.
func rewritten(event any) any {
	object, ok := event.(map[string]any)
	if !ok {
		return event
	}
	if _, ok := object["sequence_number"].(json.Number); ok {
		object["sequence_number"] = json.Number("42")
	}
	index, _ := object["output_index"].(json.Number)
	if n, err := strconv.ParseUint(index.String(), 10, 64); err == nil && n <= 1<<53 {
		object["output_index"] = json.Number(strconv.FormatUint(n+1, 10))
	}
	if r, ok := object["response"].(map[string]any); ok {
		if _, ok := r["id"]; ok {
			r["id"] = "resp_a"
		}
	}
	return object
}
