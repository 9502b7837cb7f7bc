package stationarity_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
)

var answer = stationarity.Answer{
	ResponseID: "resp_1", ItemID: "msg_1", Model: "m", CreatedAt: 1_767_225_600, Text: `Ended <"here">.`,
}

func TestAnswerFrames(t *testing.T) {
	var names []string
	var events []gjson.Result
	for i, frame := range answer.Frames() {
		name, data, ok := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
		data, end := strings.CutSuffix(data, "\n\n")
		if !ok || !end || strings.Contains(data, "\n") || strings.Contains(data, `\u003c`) || !json.Valid([]byte(data)) {
			t.Fatalf("frame %d is broken: %q", i, frame)
		}
		ev := gjson.Parse(data)
		if got := ev.Get("type").Str; got != name {
			t.Errorf("frame %d: got type %q, want %q", i, got, name)
		}
		if got := ev.Get("sequence_number"); got.Raw != fmt.Sprint(i) {
			t.Errorf("frame %d: got sequence number %s", i, got.Raw)
		}
		names, events = append(names, strings.TrimPrefix(name, "response.")), append(events, ev)
	}
	want := []string{
		"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
		"output_text.done", "content_part.done", "output_item.done", "completed",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	for i, checks := range []map[string]string{
		{"response.status": "in_progress", "response.id": "resp_1", "response.output": "[]", "response.usage": "", "response.model": "m", "response.created_at": "1767225600"},
		{"response.status": "in_progress", "response.id": "resp_1"},
		{"output_index": "0", "item.id": "msg_1", "item.type": "message", "item.role": "assistant", "item.status": "in_progress", "item.content": "[]"},
		{"item_id": "msg_1", "output_index": "0", "content_index": "0", "part.type": "output_text", "part.text": "", "part.annotations": "[]"},
		{"item_id": "msg_1", "output_index": "0", "content_index": "0", "delta": answer.Text, "logprobs": "[]"},
		{"item_id": "msg_1", "output_index": "0", "content_index": "0", "text": answer.Text, "logprobs": "[]"},
		{"item_id": "msg_1", "part.text": answer.Text},
		{"output_index": "0", "item.id": "msg_1", "item.status": "completed", "item.content.0.text": answer.Text},
		{
			"response.status": "completed", "response.id": "resp_1", "response.output.0.id": "msg_1", "response.output.#": "1",
			"response.output.0.content.0.text": answer.Text, "response.usage.total_tokens": "0", "response.usage.input_tokens_details.cached_tokens": "0",
			"response.error": "", "response.incomplete_details": "",
		},
	} {
		for path, want := range checks {
			if got := events[i].Get(path); !got.Exists() || got.String() != want {
				t.Errorf("%s: %s: got %q, want %q", names[i], path, got.String(), want)
			}
		}
	}
}

func TestAnswerJSON(t *testing.T) {
	frames := answer.Frames()
	_, data, _ := strings.Cut(frames[len(frames)-1], "\ndata: ")
	if got, want := answer.JSON(), gjson.Get(data, "response").Raw; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestStopText(t *testing.T) {
	check := func(c *conversation) string {
		return stationarity.StopText(stationarity.Check(c.String(), stationarity.Config{OnStop: stationarity.OnStopEnd}))
	}
	cycle := begun()
	for range 12 {
		cycle.step(read).step(poll)
	}
	for want, got := range map[string]string{
		"because the same call (bash) was made 12 times in a row":                        check(begun().repeat(12, poll)),
		"because the same call (read_file) was made 9 times in a row":                    check(begun().repeat(9, read)),
		"because the same calls (bash, read_file) were made 13 times in a row":           check(begun().repeat(13, poll, read)),
		"because the same cycle of 2 steps (bash, read_file) was made 12 times in a row": check(cycle),
		"This turn was ended automatically, because the same call was made 12 times":     check(begun().repeat(12, call("é", "{}", ""))),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}
