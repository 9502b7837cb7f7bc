package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
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

var dialectNames = map[string]string{
	dialectResponses: "a Responses stream", dialectChat: "a Chat Completions stream", dialectMessages: "an Anthropic Messages stream",
	dialectText: "plain text", "": "a stream of an unknown kind",
}

func (s *scanned) write(w io.Writer) error {
	fmt.Fprintln(w, s.name())
	if s.Error != "" {
		_, err := fmt.Fprintf(w, "  unreadable: %s\n", s.Error)
		return err
	}
	fmt.Fprintf(w, "  %s of %s bytes", dialectNames[s.Dialect], grouped(s.Bytes))
	if s.Events > 0 {
		fmt.Fprintf(w, ", %s events", grouped(int64(s.Events)))
	}
	for _, channel := range []string{"thinking", "response", "tool"} {
		if n := s.Text[channel]; n > 0 {
			fmt.Fprintf(w, ", %s bytes of %s", grouped(n), channel)
		}
	}
	fmt.Fprintln(w)
	if len(s.Signals) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  SIGNAL\tBY\tEVENT\tOFFSET\tPERIOD\tCOPIES\tREPEATED\tACTED ON")
		for _, sig := range s.Signals {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sig.Label, sig.by(), some(int64(sig.Event)), some(sig.Offset),
				some(int64(sig.Period)), some(int64(sig.Copies)), some(sig.Repeated), sig.acted())
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "  verdict: %s\n", s.verdict())
	return err
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
	at := "at byte " + grouped(s.Place.At)
	if s.Place.Event > 0 {
		at = "before event " + grouped(int64(s.Place.Event)) + ", " + at
	}
	behind := fmt.Sprintf("%s bytes (%.0f %%), about %s tokens", grouped(s.Place.Bytes), s.Place.Percent, grouped(s.Place.Tokens))
	if s.Verdict == verdictCut {
		return "a loop, cut " + at + ": that saves " + behind
	}
	return "signs of a loop, nothing is cut; behind the first, " + at + ", are " + behind
}

// some is a number, or a dash for none.
func some(n int64) string {
	if n == 0 {
		return "-"
	}
	return grouped(n)
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
