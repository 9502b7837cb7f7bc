package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is the results in Markdown.
func (r *results) report() string {
	var w strings.Builder
	where := "not pinned"
	if r.Pinned {
		where = "pinned to one processor, and all else to another"
	}
	fmt.Fprintf(&w, "%s: %s, %d processors, %s, %s. Targets with GOMAXPROCS=%d, %s. Rounds: %d, %s for each measurement; medians.\n",
		r.Date, r.Processor, r.CPUs, r.System, r.Go, r.Procs, where, r.Rounds, r.Each)
	for _, missing := range []map[string]string{r.Skipped, r.Notes} {
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			fmt.Fprintf(&w, "\nWithout %s: %s.\n", name, missing[name])
		}
	}
	names := r.targets()
	fmt.Fprint(&w, "\n## Measured\n\n")
	table(&w, append([]string{""}, names...), r.body(names, func(row, name string) string {
		v, ok := r.median(row, name)
		return cell(number(v), ok)
	}))
	fmt.Fprint(&w, added(r))
	for _, other := range []string{namePeer, nameFloor} {
		if slices.Contains(names, other) {
			fmt.Fprintf(&w, "\n## In ratio to %s\n\n", other)
			table(&w, append([]string{""}, names...), r.body(names, func(row, name string) string {
				if strings.HasPrefix(row, "latency ") { // what a proxy adds is a difference
					return none
				}
				v, ok := r.ratio(row, name, other)
				return cell(fmt.Sprintf("%.2f", v), ok)
			}))
		}
	}
	fmt.Fprintf(&w, "\n## Targets\n\nIn ratio to %s of the same round, if nothing else is said.\n\n", namePeer)
	table(&w, []string{"", "of", "wanted", "measured", ""}, r.judged())
	return w.String()
}

// added lists what is computed from several rows.
func added(r *results) string {
	rows := r.derived()
	if len(rows) == 0 {
		return ""
	}
	var w strings.Builder
	fmt.Fprint(&w, "\n## Computed from these\n\n")
	names := r.targets()
	table(&w, append([]string{""}, names...), rows)
	return w.String()
}

// targets are the names of those that were measured.
func (r *results) targets() (names []string) {
	for _, name := range targetNames() {
		for _, values := range r.Values {
			if len(values[name]) > 0 {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// body makes a row for each that was measured. Rows with no other cell than "–" are
// left out.
func (r *results) body(names []string, content func(row, name string) string) (rows [][]string) {
	for _, row := range r.Rows {
		line, some := []string{row}, false
		for _, name := range names {
			text := content(row, name)
			some = some || text != none
			line = append(line, text)
		}
		if some {
			rows = append(rows, line)
		}
	}
	return rows
}

// none stands in a cell without a value.
const none = "–"

func cell(text string, ok bool) string {
	if !ok {
		return none
	}
	return text
}

// table writes one that is aligned.
func table(w *strings.Builder, head []string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	line := func(cells []string) { _, _ = fmt.Fprintf(t, "| %s |\n", strings.Join(cells, "\t | ")) }
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for _, cells := range rows {
		line(cells)
	}
	_ = t.Flush() // a Builder takes all
}

// number writes one with about three digits.
func number(v float64) string {
	switch size := max(v, -v); {
	case size >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
