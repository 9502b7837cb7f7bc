package main

import (
	"fmt"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

// evalLegitimate looks for loops in texts that hold none.
func evalLegitimate(seeds uint64) {
	legitimate, recovering := corpus.Legitimate(), corpus.Recovering()
	fmt.Printf("NOT LOOPS: %d legitimate shapes, %d that recover\n", len(legitimate), len(recovering))
	for _, channel := range []detect.Channel{detect.Thinking, detect.Response} {
		fmt.Printf("%-12s", channel)
		for _, part := range []detect.Part{detect.Exact, detect.Counter, detect.Saturation} {
			n := flagged(append(legitimate, recovering...), seeds, channel, part)
			fmt.Printf(" %s flags %d", part, n)
		}
		fmt.Println()
	}
	for _, m := range []struct {
		part  detect.Part
		pairs []corpus.NearMiss
	}{
		{detect.Exact, corpus.ExactMisses()},
		{detect.Counter, corpus.CounterMisses()},
		{detect.Saturation, corpus.SaturationMisses()},
	} {
		wrong := 0
		for _, near := range m.pairs {
			if finds(near.Miss, channelOf(near), m.part) || !finds(near.Hit, channelOf(near), m.part) {
				wrong++
			}
		}
		fmt.Printf("near misses of %s: %d of %d pairs told apart\n", m.part, len(m.pairs)-wrong, len(m.pairs))
	}
	fmt.Println()
}

func channelOf(near corpus.NearMiss) detect.Channel {
	if near.Written {
		return detect.Response
	}
	return detect.Thinking
}

// flagged returns how many texts a part raises a signal for.
func flagged(shapes []corpus.Shape, seeds uint64, channel detect.Channel, part detect.Part) (n int) {
	for _, shape := range shapes {
		for seed := range seeds {
			if finds(shape.Sample(seed).Text, channel, part) {
				n++
			}
		}
	}
	return n
}

func finds(text []byte, channel detect.Channel, part detect.Part) bool {
	d := only(channel, part)
	return len(d.Write(text)) > 0
}
