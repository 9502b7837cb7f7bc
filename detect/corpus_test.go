package detect_test

import (
	"slices"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

const everyPart = detect.Exact | detect.Counter | detect.Saturation

// only returns a detector of the parts.
func only(channel detect.Channel, parts detect.Part) *detect.Detector {
	return &detect.Detector{Channel: channel, Off: everyPart &^ parts}
}

// watch writes a text in pieces and returns all signals.
func watch(d *detect.Detector, pieces ...[]byte) []detect.Signal {
	var all []detect.Signal
	for _, piece := range pieces {
		all = append(all, d.Write(piece)...)
	}
	return all
}

// seeds is how many texts are made of each shape.
func seeds() uint64 {
	if testing.Short() {
		return 2
	}
	return 20
}

// TestLoops finds the synthetic loops, at least as many of them as the figures
// to reach ask for (869 of 880), and none before it is one.
func TestLoops(t *testing.T) {
	t.Parallel()
	texts, missed := 0, map[string]int{}
	for _, shape := range corpus.Loops() {
		for seed := range seeds() {
			texts++
			sample := shape.Sample(seed)
			signal, ok := first(sample.Text, seed)
			if !ok {
				missed[shape.Name]++
				continue
			}
			delay := int(signal.Offset) - sample.Onset
			if least := leastDelay[signal.Part]; delay < least {
				t.Errorf("%s, seed %d: %s fired %d bytes behind the onset, want %d at least", shape.Name, seed, signal.Part, delay, least)
			}
			if most := mostDelay[shape.Group]; delay > most {
				t.Errorf("%s, seed %d: found by %s after %d bytes, want %d at most", shape.Name, seed, signal.Part, delay, most)
			}
		}
	}
	n := 0
	for _, m := range missed {
		n += m
	}
	if (texts-n)*880 < 869*texts {
		t.Errorf("found %d of %d loops, want 869 of 880 or more; missed %v", texts-n, texts, missed)
	}
}

// leastDelay is how early each part may find a loop, in bytes: less the 64 that
// the text before it may end as the unit does. A word has three bytes or more.
var leastDelay = map[detect.Part]int{
	detect.Exact:      768 - 64,
	detect.Counter:    1536 - 64,
	detect.Saturation: 512*3 - 64,
}

// mostDelay is how late the loops of each group may be found, in bytes.
var mostDelay = map[corpus.Group]int{
	corpus.Phrases:    6 * 160, // the longest sentences have 150 bytes
	corpus.Floods:     1024,
	corpus.Data:       2048,
	corpus.Paragraphs: 2150, // 2.1 KiB
	corpus.Blocks:     3*15000 + 1024,
	corpus.Counters:   8 << 10,
	corpus.Drifts:     24 << 10,
}

// first returns the first signal of a text cut into pieces.
func first(text []byte, seed uint64) (detect.Signal, bool) {
	var d detect.Detector
	for _, piece := range corpus.Cut(text, seed) {
		if signals := d.Write(piece); len(signals) > 0 {
			return signals[0], true
		}
	}
	return detect.Signal{}, false
}

// TestDelay asserts the delays that are given as figures to reach.
func TestDelay(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{
		"two-word-line": 768,
		"two-words":     768,
		"sentence":      768,
		"slashes":       1024,
		"one-letter":    1024,
		"paragraph":     2150, // 2.1 KiB
		"block-2k":      6246, // 6.1 KiB
	} {
		shape := find(t, corpus.Loops(), name)
		for seed := range seeds() {
			sample := shape.Sample(seed)
			signals := watch(only(detect.Thinking, detect.Exact), sample.Text)
			if len(signals) == 0 {
				t.Errorf("%s, seed %d: not found", name, seed)
			} else if delay := int(signals[0].Offset) - sample.Onset; delay > most {
				t.Errorf("%s, seed %d: found after %d bytes, want %d at most", name, seed, delay, most)
			}
		}
	}
}

func find(t *testing.T, shapes []corpus.Shape, name string) corpus.Shape {
	t.Helper()
	i := slices.IndexFunc(shapes, func(s corpus.Shape) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no shape %q", name)
	}
	return shapes[i]
}

// TestNotLoops raises nothing, of any part, for legitimate texts, whatever
// channel they come in, nor for thoughts that recover.
func TestNotLoops(t *testing.T) {
	t.Parallel()
	for _, channel := range []detect.Channel{detect.Thinking, detect.Tool} {
		for _, shape := range slices.Concat(corpus.Legitimate(), corpus.Recovering()) {
			for seed := range seeds() {
				d := detect.Detector{Channel: channel}
				if signals := d.Write(shape.Sample(seed).Text); len(signals) > 0 {
					t.Errorf("%s, seed %d, as %s: got %+v", shape.Name, seed, channel, signals[0])
				}
			}
		}
	}
}

// TestNearMisses tells repetitions at a threshold from those just below it.
func TestNearMisses(t *testing.T) {
	t.Parallel()
	for part, pairs := range map[detect.Part][]corpus.NearMiss{
		detect.Exact:      corpus.ExactMisses(),
		detect.Counter:    corpus.CounterMisses(),
		detect.Saturation: corpus.SaturationMisses(),
	} {
		for _, near := range pairs {
			channels := []detect.Channel{detect.Thinking}
			if near.Written {
				channels = []detect.Channel{detect.Response, detect.Tool}
			}
			for _, channel := range channels {
				if signals := watch(only(channel, part), near.Miss); len(signals) > 0 {
					t.Errorf("%s, %s in %s: got %+v too early", part, near.Name, channel, signals[0])
				}
				signals := watch(only(channel, part), near.Hit)
				if len(signals) == 0 {
					t.Errorf("%s, %s in %s: not found", part, near.Name, channel)
				} else if part != detect.Saturation && signals[0].Offset != int64(len(near.Hit)) {
					t.Errorf("%s, %s in %s: found at %d, want the end, %d", part, near.Name, channel, signals[0].Offset, len(near.Hit))
				}
			}
		}
	}
}
