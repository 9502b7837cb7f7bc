package recovery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

const marker = " […truncated]"

func TestTruncate(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abc", 4, "abc"},
		{"abc", 2, "ab" + marker},
		{"äöü", 6, "äöü"},
		{"äöü", 5, "äö" + marker},
		{"äöü", 4, "äö" + marker},
		{"äöü", 3, "ä" + marker},
		{"a😀b", 4, "a" + marker},
		{"a😀b", 5, "a😀" + marker},
		{"😀", 3, ""},
		{"😀", 0, ""},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"", 0, ""},
		{"\x80\x80\x80", 2, ""},
	} {
		if got := recovery.Truncate(tc.text, tc.limit); got != tc.want {
			t.Errorf("%q to %d: got %q, want %q", tc.text, tc.limit, got, tc.want)
		}
	}
}

// texts returns the texts of all parts of all items.
func texts(t *testing.T, c *recovery.Capture) []string {
	t.Helper()
	var all []string
	for _, raw := range items(t, c) {
		var it struct{ Summary, Content []struct{ Text string } }
		if err := json.Unmarshal([]byte(raw), &it); err != nil {
			t.Fatal(err)
		}
		for _, p := range append(it.Summary, it.Content...) {
			all = append(all, p.Text)
		}
	}
	return all
}

func summaries(list ...string) string {
	parts := make([]string, len(list))
	for i, text := range list {
		parts[i] = `{"type":"summary_text","text":` + quote(text) + `}`
	}
	return `{"type":"reasoning","summary":[` + strings.Join(parts, ",") + `]}`
}

func TestCaptureBudget(t *testing.T) {
	const n = recovery.DefaultReasoningBytes
	x := func(n int) string { return strings.Repeat("x", n) }
	euros := strings.Repeat("€", n/3+1) // of 3 bytes; n is no multiple of 3
	for _, tc := range []struct {
		name string
		data []string
		want []string
	}{
		{"fits", []string{itemDone(0, summaries(x(n)))}, []string{x(n)}},
		{"one more", []string{itemDone(0, summaries(x(n+1)))}, []string{x(n) + marker}},
		{"inside a character", []string{itemDone(0, summaries(euros))}, []string{euros[:n/3*3] + marker}},
		{"two parts", []string{itemDone(0, summaries(x(n-2), "abc"))}, []string{x(n - 2), "ab" + marker}},
		{"no room for a mark alone", []string{itemDone(0, summaries(x(n), "abc"))}, []string{x(n)}},
		{"no hole", []string{itemDone(0, summaries(x(n-2), "€", "a"))}, []string{x(n - 2)}},
		{"no hole between items", []string{itemDone(0, summaries(x(n-2))), itemDone(1, summaries("€")), itemDone(2, summaries("a"))}, []string{x(n - 2)}},
		{"no hole between deltas", []string{rawDelta(0, "a", 0, x(n-2)), rawDelta(1, "b", 0, "€"), rawDelta(2, "c", 0, "a")}, []string{x(n - 2)}},
		{"in the order of their end", []string{rawDelta(0, "a", 0, "x"), itemDone(1, summaries(x(n-2))), itemDone(0, summaries("abc€"))}, []string{x(n - 2), "ab" + marker}},
		{"two items", []string{itemDone(0, summaries(x(n-1))), itemDone(1, summaries("ab")), itemDone(2, summaries("c"))}, []string{x(n - 1), "a" + marker}},
		{"deltas", []string{rawDelta(0, "a", 0, x(n-1)), rawDelta(0, "a", 0, "€"), rawDelta(0, "a", 0, "b")}, []string{x(n-1) + marker}},
		{"deltas that just fit", []string{rawDelta(0, "a", 0, x(n-3)), rawDelta(0, "a", 0, "€")}, []string{x(n-3) + "€"}},
		{"deltas of two parts", []string{rawDelta(0, "a", 0, x(n-1)), rawDelta(0, "a", 1, "bc")}, []string{x(n - 1), "b" + marker}},
		{"deltas of two items", []string{rawDelta(0, "a", 0, x(n-1)), rawDelta(1, "b", 0, "bc")}, []string{x(n - 1), "b" + marker}},
		{"deltas behind finished ones", []string{rawDelta(1, "b", 0, "bc"), itemDone(0, summaries(x(n-1)))}, []string{x(n - 1), "b" + marker}},
		{"deltas, while another item ends", []string{
			rawDelta(1, "b", 0, x(n)), itemDone(0, summaries(x(5000))), rawDelta(1, "b", 0, "more"),
		}, []string{x(5000), x(n-5000) + marker}},
		{"deltas to the last byte", []string{rawDelta(0, "a", 0, x(n-6)), rawDelta(0, "a", 0, "abc"), rawDelta(0, "a", 0, "def"), rawDelta(0, "a", 0, "")}, []string{x(n-6) + "abcdef"}},
		{"deltas, then a short end", []string{rawDelta(0, "a", 0, x(2*n)), rawDelta(0, "a", 0, "x"), itemDone(0, summaries("short")), rawDelta(1, "b", 0, "more")}, []string{"short", "more"}},
		{"deltas, then the whole", []string{
			rawDelta(0, "a", 0, x(2*n)),
			`{"type":"response.reasoning_text.done","output_index":0,"content_index":0,"text":"` + strings.Repeat("y", n+5) + `"}`,
		}, []string{strings.Repeat("y", n) + marker}},
		{"text of messages has its own", []string{
			itemDone(0, `{"type":"message","content":[{"type":"output_text","text":"`+x(n)+`"}]}`),
			itemDone(1, summaries(x(n+1))),
		}, []string{x(recovery.DefaultTextBytes) + marker, x(n) + marker}},
		{"messages share it", []string{
			itemDone(0, `{"type":"message","content":[{"type":"output_text","text":"`+x(recovery.DefaultTextBytes-3)+`"}]}`),
			itemDone(1, `{"type":"message","content":[{"type":"output_text","text":"ab€"}]}`),
		}, []string{x(recovery.DefaultTextBytes - 3), "ab" + marker}},
	} {
		got := texts(t, capture(tc.data...))
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) {
			t.Errorf("%s: got %d texts %.200q, want %d %.200q", tc.name, len(got), got, len(tc.want), tc.want)
		}
	}
}

func TestCaptureOwnBudget(t *testing.T) {
	c := recovery.Capture{ReasoningBytes: 3, TextBytes: 2}
	absorb(&c, itemDone(0, `{"type":"message","content":[{"text":"abcdef"}]}`), itemDone(1, summaries("abcdef")))
	if got, want := texts(t, &c), []string{"ab" + marker, "abc" + marker}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An item parted from its encrypted content is refused: it goes as a whole.
func TestCaptureEncryptedBudget(t *testing.T) {
	const n = recovery.DefaultReasoningBytes
	item := func(encrypted int, text string) string {
		return fmt.Sprintf(`{"id":"rs_a","type":"reasoning","encrypted_content":"%s","content":[{"text":%q}]}`, strings.Repeat("e", encrypted), text)
	}
	for _, tc := range []struct {
		name  string
		items []string
		want  []int  // lengths of the encrypted contents replayed
		texts string // of them all
	}{
		{"fits", []string{item(n, "")}, []int{n}, ""},
		{"its text has what is left", []string{item(n-2, "abc")}, []int{n - 2}, "ab" + marker},
		{"too large", []string{item(n+1, "abc")}, nil, ""},
		{"too large for what is left", []string{item(n-100, ""), item(101, "abc")}, []int{n - 100}, ""},
		{"behind text", []string{summaries(strings.Repeat("x", n-5)), item(6, "")}, []int{0}, strings.Repeat("x", n-5)},
		{"behind a message", []string{`{"type":"message","content":[{"text":"hi"}]}`, item(n, "")}, []int{0, n}, "hi"},
		{"dropped ones leave their room", []string{item(n+1, strings.Repeat("x", n)), item(n-3, "abc")}, []int{n - 3}, "abc"},
	} {
		var data []string
		for i, it := range tc.items {
			data = append(data, itemDone(i, it))
		}
		c := capture(data...)
		var got []int
		for _, raw := range items(t, c) {
			var it struct {
				Encrypted string `json:"encrypted_content"`
			}
			if err := json.Unmarshal([]byte(raw), &it); err != nil {
				t.Fatal(err)
			}
			got = append(got, len(it.Encrypted))
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: got encrypted contents of %v bytes, want %v", tc.name, got, tc.want)
		}
		if got := strings.Join(texts(t, c), ""); got != tc.texts {
			t.Errorf("%s: got text %.50q, want %.50q", tc.name, got, tc.texts)
		}
	}
}

// Behind a dropped item its deltas must not come back.
func TestCaptureDroppedItemHasNoDeltas(t *testing.T) {
	big := strings.Repeat("e", recovery.DefaultReasoningBytes+1)
	wantItems(t, "dropped", capture(
		summaryDelta(0, "rs_a", 0, "delta"),
		itemDone(0, `{"id":"rs_a","type":"reasoning","encrypted_content":"`+big+`","summary":[]}`),
		summaryDelta(0, "rs_a", 0, "delta"),
	))
}

// Loops are long: once the budget is full each further delta must cost nothing.
func TestCaptureFullCostsNothing(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	again := parse(frame(rawDelta(0, "rs_a", 0, "more\n")))
	for name, data := range map[string]string{
		"deltas":         rawDelta(0, "rs_a", 0, long),
		"finished items": itemDone(1, summaries(long)),
	} {
		c := capture(data)
		if got := testing.AllocsPerRun(1, func() {
			for range 10_000 {
				c.Absorb(again)
			}
		}); got != 0 {
			t.Errorf("%s: got %v allocations, want none", name, got)
		}
		if got := texts(t, c); len(got) != 1 {
			t.Errorf("%s: got %d texts, want 1", name, len(got))
		}
	}
}
