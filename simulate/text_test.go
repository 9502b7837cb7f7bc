package simulate

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	for _, text := range []string{
		"", " ", "short", "a sentence of some length, with blanks", strings.Repeat("x", 100),
		strings.Repeat("é", 60), "mixed ünïcödé text 日本語の文章はここに続きます and on", "bad \xff\xfe bytes \xc3",
	} {
		deltas := cut(text)
		if got := strings.Join(deltas, ""); got != text {
			t.Errorf("cut(%q) makes %q", text, got)
		}
		for _, d := range deltas {
			if d == "" || len(d) > 24+utf8.UTFMax || utf8.ValidString(text) && !utf8.ValidString(d) {
				t.Errorf("cut(%q) gives %q", text, d)
			}
		}
	}
	if got, want := cut("one two three four"), []string{"one two three ", "four"}; !slices.Equal(got, want) {
		t.Errorf("cut = %q, want %q", got, want)
	}
}

func TestSentencesVary(t *testing.T) {
	const n = 5000
	seen := map[string]bool{}
	for i := range n {
		seen[sentence(0, 0, i)] = true
	}
	if len(seen) < n-2 { // 2^28 possible ones: hardly any twice
		t.Errorf("%d different sentences of %d", len(seen), n)
	}
}
