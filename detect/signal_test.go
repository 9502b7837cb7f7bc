package detect_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal      detect.Signal
		tail, exact string
	}{
		{
			detect.Signal{Part: detect.Exact, Threshold: 16, Tokens: 64, Copies: 12},
			"tail_repetition:16@thinking", "exact_repetition:64x12@thinking",
		},
		{
			detect.Signal{Part: detect.Exact, Channel: detect.Response, Threshold: 2, Tokens: 63, Copies: 200},
			"tail_repetition:2@response", "",
		},
		{
			detect.Signal{Part: detect.Counter, Channel: detect.Tool, Threshold: 32, Tokens: 900, Copies: 16},
			"tail_repetition:32@tool", "",
		},
		{
			detect.Signal{Part: detect.Saturation, Threshold: 32, Copies: 5},
			"tail_repetition:32@thinking", "",
		},
	} {
		if got := test.signal.TailLabel(); got != test.tail {
			t.Errorf("TailLabel of %+v: got %q, want %q", test.signal, got, test.tail)
		}
		if got := test.signal.ExactLabel(); got != test.exact {
			t.Errorf("ExactLabel of %+v: got %q, want %q", test.signal, got, test.exact)
		}
	}
}

// The threshold is the power of two at or above 128/copies.
func TestTightness(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ copies, lowest, want int }{
		{1, 2, 64},
		{2, 2, 64},
		{3, 2, 64},
		{4, 2, 32},
		{5, 2, 32},
		{7, 2, 32},
		{8, 2, 16},
		{12, 2, 16},
		{16, 2, 8},
		{31, 2, 8},
		{32, 2, 4},
		{63, 2, 4},
		{64, 2, 2},
		{1 << 20, 2, 2},
		{3, 32, 64},
		{4, 32, 32},
		{5000, 32, 32},
	} {
		if got := detect.Tightness(test.copies, test.lowest); got != test.want {
			t.Errorf("tightness(%d, %d): got %d, want %d", test.copies, test.lowest, got, test.want)
		}
	}
}

// A loop is signalled again each time its copies have doubled, until its
// threshold can go no lower and beyond.
func TestDoubling(t *testing.T) {
	t.Parallel()
	unit := strings.Repeat("Let me look at the file again. ", 10) // of period 31
	text := "Something else.\n" + strings.Repeat(unit, 20)
	var got []string
	for _, s := range watch(only(detect.Thinking, detect.Exact), []byte(text)) {
		got = append(got, s.TailLabel())
		if s.Period != 31 || s.Repeated != int64(s.Copies*31) && s.Copies != 24 || s.Start() != 16 {
			t.Errorf("got %+v starting at %d, want period 31 from 16 on", s, s.Start())
		}
	}
	want := []string{
		"tail_repetition:8@thinking", // 768 bytes are 24 copies
		"tail_repetition:4@thinking",
		"tail_repetition:2@thinking",
		"tail_repetition:2@thinking",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExactLabels(t *testing.T) {
	t.Parallel()
	unit := strings.Repeat("é", 20) + " is a letter that counts as one token, but four of these are one: " + // 20 + 67/4
		strings.Repeat("no more than that ", 12) // 216/4
	text := "Something else.\n" + strings.Repeat(strings.TrimSpace(unit)+"\n", 12)
	var got []string
	for _, s := range watch(only(detect.Thinking, detect.Exact), []byte(text)) {
		got = append(got, s.TailLabel(), s.ExactLabel())
	}
	want := []string{
		"tail_repetition:32@thinking", "exact_repetition:90x6@thinking",
		"tail_repetition:16@thinking", "exact_repetition:90x12@thinking",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
