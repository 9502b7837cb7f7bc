package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/doomproxy/doomproxy/detect"
)

// stream is the most of a file that is taken for one response.
const stream = 1 << 20

// sum is what came of the texts of a kind.
type sum struct {
	files   int
	bytes   int64
	flagged map[detect.Channel]map[detect.Part]int
}

// evalOrdinary looks for loops in the text of ordinary files. Each different
// file is one stream.
func evalOrdinary(ctx context.Context, dirs []string, most int64, list bool) error {
	if len(dirs) == 0 {
		var err error
		if dirs, err = usualDirs(ctx); err != nil {
			return err
		}
	}
	kinds := map[textKind]*sum{}
	seen, seed := map[uint64]bool{}, maphash.MakeSeed()
	for file := range files(dirs) {
		of := kinds[file.kind]
		if of == nil {
			of = &sum{flagged: map[detect.Channel]map[detect.Part]int{detect.Thinking: {}, detect.Response: {}}}
			kinds[file.kind] = of
		}
		if of.bytes >= most {
			continue
		}
		text := file.text
		hash := maphash.Bytes(seed, text)
		if seen[hash] || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		seen[hash] = true
		of.files++
		of.bytes += int64(len(text))
		for channel, parts := range of.flagged {
			for _, s := range flags(text, channel) {
				parts[s.Part]++
				if list {
					fmt.Printf("%s %s: %s: offset %d, %d × %d = %d\n", channel, s.Part, file.name, s.Offset, s.Copies, s.Period, s.Repeated)
				}
			}
		}
	}
	fmt.Println("ORDINARY TEXT. Flagged files, and in brackets how many per 100 MB.")
	fmt.Printf("%-9s %7s %7s  %-38s  %s\n", "", "files", "MB", "thinking: exact counter saturation", "response: exact counter saturation")
	for _, kind := range textKinds {
		if of := kinds[kind]; of != nil {
			fmt.Printf("%-9s %7d %7.1f  %-38s  %s\n", kind, of.files, float64(of.bytes)/1e6, of.row(detect.Thinking), of.row(detect.Response))
		}
	}
	fmt.Println()
	return nil
}

func (s *sum) row(channel detect.Channel) string {
	var b strings.Builder
	for _, part := range []detect.Part{detect.Exact, detect.Counter, detect.Saturation} {
		n := s.flagged[channel][part]
		fmt.Fprintf(&b, "%4d (%.1f)", n, 1e8*float64(n)/float64(s.bytes))
	}
	return b.String()
}

// flags returns the first signal of each part.
func flags(text []byte, channel detect.Channel) (first []detect.Signal) {
	d := detect.Detector{Channel: channel}
	var had detect.Part
	for _, s := range d.Write(text) {
		if had&s.Part == 0 {
			had |= s.Part
			first = append(first, s)
		}
	}
	return first
}
