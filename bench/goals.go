package main

import (
	"fmt"
	"slices"
	"strings"
)

// goal is what the project wants of a target.
type goal struct {
	name, target string
	value        func(r *results, target string) (float64, bool)
	least, most  float64 // one of them is 0, and says nothing
	format       string  // of a value; "": a ratio
}

var goals = []goal{
	{name: rowShort, target: nameOff, value: toPeer(rowShort), least: 0.90},
	{name: "CPU per paced frame, 100 streams", target: nameOff, value: toPeer(fmt.Sprintf(rowPacedCPU, 100)), most: 1.00},
	{name: rowBatched, target: nameOff, value: toPeer(rowBatched), least: 0.90},
	{name: "latency p50 above " + namePeer + ", 100 streams", target: nameOff, value: abovePeer(fmt.Sprintf(rowP50, 100)), most: 40, format: "%+.0f µs"},
	{name: "latency p50 above " + namePeer + ", 500 streams", target: nameOff, value: abovePeer(fmt.Sprintf(rowP50, 500)), most: 40, format: "%+.0f µs"},
	{name: fmt.Sprintf(rowMemory, 1000), target: nameOff, value: toPeer(fmt.Sprintf(rowMemory, 1000)), most: 1.3},
	{name: "CPU per paced frame, 100 streams", target: nameOn, value: toPeer(fmt.Sprintf(rowPacedCPU, 100)), most: 1.10},
	{name: fmt.Sprintf(rowMemory, 1000), target: nameOn, value: toPeer(fmt.Sprintf(rowMemory, 1000)), most: 1.6},
	{name: "memory of the detector, each of 1000 streams", target: nameOn, value: detectorMemory, most: 16, format: "%.1f KiB"},
	// Linear costs are that a frame costs the same. Memory that is out of the caches
	// makes it dearer for every target, so what is judged is how much more than peers.
	{name: "CPU per paced frame, 10,000 to 100 streams, to that of " + namePeer, target: nameOff, value: growth, most: 1.10},
	{name: "CPU per paced frame, 10,000 to 100 streams, to that of " + namePeer, target: nameOn, value: growth, most: 1.10},
	{name: rowGapLeast, target: nameOff, value: (*results).gap, most: 5, format: "%.1f ms"},
	{name: rowGapLeast, target: nameOn, value: (*results).gap, most: 5, format: "%.1f ms"},
}

func toPeer(row string) func(*results, string) (float64, bool) {
	return func(r *results, target string) (float64, bool) { return r.ratio(row, target, namePeer) }
}

func abovePeer(row string) func(*results, string) (float64, bool) {
	return func(r *results, target string) (float64, bool) {
		return r.compare(row, target, row, namePeer, difference)
	}
}

func (r *results) gap(target string) (float64, bool) { return r.median(rowGapLeast, target) }

// detectorMemory is what it takes for a stream, in KiB.
func detectorMemory(r *results, target string) (float64, bool) {
	row := fmt.Sprintf(rowMemory, 1000)
	v, ok := r.compare(row, target, row, nameOff, difference)
	return v * 1e6 / 1000 / 1024, ok
}

// many is the greater number of streams. It is 10,000, or what the system allows.
func (r *results) many() int { return slices.Max(r.Streams) }

// growth is how much dearer a frame is if it belongs to one of many streams.
func growth(r *results, target string) (float64, bool) {
	few, many := fmt.Sprintf(rowPacedCPU, 100), fmt.Sprintf(rowPacedCPU, r.many())
	mine, ok := r.compare(many, target, few, target, quotient)
	peers, ok2 := r.compare(many, namePeer, few, namePeer, quotient)
	return quotient(mine, peers), ok && ok2
}

// judged are the rows of the table of goals. What was not measured is in none.
func (r *results) judged() (rows [][]string) {
	for _, g := range goals {
		v, ok := g.value(r, g.target)
		if !ok {
			continue
		}
		format := g.format
		if format == "" {
			format = "%.2f"
		}
		wanted, reached := "≥ "+fmt.Sprintf(format, g.least), v >= g.least
		if g.most > 0 {
			wanted, reached = "≤ "+fmt.Sprintf(format, g.most), v <= g.most
		}
		word := "ok"
		if !reached {
			word = "**MISSED**"
		}
		rows = append(rows, []string{g.name, g.target, wanted, fmt.Sprintf(format, v), word})
	}
	return rows
}

// derived are rows of what is computed from others: latency above that of no proxy,
// memory by stream, what loops take away, and what the detector costs by byte.
func (r *results) derived() (rows [][]string) {
	names := r.targets()
	add := func(name, format string, value func(target string) (float64, bool)) {
		line, some := []string{name}, false
		for _, target := range names {
			v, ok := value(target)
			some = some || ok
			line = append(line, cell(fmt.Sprintf(format, v), ok))
		}
		if some {
			rows = append(rows, line)
		}
	}
	for _, row := range r.Rows {
		if strings.HasPrefix(row, "latency ") {
			add("added "+row, "%.0f", func(target string) (float64, bool) {
				return r.compare(row, target, row, nameDirect, difference)
			})
		}
	}
	few, many := fmt.Sprintf(rowMemory, 1000), fmt.Sprintf(rowMemory, r.many())
	add("RSS KiB for each stream above 1000", "%.1f", func(target string) (float64, bool) {
		v, ok := r.compare(many, target, few, target, difference)
		return v * 1e6 / 1024 / float64(r.many()-1000), ok && r.many() > 1000
	})
	for _, percent := range []int{1, 10} {
		add(fmt.Sprintf(rowLoops+", in ratio to none", percent), "%.2f", func(target string) (float64, bool) {
			return r.compare(fmt.Sprintf(rowLoops, percent), target, fmt.Sprintf(rowLoops, 0), target, quotient)
		})
	}
	for _, row := range []string{rowBatchedCPU, fmt.Sprintf(rowPacedCPU, 100)} {
		add("detector, ns for each byte of text, by "+row, "%.1f", func(target string) (float64, bool) {
			if target != nameOn || r.TextLen == 0 {
				return 0, false
			}
			// Seconds for 1M frames are microseconds for each.
			v, ok := r.compare(row, target, row, nameOff, difference)
			return v * 1000 / float64(r.TextLen), ok
		})
	}
	return rows
}
