package detect_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

// FuzzWrite cuts a text with a loop in it anywhere: that changes no signal. And
// each signal of Exact is true of the text.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("So: "), []byte("again "), uint16(300), uint8(0), uint64(1))
	f.Add([]byte(""), []byte("\xE2\x80\x94 né\xCC\x81e 1234 "), uint16(900), uint8(1), uint64(2))
	f.Add([]byte("```\n"), []byte("0x00, "), uint16(4000), uint8(2), uint64(3))
	f.Add([]byte("a"), []byte("a"), uint16(9000), uint8(1), uint64(4))
	f.Add([]byte(""), []byte("\x00"), uint16(9000), uint8(0), uint64(6))
	f.Add([]byte("\xFF\xFE"), []byte("I will, 1.\n\n"), uint16(200), uint8(0), uint64(5))
	f.Fuzz(func(t *testing.T, before, unit []byte, copies uint16, channel uint8, seed uint64) {
		if len(unit) > 2000 || len(before) > 20000 {
			t.Skip("longer than it takes")
		}
		text := slices.Concat(before, bytes.Repeat(unit, min(int(copies), 40000/(len(unit)+1))), before, unit)
		check(t, text, detect.Channel(channel%3), seed)
	})
}

// check compares a text written at once with the same text cut anywhere, and
// tells whether what is said of it holds.
func check(t *testing.T, text []byte, channel detect.Channel, seed uint64) {
	t.Helper()
	whole := watch(&detect.Detector{Channel: channel}, text)
	cut := watch(&detect.Detector{Channel: channel}, corpus.Cut(text, seed)...)
	if !slices.Equal(whole, cut) {
		t.Errorf("cut with seed %d: got %+v\nwant as at once: %+v", seed, cut, whole)
	}
	var last int64
	for _, s := range whole {
		if s.Channel != channel || s.Offset < last || s.Offset > int64(len(text)) || s.Start() < 0 ||
			s.Threshold < 2 || s.Threshold > 64 || s.Part != detect.Exact && s.Threshold < 32 {
			t.Errorf("got %+v behind %d, in %d bytes", s, last, len(text))
		}
		last = s.Offset
		if s.Part != detect.Exact {
			continue
		}
		repeated := text[s.Start():s.Offset]
		if got := period(repeated); got != s.Period || s.Copies != len(repeated)/got || len(repeated) < 768 {
			t.Errorf("got %+v, but the text has a period of %d there", s, got)
		}
	}
}

// period returns the least period of a text, by the failure function of Knuth,
// Morris and Pratt.
func period(text []byte) int {
	border := make([]int, len(text)+1)
	border[0] = -1
	for i, b := range text {
		j := border[i]
		for j >= 0 && text[j] != b {
			j = border[j]
		}
		border[i+1] = j + 1
	}
	return len(text) - border[len(text)]
}

// TestTrue checks signals on texts that have many short repetitions: few
// different bytes, in runs.
func TestTrue(t *testing.T) {
	t.Parallel()
	for seed := range 10 * seeds() {
		r := rand.New(rand.NewPCG(seed, 6))
		var parts []string
		for range 4 {
			parts = append(parts, strings.Repeat(string(rune('a'+r.IntN(3))), 1+r.IntN(30)), strings.Repeat("ab ", r.IntN(9)), strings.Repeat(" ", r.IntN(90)))
		}
		var text []byte
		for len(text) < 30000 {
			unit := ""
			for range 1 + r.IntN(4) {
				unit += parts[r.IntN(len(parts))]
			}
			text = append(text, strings.Repeat(unit, 1+r.IntN(1+2000/(len(unit)+1)))...)
		}
		check(t, text, detect.Channel(seed%2), seed) // #nosec G115 -- 0 or 1
	}
}
