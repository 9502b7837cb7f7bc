package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/recovery"
)

// answer is what the client of a demo was sent, as far as it has to be checked.
type answer struct {
	created, completed, terminal, checks int

	ids     []string
	ordered bool // sequence numbers only grow
	last    int64
	text    strings.Builder // of messages
	items   []*item
	open    *item // the one that events belong to
}

// item is an output item as its client sees it.
type item struct {
	at     time.Time
	index  int64
	kind   string
	deltas int
	text   strings.Builder
	end    string
}

// clientReads tells what the client gets, from its first event on.
func (s *story) clientReads() {
	s.step(4, "The client reads one response, from beginning to end")
	s.answer = answer{ordered: true, last: -1}
	for f := range s.client.frames {
		ev := parse(f)
		s.answer.absorb(ev)
		s.tellClient(ev)
	}
	a := &s.answer
	if a.open != nil {
		s.tellItem(a.open)
	}
	if s.client.err != nil {
		s.fact("error", s.client.err.Error())
	}
	if text := a.text.String(); text != "" {
		s.fact("answer", `"`+text+`"`)
	}
	s.fact("in all", fmt.Sprintf("response ids: %d, response.created: %d, terminal events: %d, loop reports: %d", len(a.ids), a.created, a.terminal, a.checks))
}

// absorb takes in one event.
func (a *answer) absorb(ev event) {
	if n := ev.data.Get("sequence_number"); n.Exists() {
		a.ordered = a.ordered && n.Int() > a.last
		a.last = n.Int()
	}
	if id := ev.data.Get("response.id").Str; id != "" && !slices.Contains(a.ids, id) {
		a.ids = append(a.ids, id)
	}
	switch ev.class {
	case recovery.ClassCheck:
		a.checks++
	case recovery.ClassTerminal:
		a.terminal++
	default:
	}
	switch ev.typ {
	case "response.created":
		a.created++
	case "response.completed":
		a.completed++
	case "response.output_text.delta":
		a.text.WriteString(ev.text())
	case "response.output_item.added":
		a.open = &item{at: ev.at, index: ev.data.Get("output_index").Int(), kind: ev.data.Get("item.type").Str}
		a.items = append(a.items, a.open)
	}
	if a.open != nil && ev.text() != "" {
		a.open.deltas++
		a.open.text.WriteString(ev.text())
	}
}

// tellClient writes an event of the client's, or the item that it ends.
func (s *story) tellClient(ev event) {
	a := &s.answer
	switch {
	case ev.comment != "":
		s.event(ev.at, "comment", s.paint.loop(ev.comment))
	case ev.class == recovery.ClassCheck:
		s.event(ev.at, "report", s.paint.bad("not meant for a client"))
	case ev.class == recovery.ClassLifecycle || ev.class == recovery.ClassTerminal:
		text := pad(strings.TrimPrefix(ev.typ, "response."), 13)
		if id := ev.data.Get("response.id").Str; id != "" {
			text += s.paint.faint("id " + id[:min(len(id), 16)] + "…")
		}
		s.event(ev.at, "response", text)
	case ev.typ == "response.output_item.done" && a.open != nil:
		a.open.end = "complete"
		if strings.HasPrefix(ev.data.Get("item.encrypted_content").Str, recovery.TombstonePrefix) {
			a.open.end = "closed by the proxy, as a tombstone"
		}
		s.tellItem(a.open)
		a.open = nil
	}
}

// tellItem writes an item at its end.
func (s *story) tellItem(it *item) {
	if it.end == "" {
		it.end = "never closed"
	}
	s.event(it.at, fmt.Sprintf("item %d", it.index), pad(it.kind, 13)+fmt.Sprintf("%2d deltas, %s", it.deltas, it.end))
}
