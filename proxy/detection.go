package proxy

import (
	"fmt"
	"slices"
	"sync"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/recovery"
)

// Detector says what is done about loops that the upstream does not report,
// because it cannot or is late: the text of streams is watched on this side.
type Detector struct {
	// Mode is ModeEnforce (also the meaning of empty), in which what is found
	// counts like a report of the upstream's, ModeObserve, in which it is counted
	// and logged only, or ModeOff, in which nothing is looked for and nothing is
	// spent.
	Mode Mode
	// Channels are those that are watched; nil means all.
	Channels []detect.Channel
	// Act are the parts of the detector that may end an attempt, as far as Policy
	// lets them; what others find only warns. It is used as it is: zero means
	// that all only warn.
	Act detect.Part
}

// Detection finds loops in the text of one response, while it streams. The zero
// value watches all channels of a Responses stream. It may not be used by several
// goroutines at once.
type Detection struct {
	// Foreign has the streams of other dialects watched, too: Chat Completions
	// and Anthropic Messages.
	Foreign bool
	// Channels are those that are watched; nil means all.
	Channels []detect.Channel

	texts [3]*watchedText // by detect.Channel, each from its first text on
	reads *watchedText    // what the last event had text of; of several the last
	found []detect.Signal
}

// watchedText is the text of one channel.
type watchedText struct {
	unescaper recovery.Unescaper
	gathered  int // bytes in piece
	piece     [gather]byte
	detector  detect.Detector
}

// gather is how much text of a channel is looked into at a time, in bytes: some ten
// deltas. What a detector remembers is spread over up to 64 KiB: to fetch that from
// memory for each delta of many streams costs more than to look into the delta. A loop
// is told of so much later at most.
const gather = 512

// write takes in text, and appends to found what is certain by now.
func (t *watchedText) write(text []byte, found []detect.Signal) []detect.Signal {
	if t.gathered+len(text) < gather {
		t.gathered += copy(t.piece[t.gathered:], text)
		return found
	}
	return append(t.look(found), t.detector.Write(text)...)
}

// look looks into what was gathered, and appends to found what is certain by now.
func (t *watchedText) look(found []detect.Signal) []detect.Signal {
	found = append(found, t.detector.Write(t.piece[:t.gathered])...)
	t.gathered = 0
	return found
}

// watchedTexts keeps the memory of ended detections for later ones.
var watchedTexts = sync.Pool{New: func() any { return new(watchedText) }}

// Watch takes in the next event of the stream and returns the loops that are certain
// by now, each channel's in the order of their offsets. They are valid until the next
// call. Deltas are gathered: a loop is told of with the delta that brings the last of
// a piece of text, or with the next event that goes on with another channel's text or
// with none. What ev aliases is not kept.
func (d *Detection) Watch(ev *recovery.Event) []detect.Signal {
	d.found, d.reads = d.found[:0], nil
	if channel, text := ev.Text(); channel != "" {
		d.read(channel, text)
	} else if d.Foreign {
		ev.ForeignText(d.read)
	}
	d.lookBehind()
	return d.found
}

// End returns the loops that are certain once no event follows, as Watch does.
func (d *Detection) End() []detect.Signal {
	d.found, d.reads = d.found[:0], nil
	d.lookBehind()
	return d.found
}

// lookBehind looks into the text of channels that does not go on.
func (d *Detection) lookBehind() {
	for _, t := range d.texts {
		if t != nil && t != d.reads && t.gathered > 0 {
			d.found = t.look(d.found)
		}
	}
}

func (d *Detection) read(channel, text string) {
	c := channelOf(channel)
	if d.Channels != nil && !slices.Contains(d.Channels, c) {
		return
	}
	t := d.texts[c]
	if t == nil {
		t = watchedTexts.Get().(*watchedText)
		t.detector.Channel = c
		d.texts[c] = t
	}
	d.reads = t
	for text != "" {
		var piece []byte
		piece, text = t.unescaper.Next(text)
		d.found = t.write(piece, d.found)
	}
}

// Size returns how many bytes of text came in a channel.
func (d *Detection) Size(c detect.Channel) int64 {
	if t := d.texts[c]; t != nil {
		return t.detector.Size() + int64(t.gathered)
	}
	return 0
}

// Close gives back the memory. The Detection is then as good as new.
func (d *Detection) Close() {
	for i, t := range d.texts {
		if t != nil {
			t.detector.Reset()
			t.unescaper, t.gathered = recovery.Unescaper{}, 0
			watchedTexts.Put(t)
			d.texts[i] = nil
		}
	}
}

func channelOf(name string) detect.Channel {
	switch name {
	case recovery.ChannelResponse:
		return detect.Response
	case recovery.ChannelTool:
		return detect.Tool
	}
	return detect.Thinking
}

// SignalsOf returns a loop as the signals that an upstream would report: a
// tail_repetition, and for a long exact unit an exact_repetition. They only warn
// if the part that found it is not among act.
func SignalsOf(found detect.Signal, act detect.Part) []recovery.Signal {
	tail := recovery.ParseLabel(found.TailLabel())
	tail.Source, tail.WarnOnly = recovery.SourceLocal, found.Part&act == 0
	signals := []recovery.Signal{tail}
	if label := found.ExactLabel(); label != "" {
		exact := recovery.ParseLabel(label)
		exact.Source = recovery.SourceLocal
		signals = append(signals, exact)
	}
	return signals
}

// listen takes in what is found.
func (rec *record) listen(all []detect.Signal, c *recovery.Collector) {
	for _, found := range all {
		for _, s := range SignalsOf(found, rec.p.cfg.Detector.Act) {
			c.Add(s)
		}
		rec.found(found)
	}
}

// found takes down the numbers of a loop, none of its text.
func (rec *record) found(s detect.Signal) {
	if len(rec.loops) < maxLoggedLabels {
		rec.loops = append(rec.loops, fmt.Sprintf("%s@%s offset=%d period=%d copies=%d repeated=%d",
			s.Part, s.Channel, s.Offset, s.Period, s.Copies, s.Repeated))
	}
}
