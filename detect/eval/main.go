// Command eval measures the loop detector: what it finds of synthetic loops and
// how late, what it takes for a loop in legitimate and in ordinary text, and
// what it costs. `make detect-eval` runs it; docs/detector.md explains what it
// prints and has a run of it.
//
//	go run ./detect/eval [-seeds 20] [-mb 200] [-list] [directory …]
//
// Ordinary text is read from the directories given, or from Go's source and
// module cache, the system's documentation and its licences.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/doomproxy/doomproxy/detect"
)

const everyPart = detect.Exact | detect.Counter | detect.Saturation

// only returns a detector that has one part, or several joined with |.
func only(channel detect.Channel, parts detect.Part) detect.Detector {
	return detect.Detector{Channel: channel, Off: everyPart &^ parts}
}

func main() {
	seeds := flag.Int("seeds", 20, "texts made of each shape")
	megabytes := flag.Int64("mb", 200, "most ordinary text read of each kind, in MB")
	list := flag.Bool("list", false, "name the ordinary files that are flagged")
	flag.Parse()
	if err := run(context.Background(), uint64(max(1, *seeds)), *megabytes*1e6, *list, flag.Args()); err != nil { // #nosec G115 -- positive
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seeds uint64, most int64, list bool, dirs []string) error {
	evalLoops(seeds)
	evalLegitimate(seeds)
	if err := evalOrdinary(ctx, dirs, most, list); err != nil {
		return err
	}
	evalCost()
	return nil
}
