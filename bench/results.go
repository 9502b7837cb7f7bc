package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"
)

// results are what a run has found, as -json writes it.
type results struct {
	Date      string `json:"date"` // of the run, in UTC
	Processor string `json:"processor"`
	CPUs      int    `json:"cpus"`
	System    string `json:"system"`
	Go        string `json:"go"`
	Procs     int    `json:"procs"` // GOMAXPROCS of a target
	Pinned    bool   `json:"pinned"`
	Rounds    int    `json:"rounds"`
	Each      string `json:"each"`    // duration of one measurement
	Streams   []int  `json:"streams"` // open at a time, where memory is measured

	Skipped map[string]string `json:"skipped,omitempty"` // targets that were not measured, and why
	Notes   map[string]string `json:"notes,omitempty"`   // what else is missing, and why
	TextLen int               `json:"text_bytes_per_delta"`

	Rows   []string                        `json:"rows"`   // in their order
	Values map[string]map[string][]float64 `json:"values"` // of each round, by row and target
}

func newResults(o *options, pinned bool) *results {
	return &results{
		Date: time.Now().UTC().Format(time.DateOnly), Processor: processor(), CPUs: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Procs: o.procs, Pinned: pinned, Rounds: o.rounds, Each: o.each.String(), Streams: o.streams,
		Skipped: map[string]string{}, Notes: map[string]string{}, TextLen: newFrames().textLen,
		Values: map[string]map[string][]float64{},
	}
}

// add takes down a value of a round.
func (r *results) add(row, target string, value float64) {
	if r.Values[row] == nil {
		r.Rows = append(r.Rows, row)
		r.Values[row] = map[string][]float64{}
	}
	r.Values[row][target] = append(r.Values[row][target], value)
}

func (r *results) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	return nil
}

// median returns that of a target's values in a row, and whether there are any.
func (r *results) median(row, target string) (float64, bool) {
	values := r.Values[row][target]
	return median(values), len(values) > 0
}

// compare returns the median of what becomes of a target's value and another's in
// the same round, and whether there is one: what else the machine did was then much
// the same for both.
func (r *results) compare(row, target, otherRow, other string, what func(mine, others float64) float64) (float64, bool) {
	mine, others := r.Values[row][target], r.Values[otherRow][other]
	var all []float64
	for i := range min(len(mine), len(others)) {
		if v := what(mine[i], others[i]); !math.IsNaN(v) && !math.IsInf(v, 0) {
			all = append(all, v)
		}
	}
	return median(all), len(all) > 0
}

func quotient(mine, others float64) float64   { return mine / others }
func difference(mine, others float64) float64 { return mine - others }

// ratio compares with another target.
func (r *results) ratio(row, target, other string) (float64, bool) {
	return r.compare(row, target, row, other, quotient)
}

// median returns that of values, 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}

// percentile sorts the values and returns the least that p percent of them are not
// above (the nearest rank); 0 for none.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := (len(values)*p + 99) / 100
	return values[max(rank, 1)-1]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
