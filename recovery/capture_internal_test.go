package recovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/sseframe"
)

// What is kept is bounded, however much an upstream sends and however it is cut
// into items and parts.
func TestCaptureKeepsLittle(t *testing.T) {
	const (
		many = maxOpen + 50
		n    = DefaultReasoningBytes
	)
	long := strings.Repeat("x", n+100)
	done := func(i int, item string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item)
	}
	for _, tc := range []struct {
		name  string
		event func(i int) string
		limit int
	}{
		{"finished reasoning", func(i int) string {
			return done(i, `{"type":"reasoning","summary":[{"text":"`+long+`"}],"content":[{"text":"`+long+`"}]}`)
		}, n + 1},
		{"finished reasoning, encrypted", func(i int) string {
			return done(i, `{"type":"reasoning","encrypted_content":"`+long[:n-100]+`","content":[{"text":"`+long+`"}]}`)
		}, n + 1},
		{"finished messages", func(i int) string {
			return done(i, `{"type":"message","content":[{"text":"`+long+`"}]}`)
		}, DefaultTextBytes + 1},
		{"deltas", func(int) string {
			return `{"type":"response.reasoning_text.delta","output_index":0,"delta":"` + long + `"}`
		}, n + 1},
		{"deltas behind a full budget", func(i int) string {
			if i == 0 {
				return done(i, `{"type":"reasoning","summary":[{"text":"`+long+`"}]}`)
			}
			return fmt.Sprintf(`{"type":"response.reasoning_text.delta","output_index":%d,"delta":"x"}`, i)
		}, n + 1},
		{"deltas of many parts", func(i int) string {
			return fmt.Sprintf(`{"type":"response.reasoning_text.delta","output_index":0,"content_index":%d,"delta":"x"}`, i)
		}, maxOpen},
		{"deltas of many items", func(i int) string {
			return fmt.Sprintf(`{"type":"response.reasoning_text.delta","output_index":%d,"delta":"x"}`, i)
		}, maxOpen},
	} {
		var c Capture
		var p Parser
		for i := range many {
			ev := p.Parse(sseframe.Frame{Raw: []byte("data: " + tc.event(i) + "\n\n")})
			c.Absorb(ev)
		}
		kept := 0
		for _, it := range c.items {
			kept += len(it.encrypted) + length(it.raw) + length(it.summary)
		}
		if kept > tc.limit+2 { // and the quotes of encrypted content
			t.Errorf("%s: got %d bytes kept, want at most %d", tc.name, kept, tc.limit)
		}
		if got := len(c.items); got > maxOpen {
			t.Errorf("%s: got %d items kept, want at most %d", tc.name, got, maxOpen)
		}
	}
}
