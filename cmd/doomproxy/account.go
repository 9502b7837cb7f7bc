package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fatih/color"
)

// account writes what happens, in columns no wider than width.
type account struct {
	w     io.Writer
	start time.Time // of the times shown
	paint palette
}

const (
	width  = 94
	indent = "   "
	// gutter is the width of the first column: times, and names of facts.
	gutter = 13
	// column is that of the second one: what kind of thing it is.
	column = 10
)

// palette are the colours, or none.
type palette struct {
	heading, faint, label, loop, bad, good func(...any) string
}

func newPalette(on bool) palette {
	paint := func(attributes ...color.Attribute) func(...any) string {
		c := color.New(attributes...)
		if on {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c.SprintFunc()
	}
	return palette{
		heading: paint(color.Bold), faint: paint(color.Faint), label: paint(color.FgCyan),
		loop: paint(color.FgYellow), bad: paint(color.FgRed, color.Bold), good: paint(color.FgGreen, color.Bold),
	}
}

// newAccount writes to w, in colour if that is a terminal and NO_COLOR is unset.
func newAccount(w io.Writer) *account {
	if w == os.Stdout && !color.NoColor {
		return &account{w: color.Output, paint: newPalette(true)}
	}
	return &account{w: w, paint: newPalette(false)}
}

func (a *account) printf(format string, args ...any) { fmt.Fprintf(a.w, format, args...) }

// step begins a section.
func (a *account) step(n int, heading string) {
	a.printf("\n%s\n", a.paint.heading(fmt.Sprintf("%d  %s", n, heading)))
}

// event writes what happened at a time.
func (a *account) event(at time.Time, kind, text string) {
	shown := ""
	if !at.IsZero() {
		shown = fmt.Sprintf("%.2f s", at.Sub(a.start).Seconds())
	}
	a.printf("%s%s%s%s\n", indent, a.paint.faint(pad(shown, gutter)), a.paint.label(pad(kind, column)), text)
}

// fact writes something that is so; text that does not fit goes on below.
func (a *account) fact(name, text string) {
	for i, line := range wrap(text, width-len(indent)-gutter) {
		if i > 0 {
			name = ""
		}
		a.printf("%s%s%s\n", indent, a.paint.label(pad(name, gutter)), line)
	}
}

// verdict writes how it ended.
func (a *account) verdict(missing []string) {
	took := time.Since(a.start).Seconds()
	if len(missing) == 0 {
		a.printf("\n%s the loop was cut, and the client has one complete answer (%.1f s)\n", a.paint.good("Recovered:"), took)
		return
	}
	a.printf("\n%s after %.1f s\n", a.paint.bad("Not recovered"), took)
	for _, m := range missing {
		a.printf("%s%s %s\n", indent, a.paint.bad("-"), m)
	}
}

// invite tells how to go on with what is running.
func (a *account) invite(st *stage) {
	a.printf("\n%s\n", a.paint.heading("Still running, for your own agent"))
	a.fact("base URL", st.proxy+"  (any key, any model)")
	a.fact("admin", st.admin+"/metrics")
	a.fact("upstream", "simulated; every other answer of it loops, so that each of your requests has one loop to recover from")
	a.printf("\nEach request is logged below. Ctrl-C ends it.\n\n")
}

// pad fills text up to a column.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-utf8.RuneCountInString(text), 0))
}

// quote puts text in quotes, and shortens it to fit.
func quote(text string, columns int) string {
	runes := []rune(text)
	if len(runes) > columns-2 {
		return `"` + strings.TrimRight(string(runes[:max(columns-3, 0)]), " ") + `…"`
	}
	return `"` + text + `"`
}

// wrap breaks text at blanks into lines of at most that many columns; a longer
// word gets a line of its own.
func wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
