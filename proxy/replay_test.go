package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
)

// input returns the input items of an upstream request.
func input(t *testing.T, req *simulate.Request) []map[string]any {
	t.Helper()
	var body struct {
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(req.Body, &body); err != nil {
		t.Fatalf("request %d is no JSON: %v", req.Ordinal, err)
	}
	var items []map[string]any
	if err := json.Unmarshal(body.Input, &items); err != nil {
		t.Fatalf("request %d: input %s is no list: %v", req.Ordinal, body.Input, err)
	}
	return items
}

// kinds tells items by what they are: reminder, user, reasoning or another type.
func kinds(items []map[string]any) []string {
	var all []string
	for _, it := range items {
		kind, _ := it["type"].(string)
		if kind == "message" || kind == "" {
			kind = fmt.Sprint(it["role"])
			if strings.Contains(fmt.Sprint(it["content"]), recovery.DefaultReminder) {
				kind = "reminder"
			}
		}
		all = append(all, kind)
	}
	return all
}

// What the second and the third request carry.
func TestReplay(t *testing.T) {
	twoItems := loop()
	twoItems.ReasoningItems = 2
	unsealed := twoItems
	unsealed.NoEncrypted = true
	raw := loop()
	raw.Reasoning = simulate.ReasoningRaw
	noAdded := loop()
	noAdded.NoAdded = true
	atEnd := simulate.Scenario{NoMessage: true, Loop: &simulate.Loop{Deltas: 5, TerminalOnly: true, Triggers: []string{"tail_repetition:8@thinking"}}}
	atEndEmpty := atEnd
	atEndEmpty.EmptyOutput = true
	for _, tc := range []struct {
		name   string
		body   string
		change func(*proxy.Config)
		loops  []simulate.Scenario
		want   []string
		mode   string
	}{
		{"deltas only", streamBody, nil, []simulate.Scenario{loop()}, []string{"user", "reasoning", "reminder"}, "full"},
		{"raw text", streamBody, nil, []simulate.Scenario{raw}, []string{"user", "reasoning", "reminder"}, "full"},
		{"a finished item and deltas", streamBody, nil, []simulate.Scenario{twoItems}, []string{"user", "reasoning", "reasoning", "reminder"}, "full"},
		{"without encrypted content", streamBody, nil, []simulate.Scenario{unsealed}, []string{"user", "reasoning", "reasoning", "reminder"}, "full"},
		{"never announced", streamBody, nil, []simulate.Scenario{noAdded}, []string{"user", "reasoning", "reminder"}, "full"},
		{"two cuts", streamBody, nil, []simulate.Scenario{loop(), loop()}, []string{"user", "reasoning", "reminder", "reasoning", "reminder"}, "full"},
		{"terminal output", streamBody, nil, []simulate.Scenario{atEnd}, []string{"user", "reasoning", "reminder"}, "full"},
		{"terminal output empty", streamBody, nil, []simulate.Scenario{atEndEmpty}, []string{"user", "reasoning", "reminder"}, "full"},
		{"input list", `{"stream":true,"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, nil, []simulate.Scenario{loop()}, []string{"user", "assistant", "reasoning", "reminder"}, "full"},
		{"input absent", `{"stream":true,"prompt":{"id":"p"}}`, nil, []simulate.Scenario{loop()}, []string{"reasoning", "reminder"}, "full"},
		{"previous_response_id", `{"stream":true,"previous_response_id":"resp_0","input":"hi"}`, nil, []simulate.Scenario{loop(), loop()}, []string{"user", "reminder"}, "reminder_only"},
		{"nothing thought yet", streamBody, nil, []simulate.Scenario{{Frames: []string{check("tail_repetition:8@thinking")}}}, []string{"user", "reminder"}, "reminder_only"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.change, append(slices.Clone(tc.loops), simulate.Scenario{Message: "fine"})...)
			raw := r.answer(tc.body, "Idempotency-Key", "k", "Content-MD5", "m", "Digest", "d")
			if err := checkI3(raw, events(t, raw)); err != nil && tc.name != "never announced" {
				t.Errorf("%v in:\n%s", err, raw)
			}
			r.wantRequests(len(tc.loops) + 1)
			last := r.upstream(len(tc.loops))
			items := input(t, last)
			if got := kinds(items); !slices.Equal(got, tc.want) {
				t.Errorf("got input %v, want %v", got, tc.want)
			}
			if got := string(r.upstream(0).Body); got != tc.body {
				t.Errorf("the first request was changed to %s", got)
			}
			if r.upstream(0).Header.Get("Idempotency-Key") != "k" {
				t.Error("the first request lost its Idempotency-Key")
			}
			for _, name := range []string{"Idempotency-Key", "Content-Md5", "Digest"} {
				if last.Header.Get(name) != "" {
					t.Errorf("the amended request kept %s", name)
				}
			}
			for _, it := range items {
				if it["type"] == "reasoning" && strings.Contains(fmt.Sprint(it["encrypted_content"]), recovery.TombstonePrefix) {
					t.Error("a tombstone went upstream")
				}
			}
			r.settled(1)
			r.wantMetric(float64(len(tc.loops)), "doomproxy_replay_total", "mode", tc.mode)
		})
	}
}

func check(labels ...string) string {
	list, _ := json.Marshal(labels)
	return fmt.Sprintf("event: response.doom_loop_check\ndata: {\"sequence_number\":0,\"type\":\"response.doom_loop_check\",\"doom_loop_check\":{\"triggers\":%s}}\n\n", list)
}

// A finished item comes back with its id and its content as the upstream made
// them; of one that was cut the text stands in.
func TestReplayKeepsSealedItems(t *testing.T) {
	a := loop()
	a.ReasoningItems = 2
	r := newRig(t, nil, a, simulate.Scenario{})
	r.sim.Strict = true // refuses content parted from its id
	raw := r.answer(streamBody)
	r.wantRequests(2)
	var sealed map[string]any
	for _, e := range events(t, raw) {
		if e.typ() == "response.output_item.done" {
			sealed, _ = e.data["item"].(map[string]any)
			break
		}
	}
	items := input(t, r.upstream(1))
	if items[1]["id"] != sealed["id"] || items[1]["encrypted_content"] != sealed["encrypted_content"] {
		t.Errorf("got %v back, want %v", items[1], sealed)
	}
	if _, ok := items[2]["id"]; ok || items[2]["encrypted_content"] != nil {
		t.Errorf("got %v, want text alone", items[2])
	}
}

// An item whose content is over the budget is left out whole.
func TestReplayBudget(t *testing.T) {
	sealed := `"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"` + strings.Repeat("e", 9000) + `"}`
	stream := []string{
		frame("response.created", `"response":{"id":"resp_a"}`),
		frame("response.output_item.added", `"output_index":0,"item":{"id":"rs_1","type":"reasoning"}`),
		frame("response.output_item.done", `"output_index":0,%s`, sealed),
		frame("response.output_item.added", `"output_index":1,"item":{"id":"rs_2","type":"reasoning"}`),
		frame("response.reasoning_text.delta", `"item_id":"rs_2","output_index":1,"content_index":0,"delta":"%s"`, strings.Repeat("ä", 6000)),
		check("tail_repetition:8@thinking"),
	}
	for i := range stream {
		stream[i] = strings.Replace(stream[i], `"sequence_number":#`, fmt.Sprintf(`"sequence_number":%d`, i), 1)
	}
	for limit, want := range map[int]string{
		0:  strings.Repeat("ä", 4096) + " […truncated]",
		11: strings.Repeat("ä", 5) + " […truncated]",
		1:  "",
	} {
		r := newRig(t, func(c *proxy.Config) { c.ReasoningBytes = limit }, simulate.Scenario{Frames: stream}, simulate.Scenario{})
		r.answer(streamBody)
		items := input(t, r.upstream(1))
		text := ""
		if len(items) > 2 {
			text = items[1]["content"].([]any)[0].(map[string]any)["text"].(string)
		}
		if text != want || len(items) > 3 {
			t.Errorf("limit %d: got %d bytes of text, want %d, in %v", limit, len(text), len(want), kinds(items))
		}
	}
}

// A report behind a call, or behind an item nobody knows, is late.
func TestSeenItemsAreNotTakenBack(t *testing.T) {
	created := frame("response.created", `"response":{"id":"resp_a"}`)
	done := frame("response.completed", `"response":{"id":"resp_a","output":[]}`)
	for name, seen := range map[string]string{
		"call":                 frame("response.output_item.added", `"output_index":0,"item":{"id":"fc_1","type":"function_call"}`),
		"unknown item":         frame("response.output_item.added", `"output_index":0,"item":{"id":"x_1","type":"hologram"}`),
		"unknown event, index": frame("ping", `"output_index":0`),
		"unknown event, item":  frame("ping", `"item":{}`),
		"text without an item": frame("response.output_text.delta", `"delta":"hi"`),
	} {
		t.Run(name, func(t *testing.T) {
			stream := []string{created, seen, check("tail_repetition:8@thinking"), done}
			for i := range stream {
				stream[i] = strings.Replace(stream[i], `"sequence_number":#`, fmt.Sprintf(`"sequence_number":%d`, i), 1)
			}
			r := newRig(t, nil, simulate.Scenario{Frames: stream})
			if got, want := r.answer(streamBody), stream[0]+stream[1]+stream[3]; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			r.wantRequests(1)
			r.settled(1)
			r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "late")
		})
	}
	for name, seen := range map[string]string{
		"ping":               "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		"rate limits":        "data: {\"type\":\"codex.rate_limits\",\"plan\":\"x\"}\n\n",
		"comment":            ": hi\n\n",
		"nothing understood": "data: what?\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			a := simulate.Scenario{Frames: []string{strings.Replace(created, "#", "0", 1), seen, check("tail_repetition:8@thinking")}}
			r := newRig(t, nil, a, simulate.Scenario{})
			raw := r.answer(streamBody)
			if err := checkI3(raw, events(t, raw)); err != nil {
				t.Errorf("%v in:\n%s", err, raw)
			}
			r.wantRequests(2)
		})
	}
}

// A terminal output that holds a call is not replayed.
func TestReplayVetoed(t *testing.T) {
	a := simulate.Scenario{Frames: []string{
		frame("response.created", `"response":{"id":"resp_a"}`),
		frame("response.reasoning_text.delta", `"output_index":0,"delta":"hm"`),
		frame("response.completed", `"response":{"id":"resp_a","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},{"type":"function_call","name":"f"}],"doom_loop_check":{"triggers":["tail_repetition:8@thinking"]}}`),
	}}
	for i := range a.Frames {
		a.Frames[i] = strings.Replace(a.Frames[i], "#", fmt.Sprint(i), 1)
	}
	r := newRig(t, nil, a, simulate.Scenario{})
	r.answer(streamBody)
	if got, want := kinds(input(t, r.upstream(1))), []string{"user", "reminder"}; !slices.Equal(got, want) {
		t.Errorf("got input %v, want %v", got, want)
	}
	r.settled(1)
	r.wantMetric(1, "doomproxy_replay_total", "mode", "vetoed")
}

// The upstream refuses the replay: less is told, then nothing, then the client
// is told why.
func TestLadder(t *testing.T) {
	refuse := func(status int, message string) simulate.Scenario {
		return simulate.Scenario{Status: status, Body: fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","code":"nope"}}`, message)}
	}
	inBand := simulate.Scenario{Failure: &simulate.Failure{Code: "invalid_prompt", Message: "no"}}
	inBandError := simulate.Scenario{Failure: &simulate.Failure{Code: "context_length_exceeded", Event: simulate.FailureError, After: 2}}
	full, reminder, original := []string{"user", "reasoning", "reminder"}, []string{"user", "reminder"}, []string(nil)
	for _, tc := range []struct {
		name      string
		scenarios []simulate.Scenario
		requests  [][]string // input kinds of the second request and on; nil is the client's body
		code      string     // of response.failed; "" for a recovery
	}{
		{"400 once", []simulate.Scenario{refuse(400, "no")}, [][]string{full, reminder}, ""},
		{"404 once", []simulate.Scenario{refuse(404, "no")}, [][]string{full, reminder}, ""},
		{"413 once", []simulate.Scenario{refuse(413, "no")}, [][]string{full, reminder}, ""},
		{"422 twice", []simulate.Scenario{refuse(422, "no"), refuse(422, "no")}, [][]string{full, reminder, original}, ""},
		{"400 for ever", []simulate.Scenario{refuse(400, "no"), refuse(400, "no"), refuse(400, "no")}, [][]string{full, reminder, original}, "nope"},
		{"response.failed", []simulate.Scenario{inBand}, [][]string{full, reminder}, ""},
		{"error event", []simulate.Scenario{inBandError, inBandError}, [][]string{full, reminder, original}, ""},
		{"error event for ever", []simulate.Scenario{inBandError, inBandError, inBandError}, [][]string{full, reminder, original}, "context_length_exceeded"},
		{"busy", []simulate.Scenario{refuse(409, "no"), refuse(409, "no")}, [][]string{full, full, full}, ""},
		{"busy for ever", slices.Repeat([]simulate.Scenario{refuse(409, "no")}, 9), [][]string{full, full, full}, "nope"},
		{"busy, in band", []simulate.Scenario{{Failure: &simulate.Failure{Code: "conversation_locked"}}}, [][]string{full, full}, ""},
		{"403 is no refusal of the replay", []simulate.Scenario{refuse(403, "no")}, [][]string{full}, "nope"},
		{"500", []simulate.Scenario{{Status: 500, Body: "oops"}}, [][]string{full}, "server_error"},
		{"no stream", []simulate.Scenario{{Header: map[string]string{"Content-Type": "application/json"}}}, [][]string{full}, "server_error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenarios := append([]simulate.Scenario{loop()}, tc.scenarios...)
			r := newRig(t, nil, append(scenarios, simulate.Scenario{Message: "fine"})...)
			raw := r.answer(streamBody)
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil {
				t.Fatalf("%v in:\n%s", err, raw)
			}
			r.wantRequests(1 + len(tc.requests))
			for n, want := range tc.requests {
				if want == nil {
					if got := string(r.upstream(n + 1).Body); got != streamBody {
						t.Errorf("request %d: got %s, want the client's body", n+1, got)
					}
				} else if got := kinds(input(t, r.upstream(n+1))); !slices.Equal(got, want) {
					t.Errorf("request %d: got input %v, want %v", n+1, got, want)
				}
			}
			last := evs[len(evs)-1]
			r.settled(1)
			if tc.code == "" {
				if last.typ() != "response.completed" {
					t.Errorf("got %s at the end, want response.completed", last.typ())
				}
				r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "recovered")
				return
			}
			if got := last.get("response", "error", "code"); last.typ() != "response.failed" || got != tc.code {
				t.Errorf("got %s with code %v at the end, want response.failed with %s", last.typ(), got, tc.code)
			}
			r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "gave_up")
		})
	}
}

// A failure behind some thinking is no refusal of the request: it is passed on.
func TestFailureInMidAttempt(t *testing.T) {
	b := simulate.Scenario{Failure: &simulate.Failure{Code: "invalid_prompt", After: 6}}
	r := newRig(t, nil, loop(), b)
	raw := r.answer(streamBody)
	evs := events(t, raw)
	if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.failed" {
		t.Errorf("got %v, %v, want response.failed at the end", types(evs), err)
	}
	compareSpliced(t, raw, 1, b.Stream(1, r.upstream(1).Body))
	r.wantRequests(2)
	r.settled(1)
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "upstream_error")
}

// A refusal that is about replayed reasoning is remembered; others are not.
func TestRefusalIsRemembered(t *testing.T) {
	for message, want := range map[string][]string{
		"Item 'rs_1' of type 'reasoning' was provided without its required following item.": {"user", "reminder"},
		"The encrypted_content could not be verified.":                                      {"user", "reminder"},
		"Your input is too long.":                                                           {"user", "reasoning", "reminder"},
	} {
		refuse := simulate.Scenario{Status: http.StatusBadRequest, Body: fmt.Sprintf(`{"error":{"message":%q,"code":null}}`, message)}
		r := newRig(t, nil, loop(), refuse, simulate.Scenario{}, loop(), simulate.Scenario{})
		r.answer(streamBody)
		r.answer(streamBody)
		r.wantRequests(5)
		if got := kinds(input(t, r.upstream(4))); !slices.Equal(got, want) {
			t.Errorf("%s: got input %v, want %v", message, got, want)
		}
		r.answer(strings.Replace(streamBody, `"m"`, `"other"`, 1))
	}
}
