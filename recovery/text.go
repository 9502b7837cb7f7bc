package recovery

import (
	"strings"
	"unicode/utf8"
)

// The channels of text, as they stand in labels.
const (
	ChannelThinking = "thinking"
	ChannelResponse = "response"
	ChannelTool     = "tool"
)

// Text returns the piece of the model's text that a delta of a Responses stream
// brings: its channel, and the text as it is written in its JSON, without the
// quotes. Of any other event the channel is "". The text aliases the event.
func (ev *Event) Text() (channel, text string) {
	if ev.Class != ClassOther {
		return "", ""
	}
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		channel = ChannelResponse
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		channel = ChannelTool
	default:
		if !ev.hasReasoningType() || !strings.HasSuffix(ev.Type, ".delta") {
			return "", ""
		}
		channel = ChannelThinking
	}
	if text = inQuotes(ev.members()[memberDelta].of(ev.Data)); text == "" {
		return "", ""
	}
	return channel, text
}

// ForeignText calls visit for each piece of text that an event of another
// dialect brings, as Text returns them: of a Chat Completions stream, of which
// only the first choice counts, and of an Anthropic Messages stream.
func (ev *Event) ForeignText(visit func(channel, text string)) {
	at := ev.members()
	switch {
	case ev.Class != ClassOther:
	case ev.Type == "content_block_delta":
		blockText(at[memberDelta].of(ev.Data), visit)
	case at[memberChoices].present():
		choices := at[memberChoices].of(ev.Data)
		elements(choices, 0, func(value span) {
			choice := value.of(choices)
			if index := member(choice, 0, "index").of(choice); index == "" || index == "0" {
				choiceText(member(choice, 0, "delta").of(choice), visit)
			}
		})
	}
}

// blockText visits the text in the delta of a content block of Anthropic's.
func blockText(delta string, visit func(channel, text string)) {
	members(delta, 0, func(key string, value span) {
		channel := ""
		switch key {
		case "thinking":
			channel = ChannelThinking
		case "text":
			channel = ChannelResponse
		case "partial_json":
			channel = ChannelTool
		}
		if text := inQuotes(value.of(delta)); channel != "" && text != "" {
			visit(channel, text)
		}
	})
}

// choiceText visits the text in the delta of a choice of Chat Completions.
// Servers call the thinking by either of two names, and some by both.
func choiceText(delta string, visit func(channel, text string)) {
	var reasoning, reasoningContent string
	members(delta, 0, func(key string, value span) {
		raw := value.of(delta)
		switch key {
		case "reasoning":
			reasoning = inQuotes(raw)
		case "reasoning_content":
			reasoningContent = inQuotes(raw)
		case "content", "refusal":
			if text := inQuotes(raw); text != "" {
				visit(ChannelResponse, text)
			}
		case "function_call":
			visitArguments(raw, visit)
		case "tool_calls":
			elements(raw, 0, func(call span) {
				c := call.of(raw)
				visitArguments(member(c, 0, "function").of(c), visit)
			})
		}
	})
	if reasoningContent == "" {
		reasoningContent = reasoning
	}
	if reasoningContent != "" {
		visit(ChannelThinking, reasoningContent)
	}
}

func visitArguments(function string, visit func(channel, text string)) {
	if text := inQuotes(member(function, 0, "arguments").of(function)); text != "" {
		visit(ChannelTool, text)
	}
}

// inQuotes returns what stands between the quotes of a JSON string, "" for any
// other value.
func inQuotes(raw string) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return raw[1 : len(raw)-1]
}

// Unescaper takes the escapes out of a text that comes in pieces, each written
// as in JSON: what a pair of escapes stands for may be spread over two of them.
// The zero value is ready for use.
type Unescaper struct {
	high rune // the first half of a surrogate pair whose second one is to come
	buf  [512]byte
}

// Next returns the text that piece begins with, and the rest of piece, which is
// to be given to the next call. The text is valid until then, and as long as
// piece is. What is no escape in JSON stays as it is; half a surrogate pair
// becomes U+FFFD, as it does for encoding/json.
func (u *Unescaper) Next(piece string) (text []byte, rest string) {
	if u.high == 0 && strings.IndexByte(piece, '\\') < 0 {
		return bytesOf(piece), ""
	}
	text = u.buf[:0]
	for piece != "" && len(text) <= len(u.buf)-2*utf8.UTFMax {
		if piece[0] != '\\' {
			if u.high != 0 {
				text = u.giveUp(text)
			}
			run := strings.IndexByte(piece, '\\')
			if run < 0 {
				run = len(piece)
			}
			run = min(run, len(u.buf)-len(text))
			text = append(text, piece[:run]...)
			piece = piece[run:]
			continue
		}
		r, size := unescape(piece)
		piece = piece[size:]
		text = u.add(text, r)
	}
	return text, piece
}

// add appends what an escape stands for, once that is known.
func (u *Unescaper) add(text []byte, r rune) []byte {
	if u.high != 0 {
		if isLow(r) {
			r = 0x10000 + (u.high-0xD800)<<10 + (r - 0xDC00)
			u.high = 0
			return utf8.AppendRune(text, r)
		}
		text = u.giveUp(text)
	}
	if 0xD800 <= r && r < 0xDC00 {
		u.high = r
		return text
	}
	return utf8.AppendRune(text, r) // of the second half of a pair, U+FFFD
}

// giveUp appends what stands for the first half of a pair whose second one did
// not come.
func (u *Unescaper) giveUp(text []byte) []byte {
	u.high = 0
	return utf8.AppendRune(text, utf8.RuneError)
}

func isLow(r rune) bool { return 0xDC00 <= r && r < 0xE000 }

// unescape returns what the escape that s begins with stands for, and its
// length. Of what is no escape it is the backslash.
func unescape(s string) (r rune, size int) {
	if len(s) < 2 {
		return '\\', 1
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		if len(s) < 6 {
			return '\\', 1
		}
		for _, c := range []byte(s[2:6]) {
			digit, ok := hexDigit(c)
			if !ok {
				return '\\', 1
			}
			r = r<<4 + digit
		}
		return r, 6
	}
	return '\\', 1
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c - 'a' + 10), true
	case 'A' <= c && c <= 'F':
		return rune(c - 'A' + 10), true
	}
	return 0, false
}
