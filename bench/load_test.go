package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// However a stream is cut into pieces, it has as many events.
func TestCounter(t *testing.T) {
	const text = "a\n\nb\nc\n\n\n\nd\n\n"
	const want = 4
	for size := 1; size <= len(text); size++ {
		var c counter
		sum := 0
		for piece := range slices.Chunk([]byte(text), size) {
			sum += c.add(piece)
		}
		if c.events != want || sum != want {
			t.Errorf("pieces of %d: got %d events, %d in all, want %d", size, c.events, sum, want)
		}
	}
}

func TestDelays(t *testing.T) {
	sent := time.Unix(1_700_000_000, 0)
	now := sent.Add(3 * time.Millisecond)
	text := strings.Repeat(fmt.Sprintf(`{"delta":"x",%s%d"}`, marker, sent.UnixNano()), 2)
	if got := delays([]byte(text), now); len(got) != 2 || got[0] != 3*time.Millisecond || got[1] != got[0] {
		t.Errorf("got %v, want 3ms twice", got)
	}
	for cut := range len(text) {
		got := delays([]byte(text[:cut]), now)
		if whole := bytes.Count([]byte(text[:cut]), []byte(`"}`)); len(got) < whole || len(got) > whole+1 {
			t.Errorf("cut at %d: got %v, want %d", cut, got, whole)
		}
	}
}
