package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/doomproxy/doomproxy/recovery"
)

// scanned is what was found in a file. Its JSON is the output of --format json.
type scanned struct {
	File    string           `json:"file"`
	Verdict string           `json:"verdict"` // no_loop, loop_cut, loop_warned or unreadable
	Error   string           `json:"error,omitempty"`
	Dialect string           `json:"dialect,omitempty"` // responses, chat_completions, messages or text
	Bytes   int64            `json:"bytes"`             // of the file
	Events  int              `json:"events"`
	Text    map[string]int64 `json:"text_bytes"` // by channel
	Signals []scannedSignal  `json:"signals"`
	LeftOut int              `json:"signals_left_out,omitempty"`
	// Place is where serve would have cut or, if it would not, where the first
	// signal came.
	Place *scannedPlace `json:"place,omitempty"`
}

// scannedSignal is a signal and where it came. Numbers about the repetition are
// those of the detector; the upstream tells none.
type scannedSignal struct {
	Source   string `json:"source"` // upstream or local
	Label    string `json:"label"`
	Part     string `json:"part,omitempty"` // of the detector
	Channel  string `json:"channel"`
	Event    int    `json:"event,omitempty"`  // its number, from 1
	At       int64  `json:"at"`               // byte of the file at which that event begins
	Offset   int64  `json:"offset,omitempty"` // bytes of the channel's text so far
	Period   int    `json:"period,omitempty"`
	Copies   int    `json:"copies,omitempty"`
	Repeated int64  `json:"repeated,omitempty"`
	Acts     bool   `json:"acts"`
	Why      string `json:"why,omitempty"` // it does not act
}

// scannedPlace is an event, or a place in plain text, and what lies behind it.
// The event itself had come by then, and no cut saves it.
type scannedPlace struct {
	Event   int     `json:"event,omitempty"`
	At      int64   `json:"at"`
	Bytes   int64   `json:"bytes_behind"`
	Percent float64 `json:"percent_behind"`
	Tokens  int64   `json:"tokens_behind_estimated"` // of text, 4 bytes each
}

// The verdicts.
const (
	verdictNoLoop     = "no_loop"
	verdictCut        = "loop_cut"
	verdictWarned     = "loop_warned"
	verdictUnreadable = "unreadable"
)

// The dialects.
const (
	dialectResponses = "responses"
	dialectChat      = "chat_completions"
	dialectMessages  = "messages"
	dialectText      = "text"
)

// writeScan prints what was found in files.
func writeScan(w io.Writer, format string, list []*scanned) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	}
	for i, s := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := s.write(w); err != nil {
			return err
		}
	}
	return nil
}

// name is the file's name, fit to be printed.
func (s *scanned) name() string {
	switch quoted := strconv.Quote(s.File); {
	case s.File == stdinName:
		return "standard input"
	case quoted != `"`+s.File+`"`:
		return quoted
	}
	return s.File
}

func (s *scanned) write(w io.Writer) error {
	fmt.Fprintln(w, s.name())
	if s.Error == "" || s.Events > 0 {
		fmt.Fprintf(w, "  %s\n", s.content())
	}
	if err := s.table(w); err != nil {
		return err
	}
	last := "verdict: " + s.verdict()
	if s.Error != "" {
		last = "unreadable: " + s.Error
	}
	_, err := fmt.Fprintf(w, "  %s\n", last)
	return err
}

// content says what was read.
func (s *scanned) content() string {
	kind := "a stream of an unknown kind"
	switch s.Dialect {
	case dialectResponses:
		kind = "a Responses stream"
	case dialectChat:
		kind = "a Chat Completions stream"
	case dialectMessages:
		kind = "an Anthropic Messages stream"
	case dialectText:
		kind = "plain text"
	}
	list := []string{kind + " of " + counted(s.Bytes, "byte")}
	if s.Events > 0 {
		list = append(list, counted(int64(s.Events), "event"))
	}
	for _, channel := range []string{recovery.ChannelThinking, recovery.ChannelResponse, recovery.ChannelTool} {
		if n := s.Text[channel]; n > 0 {
			list = append(list, counted(n, "byte")+" of "+channel)
		}
	}
	return strings.Join(list, ", ")
}

// table prints the signals, if there are any.
func (s *scanned) table(w io.Writer) error {
	if len(s.Signals) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  SIGNAL\tBY\tEVENT\tBYTE\tOFFSET\tPERIOD\tCOPIES\tREPEATED\tACTED ON")
	for _, sig := range s.Signals {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sig.Label, sig.by(), some(int64(sig.Event)), grouped(sig.At),
			some(sig.Offset), some(int64(sig.Period)), some(int64(sig.Copies)), some(sig.Repeated), sig.acted())
	}
	if s.LeftOut > 0 {
		fmt.Fprintf(t, "  and %s more\n", grouped(int64(s.LeftOut)))
	}
	return t.Flush()
}

// by is who found a loop.
func (s *scannedSignal) by() string {
	if s.Part == "" {
		return s.Source
	}
	return s.Part
}

func (s *scannedSignal) acted() string {
	if s.Acts {
		return "yes"
	}
	return "no: " + s.Why
}

func (s *scanned) verdict() string {
	if s.Place == nil {
		return "no loop"
	}
	at := "byte " + grouped(s.Place.At)
	if s.Place.Event > 0 {
		at = fmt.Sprintf("event %s (%s)", grouped(int64(s.Place.Event)), at)
	}
	cut := s.Verdict == verdictCut
	verdict := "loop: would have been cut at " + at
	if !cut {
		verdict = fmt.Sprintf("loop: only warned of (%s), first at %s", s.reasons(), at)
	}
	behind := fmt.Sprintf("%s (%.0f %%), about %s", counted(s.Place.Bytes, "byte"), s.Place.Percent, counted(s.Place.Tokens, "token"))
	switch {
	case s.Place.Bytes == 0:
		return verdict + "; nothing is behind it"
	case cut:
		return verdict + ", which saves " + behind
	}
	return verdict + "; behind it: " + behind
}

// reasons are why nothing is cut, each once.
func (s *scanned) reasons() string {
	var list []string
	for _, sig := range s.Signals {
		if !slices.Contains(list, sig.Why) {
			list = append(list, sig.Why)
		}
	}
	return strings.Join(list, "; ")
}

// some is a number, or a dash for none.
func some(n int64) string {
	if n == 0 {
		return "-"
	}
	return grouped(n)
}

// counted writes how many there are of something.
func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(n) + " " + what
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
