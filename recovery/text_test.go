package recovery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/doomproxy/doomproxy/recovery"
)

// Which events bring text, and on which channel.
func TestText(t *testing.T) {
	for _, tc := range []struct{ data, want string }{
		{`{"type":"response.reasoning_text.delta","delta":"a"}`, "thinking:a"},
		{`{"type":"response.reasoning_summary_text.delta","delta":"a\nb"}`, `thinking:a\nb`},
		{`{"type":"response.reasoning.delta","delta":"a"}`, "thinking:a"},
		{`{"type":"response.output_text.delta","delta":"a"}`, "response:a"},
		{`{"type":"response.refusal.delta","delta":"a"}`, "response:a"},
		{`{"type":"response.function_call_arguments.delta","delta":"{\"a"}`, `tool:{\"a`},
		{`{"type":"response.custom_tool_call_input.delta","delta":"a"}`, "tool:a"},
		{`{"type":"response.reasoning_text.done","text":"a","delta":"a"}`, ""},
		{`{"type":"response.output_text.delta","delta":""}`, ""},
		{`{"type":"response.output_text.delta","delta":{"a":"b"}}`, ""},
		{`{"type":"response.output_text.delta","delta":null}`, ""},
		{`{"type":"response.output_text.delta"}`, ""},
		{`{"type":"response.output_text.delta","delta":"a`, ""},
		{`{"type":"response.completed","delta":"a"}`, ""},
		{`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`, ""},
	} {
		got, text := parse("data: " + tc.data + "\n\n").Text()
		if text != "" {
			got += ":" + text
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.data, got, tc.want)
		}
	}
}

// The same of the two other dialects.
func TestForeignText(t *testing.T) {
	for _, tc := range []struct{ data, want string }{
		{`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}`, "thinking:a "},
		{`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`, "response:a "},
		{`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}`, `tool:{\"a `},
		{`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"a"}}`, ""},
		{`{"type":"message_delta","delta":{"text":"a"}}`, ""},
		{`{"choices":[{"index":0,"delta":{"reasoning_content":"a"}}]}`, "thinking:a "},
		{`{"choices":[{"index":0,"delta":{"reasoning":"a"}}]}`, "thinking:a "},
		{`{"choices":[{"index":0,"delta":{"reasoning":"a","reasoning_content":"a"}}]}`, "thinking:a "},
		{`{"choices":[{"index":0,"delta":{"reasoning":"a","reasoning_content":null,"content":""}}]}`, "thinking:a "},
		{`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`, "response:a "},
		{`{"choices":[{"delta":{"refusal":"a"}}]}`, "response:a "},
		{`{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}`, "response:a "},
		{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}},{"index":1,"function":{"name":"f","arguments":"b"}}]}}]}`, "tool:a tool:b "},
		{`{"choices":[{"index":0,"delta":{"function_call":{"arguments":"a"}}}]}`, "tool:a "},
		{`{"choices":[],"usage":{}}`, ""},
		{`{"choices":{"delta":{"content":"a"}}}`, ""},
		{`{"choices":[{"index":0,"delta":{"content":["a"],"tool_calls":[3,{"function":null}]}}]}`, ""},
		{`{"choices":[{"index":0,"delta":{"content":"a`, ""},
		{`[DONE]`, ""},
		{`{"type":"response.output_text.delta","delta":"a"}`, ""},
	} {
		got := ""
		parse("data: " + tc.data + "\n\n").ForeignText(func(channel, text string) { got += channel + ":" + text + " " })
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.data, got, tc.want)
		}
	}
}

// unescaped puts together what an Unescaper makes of pieces.
func unescaped(pieces ...string) string {
	var u recovery.Unescaper
	var b strings.Builder
	for _, piece := range pieces {
		for piece != "" {
			var text []byte
			text, piece = u.Next(piece)
			b.Write(text)
		}
	}
	return b.String()
}

func TestUnescaper(t *testing.T) {
	for _, tc := range []struct {
		pieces []string
		want   string
	}{
		{[]string{`plain`, ` text`}, "plain text"},
		{[]string{`a\nb\tc\"d\\e\/f\b\f\r`}, "a\nb\tc\"d\\e/f\b\f\r"},
		{[]string{`\u0041\u00e9\u20AC`}, "A\u00e9\u20ac"},
		{[]string{`\ud83d\ude00`}, "\U0001F600"},
		{[]string{`x\ud83d`, `\ude00y`}, "x\U0001F600y"},
		{[]string{`x\ud83d`, ``, `\uDE00`}, "x\U0001F600"},
		{[]string{`\ud83d`, `y`}, "\ufffdy"},
		{[]string{`\ud83d\ud83d\ude00`}, "\ufffd\U0001F600"},
		{[]string{`\ud83d\n`}, "\ufffd\n"},
		{[]string{`\ude00`}, "\ufffd"},
		{[]string{`\x\u12g4\u`}, `\x\u12g4\u`},
		{[]string{"\xf0\x9f", "\x98\x80"}, "\U0001F600"},
		{[]string{strings.Repeat(`\n`, 2000)}, strings.Repeat("\n", 2000)},
		{[]string{`\n` + strings.Repeat("x", 2000) + `\n`}, "\n" + strings.Repeat("x", 2000) + "\n"},
	} {
		if got := unescaped(tc.pieces...); got != tc.want {
			t.Errorf("%.60q: got %.60q, want %.60q", tc.pieces, got, tc.want)
		}
	}
}

func TestTextAllocatesNothing(t *testing.T) {
	frames := map[string]*recovery.Event{
		"responses": parse(`data: {"type":"response.reasoning_text.delta","delta":"a \ud83d\ude00 b \n"}` + "\n\n"),
		"chat":      parse(`data: {"choices":[{"index":0,"delta":{"reasoning_content":"a \n","tool_calls":[{"function":{"arguments":"b"}}]}}]}` + "\n\n"),
		"messages":  parse(`data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a \n"}}` + "\n\n"),
	}
	for name, ev := range frames {
		var u recovery.Unescaper
		size := 0
		read := func(text string) {
			for text != "" {
				var piece []byte
				piece, text = u.Next(text)
				size += len(piece)
			}
		}
		if n := testing.AllocsPerRun(100, func() {
			_, text := ev.Text()
			read(text)
			ev.ForeignText(func(_, text string) { read(text) })
		}); n != 0 || size == 0 {
			t.Errorf("%s: got %v allocations for %d bytes, want none", name, n, size)
		}
	}
}

// Whatever the text and wherever it is cut, it comes out as encoding/json has it.
func FuzzUnescaper(f *testing.F) {
	f.Add(`a\nb\ud83d\ude00c\u00e9`, 3, 9)
	f.Add(`\ud83d\ud83d\\\"`, 6, 12)
	f.Fuzz(func(t *testing.T, text string, a, b int) {
		var want string
		if !utf8.ValidString(text) || json.Unmarshal([]byte(`"`+text+`"`), &want) != nil {
			t.Skip("no JSON string, or one that encoding/json repairs")
		}
		a, b = cut(text, a), cut(text, b)
		if a > b {
			a, b = b, a
		}
		got := unescaped(text[:a], text[a:b], text[b:])
		// What a half pair at the end stands for is not known yet.
		if got != want && got+"\ufffd" != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// cut returns a place near i at which no escape is torn.
func cut(text string, i int) int {
	i = min(max(i, 0), len(text))
	at := 0
	for at < i {
		switch {
		case text[at] != '\\':
			at++
		case strings.HasPrefix(text[at:], `\u`):
			at += 6
		default:
			at += 2
		}
	}
	return at
}

func ExampleUnescaper() {
	var u recovery.Unescaper
	for _, delta := range []string{`fine \ud83d`, `\ude00\n`} {
		for delta != "" {
			var text []byte
			text, delta = u.Next(delta)
			fmt.Printf("%q ", text)
		}
	}
	// Output: "fine " "😀\n"
}
