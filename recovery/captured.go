package recovery

import (
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// truncated marks text that was cut off. It is not counted against a budget.
const truncated = " […truncated]"

// Items returns the attempt's items as input items of a further request:
// finished ones in their order, then what the deltas tell of the others. ok is
// false if the attempt held something that must not be replayed, a call for
// one; then nothing of it may be.
func (c *Capture) Items() (items []string, ok bool) {
	if c.veto {
		return nil, false
	}
	reasoning, text := c.reasoningBytes(), c.textBytes()
	for _, finished := range []bool{true, false} {
		for i := range c.items {
			it := &c.items[i]
			if it.finished != finished {
				continue
			}
			raw := ""
			switch it.typ {
			case "reasoning":
				raw = it.reasoning(&reasoning)
			case "message":
				raw = it.message(&text)
			}
			if raw != "" {
				items = append(items, raw)
			}
		}
	}
	return items, true
}

// reasoning returns a reasoning item as JSON, or "" if nothing of it is left
// within budget, which it reduces.
func (it *capturedItem) reasoning(budget *int) string {
	b := []byte(`{"type":"reasoning"`)
	if it.finished && it.id != "" {
		b = append(append(b, `,"id":`...), it.id...)
	}
	if it.encrypted != "" {
		*budget -= len(unquote(it.encrypted))
		b = append(append(b, `,"encrypted_content":`...), it.encrypted...)
	}
	partType, parts := "summary_text", it.text()
	if length(it.raw) > 0 {
		partType = "reasoning_text"
	}
	list, n := appendParts(nil, partType, parts, budget)
	if n == 0 && it.encrypted == "" {
		return ""
	}
	if partType == "reasoning_text" {
		return string(b) + `,"summary":[],"content":[` + string(list) + `]}`
	}
	return string(b) + `,"summary":[` + string(list) + `]}`
}

// message returns an assistant message as JSON, or "".
func (it *capturedItem) message(budget *int) string {
	b := []byte(`{"type":"message","role":"assistant"`)
	if it.id != "" {
		b = append(append(b, `,"id":`...), it.id...)
	}
	list, n := appendParts(nil, "output_text", it.raw, budget)
	if n == 0 {
		return ""
	}
	return string(b) + `,"content":[` + string(list) + `]}`
}

// appendParts appends the parts as JSON objects, as far as budget goes, which
// it reduces, and returns how many it appended.
func appendParts(b []byte, partType string, parts []capturedPart, budget *int) (_ []byte, n int) {
	for _, p := range parts {
		text := Truncate(string(p.text), *budget)
		*budget -= min(*budget, len(p.text))
		if text == "" {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"type":"`...), partType...), `","text":`...)
		b = append(gjson.AppendJSONString(b, text), '}')
	}
	return b, n
}

// Truncate returns the first bytes of text, at most limit and no part of a
// character, and a mark if text is longer. The mark never stands alone.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	if limit <= 0 {
		return ""
	}
	return text[:limit] + truncated
}
