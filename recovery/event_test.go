package recovery_test

import (
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

const (
	checkName = "response.doom_loop_check"
	checkData = `{"sequence_number":7,"type":"response.doom_loop_check","doom_loop_check":{"triggers":["tail_repetition:8@thinking"]}}`
)

func TestParseClass(t *testing.T) {
	const (
		none      = recovery.ClassNone
		check     = recovery.ClassCheck
		lifecycle = recovery.ClassLifecycle
		terminal  = recovery.ClassTerminal
		failure   = recovery.ClassError
		done      = recovery.ClassDone
		other     = recovery.ClassOther
	)
	for _, tc := range []struct {
		name, raw string
		class     recovery.Class
		typ       string
	}{
		{"check", "event: " + checkName + "\ndata: " + checkData + "\n\n", check, checkName},
		{"check with garbage", "event: " + checkName + "\ndata: {\"type\":\"response.cre\n\n", check, checkName},
		{"check with another type", "event: " + checkName + "\ndata: {\"type\":\"response.created\"}\n\n", check, checkName},
		{"check without data", "event: " + checkName + "\n\n", check, checkName},
		{"check, name behind the data", "data: {}\nevent:" + checkName + "\n\n", check, checkName},
		{"check, last name wins", "event: message\nevent: " + checkName + "\ndata: {}\n\n", check, checkName},
		{"another last name", "event: " + checkName + "\nevent: ping\ndata: {}\n\n", other, "ping"},
		{"check behind a byte order mark", "\ufeffevent: " + checkName + "\ndata: {}\n\n", check, checkName},
		{"check with CRLF", "event: " + checkName + "\r\ndata: x\r\n\r\n", check, checkName},
		{"check with CR", "event: " + checkName + "\rdata: x\r\r", check, checkName},
		{"unnamed check", "data: " + checkData + "\n\n", check, checkName},
		{"unnamed check in lines", "data: {\"type\":\ndata: \"" + checkName + "\"\ndata: }\n\n", check, checkName},
		{"check named message", "event: message\ndata: " + checkData + "\n\n", check, checkName},
		{"check named by another event", "event: response.created\ndata: " + checkData + "\n\n", check, checkName},
		{"unnamed check that breaks off", "data: " + checkData[:60] + "\n\n", other, checkName},
		{"unnamed check with more behind it", "data: " + checkData + "}\n\n", other, checkName},
		{"unnamed, the name in no object", "data: [\"" + checkName + "\"]\n\n", other, ""},
		{"quoted in a delta", frame(`{"type":"response.output_text.delta","delta":"event: response.doom_loop_check\ndata: {\"type\":\"response.doom_loop_check\"}"}`), other, "response.output_text.delta"},
		{"type in an inner object", frame(`{"type":"x","item":{"type":"response.doom_loop_check"}}`), other, "x"},
		{"longer name", "event: " + checkName + "ed\ndata: 1\n\n", other, checkName + "ed"},
		{"comment that names it", ": " + checkName + "\n\n", none, ""},
		{"created", frame(`{"type":"response.created"}`), lifecycle, "response.created"},
		{"queued", frame(`{"type":"response.queued"}`), lifecycle, "response.queued"},
		{"in progress", frame(`{"type":"response.in_progress"}`), lifecycle, "response.in_progress"},
		{"completed", frame(`{"type":"response.completed"}`), terminal, "response.completed"},
		{"incomplete", frame(`{"type":"response.incomplete"}`), terminal, "response.incomplete"},
		{"failed", frame(`{"type":"response.failed"}`), terminal, "response.failed"},
		{"completed that carries a report", frame(`{"type":"response.completed","response":{"doom_loop_check":{}}}`), terminal, "response.completed"},
		{"error", frame(`{"type":"error"}`), failure, "error"},
		{"error by name alone", "event: error\ndata: it broke\n\n", failure, "error"},
		{"type outranks name", "event: ping\ndata: {\"type\":\"response.created\"}\n\n", lifecycle, "response.created"},
		{"name where there is no type", "event: response.created\ndata: {}\n\n", lifecycle, "response.created"},
		{"name where the type is no text", "event: response.created\ndata: {\"type\":5}\n\n", lifecycle, "response.created"},
		{"data in lines", "data: {\"type\":\ndata: \"response.created\"}\n\n", lifecycle, "response.created"},
		{"type written with escapes", `data: {"type":"response\u002ecreated"}` + "\n\n", lifecycle, "response.created"},
		{"end mark", "data: [DONE]\n\n", done, ""},
		{"end mark with spaces", "data:  [DONE] \n\n", done, ""},
		{"garbage", "data: nonsense\n\n", other, ""},
		{"empty data", "data\n\n", other, ""},
		{"null", "data: null\n\n", other, ""},
		{"blank line", "\n", none, ""},
		{"name alone", "event: response.created\n\n", none, ""},
		{"nothing", "", none, ""},
	} {
		ev := parse(tc.raw)
		if ev.Class != tc.class || ev.Type != tc.typ {
			t.Errorf("%s: got class %d, type %q, want %d, %q", tc.name, ev.Class, ev.Type, tc.class, tc.typ)
		}
	}
}

func TestUsage(t *testing.T) {
	for data, want := range map[string]recovery.Usage{
		`{"type":"response.completed","response":{"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":5}}}}`: {Input: 10, Cached: 4, Output: 7, Reasoning: 5},
		`{"type":"response.completed","response":{"usage":null}}`:                                            {},
		`{"type":"response.completed","response":{"usage":{"input_tokens":-1,"output_tokens":"x"}}}`:         {},
		`{"type":"response.completed","usage":{"input_tokens":1},"response":{"output":[{"usage":{"a":1}}]}}`: {},
		`{"type":"response.completed"}`: {},
	} {
		if got := parse(frame(data)).Usage(); got != want {
			t.Errorf("%s: got %+v, want %+v", data, got, want)
		}
	}
}

func TestIncompleteReason(t *testing.T) {
	for data, want := range map[string]string{
		`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`: "max_output_tokens",
		`{"type":"response.incomplete","response":{"incomplete_details":null}}`:                           "",
		`{"type":"response.incomplete","response":{"incomplete_details":{"reason":5}}}`:                   "",
	} {
		if got := parse(frame(data)).IncompleteReason(); got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
	}
}

func TestFailure(t *testing.T) {
	for _, tc := range []struct{ raw, code, message string }{
		{frame(`{"type":"error","code":"invalid_prompt","message":"No.\nReally.","param":null}`), "invalid_prompt", "No.\nReally."},
		{frame(`{"type":"error","error":{"code":"server_error","message":"m"}}`), "server_error", "m"},
		{frame(`{"type":"error","error":{"type":"overloaded_error","message":"m","code":null}}`), "overloaded_error", "m"},
		{frame(`{"type":"error","error":"text","message":"m"}`), "", "m"},
		{frame(`{"type":"error","code":409,"message":"m"}`), "409", "m"},
		{frame(`{"type":"error","message":"m"}`), "", "m"},
		{"event: error\ndata: it broke\n\n", "", ""},
		{frame(`{"type":"response.failed","response":{"error":{"code":"server_error","message":"m"}}}`), "server_error", "m"},
		{frame(`{"type":"response.failed","code":"x","response":{"error":null}}`), "", ""},
		{frame(`{"type":"response.failed"}`), "", ""},
	} {
		if code, message := parse(tc.raw).Failure(); code != tc.code || message != tc.message {
			t.Errorf("%q: got %q, %q, want %q, %q", tc.raw, code, message, tc.code, tc.message)
		}
	}
}

func TestTextBytes(t *testing.T) {
	for data, want := range map[string]int{
		`{"type":"response.reasoning_text.delta","delta":"abc"}`:                   3,
		`{"type":"response.output_text.delta","delta":"\n"}`:                       2,
		`{"type":"response.output_text.delta","delta":""}`:                         0,
		`{"type":"response.output_text.delta","delta":null}`:                       0,
		`{"type":"response.output_text.done","text":"abc"}`:                        0,
		`{"type":"response.completed","delta":"abc"}`:                              0,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"a"}}`: 0,
	} {
		if got := parse(frame(data)).TextBytes(); got != want {
			t.Errorf("%s: got %d, want %d", data, got, want)
		}
	}
}

// thinkingDelta and textDelta are the bulk of real streams, about 250 bytes each.
const (
	thinkingDelta = "event: response.reasoning_summary_text.delta\ndata: {\"type\":\"response.reasoning_summary_text.delta\",\"sequence_number\":12,\"item_id\":\"rs_0123456789abcdef0123456789abcdef\",\"output_index\":0,\"summary_index\":0,\"delta\":\" and then look at it again\"}\n\n"
	textDelta     = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":12,\"item_id\":\"msg_0123456789abcdef0123456789abcdef\",\"output_index\":1,\"content_index\":0,\"delta\":\" and then\\n \\\"look\\\" at it\",\"logprobs\":[]}\n\n"
)

func TestParseDoesNotAllocate(t *testing.T) {
	var p recovery.Parser
	for _, raw := range []string{thinkingDelta, textDelta, ": keepalive\n\n", "data: [DONE]\n\n"} {
		f := sseframe.Frame{Raw: []byte(raw)}
		if got := testing.AllocsPerRun(100, func() { p.Parse(f) }); got != 0 {
			t.Errorf("%q: got %v allocations, want 0", raw, got)
		}
	}
}
