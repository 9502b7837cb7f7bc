package main

import (
	"fmt"
	"time"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

// costRounds is how often a text is read to measure the time; the fastest round
// counts, for it was disturbed least.
const costRounds = 40

// evalCost measures the time for a byte of prose, in pieces as streams have
// them: a token, a few tokens, and a page.
func evalCost() {
	text := prose(1 << 20)
	pieces := []int{4, 24, 4096}
	fmt.Printf("COST in ns/byte of prose, fastest of %d rounds of %d KiB, in pieces of", costRounds, len(text)>>10)
	for _, piece := range pieces {
		fmt.Printf(" %d", piece)
	}
	fmt.Println(" bytes")
	for _, row := range []struct {
		name  string
		parts detect.Part
	}{
		{"exact", detect.Exact},
		{"counter", detect.Counter},
		{"saturation", detect.Saturation},
		{"all", everyPart},
	} {
		fmt.Printf("%-11s", row.name)
		for _, piece := range pieces {
			fmt.Printf(" %6.2f", cost(row.parts, text, piece))
		}
		fmt.Println()
	}
}

// cost returns nanoseconds per byte.
func cost(parts detect.Part, text []byte, piece int) float64 {
	d := only(detect.Thinking, parts)
	fastest := time.Duration(1<<63 - 1)
	for range costRounds {
		d.Reset()
		start := time.Now()
		for at := 0; at < len(text); at += piece {
			d.Write(text[at:min(at+piece, len(text))])
		}
		fastest = min(fastest, time.Since(start))
	}
	return float64(fastest.Nanoseconds()) / float64(len(text))
}

// prose returns n bytes of thoughts that do not loop.
func prose(n int) (text []byte) {
	for _, shape := range corpus.Legitimate() {
		for seed := uint64(0); shape.Name == "thoughts" && len(text) < n; seed++ {
			text = append(text, shape.Sample(seed).Text...)
		}
	}
	return text[:n]
}
