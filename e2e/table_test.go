package e2e

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// state is how a cell ends. The zero value: it was not run.
type state string

const (
	ok      state = "ok"
	waiting state = "pending"
	failed  state = "**FAIL**"
)

type cell struct {
	state   state
	pending []int // the lines that excuse it
}

// table is what the run found.
type table struct {
	clients  []client
	versions []string // of the clients
	cases    []testCase
	cells    [][]cell // by client and case; each is written by its own test
}

func newTable(t *testing.T, clients []client, cases []testCase) *table {
	t.Helper()
	tb := &table{clients: clients, cases: cases}
	for _, c := range clients {
		version, err := c.version()
		if err != nil {
			t.Fatal(err)
		}
		tb.versions = append(tb.versions, version)
		tb.cells = append(tb.cells, make([]cell, len(cases)))
	}
	return tb
}

// The generated page, and the same in this module for the one who runs it.
const (
	page  = "../docs/clients.md"
	shown = "out/clients.md"
)

// write keeps the table, and compares it with the page in the docs.
func (tb *table) write(t *testing.T) {
	text := tb.markdown()
	if err := os.MkdirAll("out", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shown, text, 0o644); err != nil {
		t.Fatal(err)
	}
	needed := map[int]bool{}
	for _, row := range tb.cells {
		for _, c := range row {
			if c.state == "" {
				return // a part of the table only
			}
			for _, line := range c.pending {
				needed[line] = true
			}
		}
	}
	for i, p := range pending {
		if !needed[i] {
			t.Errorf("it works now, so remove the line from pending: %+v", p)
		}
	}
	if os.Getenv("E2E_UPDATE") != "" {
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) && !t.Failed() {
		t.Errorf("%s is not what this run found (E2E_UPDATE=1 make e2e writes it)", page)
	}
}

const intro = `# Clients

<!-- Written by E2E_UPDATE=1 make e2e. -->

Real agents and client libraries, at the versions named, behind the proxy and in
front of the simulated upstream. Each has a session of two turns, with a tool
call in each, and the upstream falls into a loop:

| column | the loop |
| --- | --- |
| no loop | none |
| summary | in the first request, while the summary of the reasoning is streamed |
| raw text | the same with raw reasoning text |
| two in a row | in the first request and in the one made in its place |
| terminal only | in the first request, reported only when the answer is complete |
| unreported | in the first request, and not reported: the proxy's own detector finds it |
| turn 2 | in the first request of the second turn |
| hold | as in "summary", and as in "terminal only" in the second turn, with the request header x-doomproxy-delivery: hold |

A cell is ok if the client ends without an error and with the right answers; if
the upstream is sent no tombstone, no id or content of a discarded item, and no
text of a loop beyond the bounded replay of the request that was cut; if it gets
all other reasoning back; and if the proxy has counted it right.

`

func (tb *table) markdown() []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	b.WriteString("| client | version |")
	for _, c := range tb.cases {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(tb.cases)) + "\n")
	var notes []string
	for i := range tb.clients {
		fmt.Fprintf(&b, "| %s | %s |", tb.clients[i].name, tb.versions[i])
		for _, c := range tb.cells[i] {
			fmt.Fprintf(&b, " %s", c.state)
			var marks []string
			for _, line := range c.pending {
				why := pending[line].why
				if !slices.Contains(notes, why) {
					notes = append(notes, why)
				}
				mark := fmt.Sprintf(" (%d)", slices.Index(notes, why)+1)
				if !slices.Contains(marks, mark) {
					marks = append(marks, mark)
				}
			}
			b.WriteString(strings.Join(marks, ""))
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	if notes != nil {
		b.WriteString("\nPending:\n\n")
	}
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	return b.Bytes()
}
