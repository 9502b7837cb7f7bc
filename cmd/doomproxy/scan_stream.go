package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/tidwall/gjson"
)

// scan reads one file.
type scan struct {
	out    scanned
	policy recovery.Policy
	act    detect.Part

	collector recovery.Collector
	detection proxy.Detection
	view      *recovery.View

	end  int64 // byte of the file at which the current event ends
	text int64 // bytes of text of all channels up to there
	// cutEnd and cutText are what these two were at scanned.Place.
	cutEnd, cutText int64
}

// errTooLarge is an event that is not held in memory.
var errTooLarge = fmt.Errorf("larger than %d MiB", sseframe.DefaultMaxFrame>>20)

// stream reads an event stream.
func (s *scan) stream(r io.Reader) error {
	var scanner sseframe.Scanner
	scanner.Reset(r)
	var parser recovery.Parser
	s.detection.Foreign = true
	defer s.detection.Close()
	s.view = recovery.NewView(recovery.CloseTombstone, recovery.Response{})
	for {
		frame, err := scanner.Next()
		switch {
		case errors.Is(err, sseframe.ErrFrameTooLong):
			return fmt.Errorf("event %d, at byte %d, is %w", s.out.Events+1, s.out.Bytes, errTooLarge)
		case errors.Is(err, io.EOF):
			// An event whose blank line is missing counts, if it is whole.
			tail := scanner.Tail()
			if ev := parser.Parse(tail); recovery.ValidJSON(ev.Data) {
				s.event(ev)
			}
			s.out.Bytes += int64(len(tail.Raw))
			for _, found := range s.detection.End() {
				s.found(&found)
			}
			return nil
		case err != nil:
			return err
		}
		ev := parser.Parse(frame)
		s.event(ev)
		s.out.Bytes += int64(len(frame.Raw))
	}
}

// event takes in an event, which begins behind the bytes so far.
func (s *scan) event(ev *recovery.Event) {
	if ev.Class == recovery.ClassNone {
		return
	}
	s.out.Events++
	if s.out.Dialect == "" {
		s.out.Dialect = dialectOf(ev)
	}
	s.end = s.out.Bytes + int64(len(ev.Frame.Raw))
	reported, found := s.collector.Absorb(ev), s.detection.Watch(ev)
	s.text = 0
	for _, c := range []detect.Channel{detect.Thinking, detect.Response, detect.Tool} {
		if n := s.detection.Size(c); n > 0 {
			s.out.Text[c.String()] = n
			s.text += n
		}
	}
	for _, sig := range reported {
		s.signal(sig, nil)
	}
	for i := range found {
		s.found(&found[i])
	}
	s.view.Forward(ev) // of a report it takes no notice
}

// found takes down what the detector found. A label that comes again is another
// loop, or one whose copies have doubled.
func (s *scan) found(found *detect.Signal) {
	for _, sig := range proxy.SignalsOf(*found, s.act) {
		s.signal(sig, found)
	}
}

// dialectOf returns the dialect that an event is of, "" if that cannot be told.
func dialectOf(ev *recovery.Event) string {
	switch {
	case strings.HasPrefix(ev.Type, "response."):
		return dialectResponses
	case strings.HasPrefix(ev.Type, "content_block_"), ev.Type == "message_start":
		return dialectMessages
	case gjson.Get(ev.Data, "choices").IsArray():
		return dialectChat
	}
	return ""
}

// plain reads plain text of a channel. There the place of a signal is where the
// loop became certain.
func (s *scan) plain(r io.Reader, channel string) error {
	s.out.Dialect = dialectText
	var d detect.Detector
	for _, c := range []detect.Channel{detect.Thinking, detect.Response, detect.Tool} {
		if c.String() == channel {
			d.Channel = c
		}
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for _, found := range d.Write(buf[:n]) {
			s.out.Bytes, s.end, s.text = found.Offset, found.Offset, found.Offset
			s.found(&found)
		}
		s.out.Bytes, s.text = d.Size(), d.Size()
		s.out.Text[channel] = d.Size()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxScanned bounds the signals that are told of one file.
const maxScanned = 1000

// signal takes down a signal, and what the detector says of it if it is its.
func (s *scan) signal(sig recovery.Signal, found *detect.Signal) {
	out := scannedSignal{
		Source: sig.Source.String(), Label: recovery.SanitizeLabel(sig.Label), Channel: sig.ChannelLabel(),
		Event: s.out.Events, At: s.out.Bytes, Offset: s.out.Text[sig.Channel], Why: s.whyNot(sig, found),
	}
	if found != nil {
		out.Part, out.Offset, out.Period, out.Copies, out.Repeated = found.Part.String(), found.Offset, found.Period, found.Copies, found.Repeated
	}
	out.Acts = out.Why == ""
	if s.out.Place == nil || out.Acts {
		s.out.Place = &scannedPlace{Event: out.Event, At: out.At}
		s.cutEnd, s.cutText = s.end, s.text
	}
	if out.Acts {
		s.out.Verdict = verdictCut
	}
	if len(s.out.Signals) == maxScanned {
		s.out.LeftOut++
		return
	}
	s.out.Signals = append(s.out.Signals, out)
}

// whyNot says why a signal would not end the attempt, "" if it would.
func (s *scan) whyNot(sig recovery.Signal, found *detect.Signal) string {
	switch {
	case s.out.Verdict == verdictCut && s.out.Events > s.out.Place.Event:
		return "behind the cut"
	case s.out.Dialect == dialectText:
		return "plain text is not cut"
	case s.out.Dialect != dialectResponses:
		return "streams of this kind are never cut"
	case sig.Channel != recovery.ChannelThinking:
		return "not in the thinking"
	case sig.Kind != recovery.KindTailRepetition:
		return "a kind that only warns"
	case sig.WarnOnly:
		return found.Part.String() + " only warns"
	case !s.policy.Confident(sig):
		return "too loose"
	case s.view.Visible:
		return "behind something visible"
	}
	return ""
}

// judge ends the scan.
func (s *scan) judge() {
	switch {
	case s.out.Place == nil:
		s.out.Verdict = verdictNoLoop
	case s.out.Verdict == "":
		s.out.Verdict = verdictWarned
	}
	if p := s.out.Place; p != nil {
		p.Bytes = s.out.Bytes - s.cutEnd
		p.Percent = math.Round(1000*float64(p.Bytes)/float64(max(s.out.Bytes, 1))) / 10
		p.Tokens = (s.text - s.cutText) / bytesPerToken
	}
}

// bytesPerToken is the usual estimate for English text and code.
const bytesPerToken = 4
