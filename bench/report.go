package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// goal is a target of the project, as a ratio to httputil.ReverseProxy in the same
// run, or as a difference to it.
type goal struct {
	target, measure string
	most            float64 // 0: least counts
	least           float64
	difference      bool
}

var goals = []goal{
	{target: nameOff, measure: "short requests/s", least: 0.90},
	{target: nameOff, measure: "CPU s per 1M paced frames, 100 streams", most: 1.00},
	{target: nameOff, measure: "batched frames/s", least: 0.90},
	{target: nameOff, measure: "latency p50 µs, 100 streams", most: 40, difference: true},
	{target: nameOff, measure: "RSS MB, 1000 streams", most: 1.3},
	{target: nameOn, measure: "CPU s per 1M paced frames, 100 streams", most: 1.10},
	{target: nameOn, measure: "RSS MB, 1000 streams", most: 1.6},
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

// percentile returns the value that p percent of the values are not above; 0 for none.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)*p/100, len(values)-1)]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// of returns the median of a target's measurement, and whether there is one.
func (b *bench) of(measure, target string) (float64, bool) {
	values := b.values[measure][target]
	return median(values), len(values) > 0
}

// ratio returns the median of the ratios in each round: what a machine does
// meanwhile is then the same for both.
func (b *bench) ratio(measure, target, other string) (float64, bool) {
	mine, others := b.values[measure][target], b.values[measure][other]
	var ratios []float64
	for i := range min(len(mine), len(others)) {
		if others[i] > 0 {
			ratios = append(ratios, mine[i]/others[i])
		}
	}
	return median(ratios), len(ratios) > 0
}

// difference is ratio for a difference.
func (b *bench) difference(measure, target, other string) (float64, bool) {
	mine, others := b.values[measure][target], b.values[measure][other]
	var all []float64
	for i := range min(len(mine), len(others)) {
		all = append(all, mine[i]-others[i])
	}
	return median(all), len(all) > 0
}

// rows are the measurements that were made, in the order of the code.
func (b *bench) rows() (names []string) {
	order := []string{"short", "CPU µs/request", "batched", "latency p50", "latency p99", "CPU s", "RSS", "upstream", "recovery", "requests/s,", "CPU µs/request,"}
	rank := func(name string) int {
		for i := len(order) - 1; i >= 0; i-- {
			if strings.HasPrefix(name, order[i]) {
				return i
			}
		}
		return len(order)
	}
	for name := range b.values {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		if d := len(x) - len(y); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	return names
}

// report prints the tables.
func (b *bench) report(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s/%s, %d processors, %d for a target, medians of %d rounds of %v\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.procs, b.rounds, b.each)
	for _, name := range targetNames() {
		if why := b.skipped[name]; why != "" {
			fmt.Fprintf(w, "%s is left out: %s\n\n", name, why)
		}
	}
	b.table(w, func(measure, target string) string {
		v, ok := b.of(measure, target)
		if !ok {
			return "–"
		}
		return number(v)
	})
	fmt.Fprintf(w, "\nIn ratio to %s of the same round:\n\n", namePeer)
	b.table(w, func(measure, target string) string {
		v, ok := b.ratio(measure, target, namePeer)
		if !ok {
			return "–"
		}
		return fmt.Sprintf("%.2f", v)
	})
	fmt.Fprintf(w, "\nGoals, in ratio to %s:\n\n", namePeer)
	b.goals(w)
	if b.json == "" {
		return nil
	}
	data, err := json.MarshalIndent(b.values, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.json, append(data, '\n'), 0o600)
}

// table prints a row for each measurement, in Markdown.
func (b *bench) table(w io.Writer, cell func(measure, target string) string) {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	var names []string
	for _, name := range targetNames() {
		for _, values := range b.values {
			if len(values[name]) > 0 {
				names = append(names, name)
				break
			}
		}
	}
	fmt.Fprintf(t, "| \t| %s |\n", strings.Join(names, " \t| "))
	fmt.Fprintf(t, "|-%s|\n", strings.Repeat("\t|-", len(names)))
	for _, measure := range b.rows() {
		fmt.Fprintf(t, "| %s", measure)
		for _, name := range names {
			fmt.Fprintf(t, " \t| %s", cell(measure, name))
		}
		fmt.Fprintln(t, " |")
	}
	t.Flush() //nolint:errcheck // nobody to tell
}

// goals prints which of them were reached.
func (b *bench) goals(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| target \t| measurement \t| goal \t| here \t| |")
	fmt.Fprintln(t, "|-\t|-\t|-\t|-\t|-|")
	for _, g := range goals {
		compare := b.ratio
		if g.difference {
			compare = b.difference
		}
		v, ok := compare(g.measure, g.target, namePeer)
		if !ok {
			continue
		}
		want, reached := fmt.Sprintf("≥ %.2f", g.least), v >= g.least
		if g.most > 0 {
			want, reached = fmt.Sprintf("≤ %.2f", g.most), v <= g.most
		}
		if g.difference {
			want = fmt.Sprintf("≤ +%.0f µs", g.most)
		}
		word := "reached"
		if !reached {
			word = "MISSED"
		}
		fmt.Fprintf(t, "| %s \t| %s \t| %s \t| %.2f \t| %s |\n", g.target, g.measure, want, v, word)
	}
	t.Flush() //nolint:errcheck // nobody to tell
}

// number writes one with about three digits.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
