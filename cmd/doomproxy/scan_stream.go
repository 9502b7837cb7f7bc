package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/tidwall/gjson"
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
	// Place is where serve would have cut or, if it would not, where the first
	// signal came.
	Place *scannedPlace `json:"place,omitempty"`

	text   int64 // bytes of text of all channels
	behind int64 // of these, what had come at Place
}

// scannedSignal is a signal and where it came. Numbers about the repetition are
// those of the detector; the upstream tells none.
type scannedSignal struct {
	Source   string `json:"source"` // upstream or local
	Label    string `json:"label"`
	Part     string `json:"part,omitempty"` // of the detector
	Channel  string `json:"channel"`
	Event    int    `json:"event,omitempty"` // its number, from 1
	At       int64  `json:"at"`              // byte of the file at which that event begins
	Offset   int64  `json:"offset,omitempty"`
	Period   int    `json:"period,omitempty"`
	Copies   int    `json:"copies,omitempty"`
	Repeated int64  `json:"repeated,omitempty"`
	Acts     bool   `json:"acts"`
	Why      string `json:"why,omitempty"` // it does not act
}

// scannedPlace is a place in a file and what lies behind it.
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

// scan reads one file.
type scan struct {
	out    scanned
	policy recovery.Policy
	act    detect.Part

	collector recovery.Collector
	detection proxy.Detection
	view      *recovery.View
}

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
			return fmt.Errorf("the event at byte %d is larger than %d MiB", s.out.Bytes, sseframe.DefaultMaxFrame>>20)
		case errors.Is(err, io.EOF):
			tail := scanner.Tail()
			if ev := parser.Parse(tail); ev.Class == recovery.ClassCheck || recovery.ValidJSON(ev.Data) {
				s.event(&ev)
			}
			s.out.Bytes += int64(len(tail.Raw))
			return nil
		case err != nil:
			return err
		}
		ev := parser.Parse(frame)
		s.event(&ev)
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
	known := len(s.collector.Signals())
	s.collector.Absorb(ev)
	for _, sig := range s.collector.Signals()[known:] {
		s.signal(sig, nil)
	}
	for _, found := range s.detection.Watch(ev) {
		for _, sig := range proxy.SignalsOf(found, s.act) {
			known := len(s.collector.Signals())
			if s.collector.Add(sig); len(s.collector.Signals()) > known {
				s.signal(sig, &found)
			}
		}
	}
	if ev.Class != recovery.ClassCheck {
		s.view.Forward(ev)
	}
	s.out.text = 0
	for _, c := range []detect.Channel{detect.Thinking, detect.Response, detect.Tool} {
		if n := s.detection.Size(c); n > 0 {
			s.out.Text[c.String()] = n
			s.out.text += n
		}
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

// plain returns what reads plain text of a channel.
func (s *scan) plain(channel string) func(io.Reader) error {
	return func(r io.Reader) error {
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
				s.out.Bytes, s.out.text = found.Offset, found.Offset
				for _, sig := range proxy.SignalsOf(found, s.act) {
					s.signal(sig, &found)
				}
			}
			s.out.Bytes, s.out.text = d.Size(), d.Size()
			s.out.Text[channel] = d.Size()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

// maxScanned bounds the signals that are told of one file.
const maxScanned = 1000

// signal takes down a signal, and what the detector says of it if it is its.
func (s *scan) signal(sig recovery.Signal, found *detect.Signal) {
	if len(s.out.Signals) == maxScanned {
		return
	}
	out := scannedSignal{
		Source: sig.Source.String(), Label: recovery.SanitizeLabel(sig.Label), Channel: sig.ChannelLabel(),
		Event: s.out.Events, At: s.out.Bytes, Why: s.whyNot(sig, found),
	}
	if found != nil {
		out.Part, out.Offset, out.Period, out.Copies, out.Repeated = found.Part.String(), found.Offset, found.Period, found.Copies, found.Repeated
	}
	out.Acts = out.Why == ""
	if out.Acts || s.out.Place == nil {
		s.out.Place = &scannedPlace{Event: out.Event, At: out.At}
		s.out.behind = s.out.text
	}
	if out.Acts {
		s.out.Verdict = verdictCut
	}
	s.out.Signals = append(s.out.Signals, out)
}

// whyNot says why a signal would not end the attempt, "" if it would.
func (s *scan) whyNot(sig recovery.Signal, found *detect.Signal) string {
	switch {
	case s.out.Verdict == verdictCut:
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
	case len(s.out.Signals) == 0:
		s.out.Verdict = verdictNoLoop
	case s.out.Verdict == "":
		s.out.Verdict = verdictWarned
	}
	if p := s.out.Place; p != nil {
		p.Bytes = s.out.Bytes - p.At
		p.Percent = 100 * float64(p.Bytes) / float64(max(s.out.Bytes, 1))
		p.Tokens = (s.out.text - s.out.behind) / bytesPerToken
	}
}

// bytesPerToken is the usual estimate for English text and code.
const bytesPerToken = 4
