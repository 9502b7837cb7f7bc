package main

import (
	"fmt"
	"slices"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

// leastRepeated is the least length of a repetition that any part raises a
// signal for, in bytes. What comes more than early bytes sooner behind the onset
// is an early fire; those bytes are for text that ends as the loop does.
const (
	leastRepeated = 768
	early         = 64
)

// tally is what came of a group's shapes.
type tally struct {
	texts, found, early int
	delays              []int
	parts               map[detect.Part]int
}

func (t *tally) percentile(p int) int {
	if len(t.delays) == 0 {
		return 0
	}
	return t.delays[(len(t.delays)-1)*p/100]
}

func (t *tally) String() string {
	slices.Sort(t.delays)
	return fmt.Sprintf("%4d/%-4d %6d %6d %6d %6d  %5d/%d/%d", t.found, t.texts,
		t.percentile(0), t.percentile(50), t.percentile(95), t.percentile(100),
		t.parts[detect.Exact], t.parts[detect.Counter], t.parts[detect.Saturation])
}

// evalLoops finds the loops of the corpus in thinking.
func evalLoops(seeds uint64) {
	fmt.Println("LOOPS in thinking. Delay is the bytes from the first copy's start to the first signal.")
	fmt.Printf("%-12s %9s %6s %6s %6s %6s  %s\n", "group", "found", "min", "median", "p95", "max", "exact/counter/saturation first")
	var all tally
	var order []corpus.Group
	groups, missed := map[corpus.Group]*tally{}, map[string]int{}
	var missedOrder []string
	all.parts = map[detect.Part]int{}
	for _, shape := range corpus.Loops() {
		group := groups[shape.Group]
		if group == nil {
			group = &tally{parts: map[detect.Part]int{}}
			groups[shape.Group] = group
			order = append(order, shape.Group)
		}
		for seed := range seeds {
			sample := shape.Sample(seed)
			signal, ok := first(sample.Text, seed)
			if !ok {
				if missed[shape.Name]++; missed[shape.Name] == 1 {
					missedOrder = append(missedOrder, shape.Name)
				}
			}
			for _, t := range []*tally{group, &all} {
				t.add(sample, signal, ok)
			}
		}
	}
	for _, group := range order {
		fmt.Printf("%-12s %v\n", group, groups[group])
	}
	fmt.Printf("%-12s %v\n", "all", &all)
	fmt.Printf("%d shapes, %.2f %% found, %d early fires\n", len(corpus.Loops()), 100*float64(all.found)/float64(all.texts), all.early)
	for _, name := range missedOrder {
		fmt.Printf("missed: %s, %d of %d\n", name, missed[name], seeds)
	}
	fmt.Println()
}

func (t *tally) add(sample corpus.Sample, signal detect.Signal, ok bool) {
	t.texts++
	if !ok {
		return
	}
	t.found++
	delay := int(signal.Offset) - sample.Onset
	if delay < leastRepeated-early {
		t.early++
	}
	t.delays = append(t.delays, delay)
	t.parts[signal.Part]++
}

// first returns the first signal of a text that comes in pieces.
func first(text []byte, seed uint64) (detect.Signal, bool) {
	d := only(detect.Thinking, everyPart)
	for _, piece := range corpus.Cut(text, seed) {
		if signals := d.Write(piece); len(signals) > 0 {
			return signals[0], true
		}
	}
	return detect.Signal{}, false
}
