// Package detect finds loops in the text a model writes, while it is written.
//
// A [Detector] watches one channel of one response: the thinking, the answer,
// or a tool call's arguments. It has three parts, from the surest to the
// widest: [Exact] finds text that repeats byte for byte, [Counter] text that
// repeats but for its numbers, case and spacing, and [Saturation] text made of
// phrases that were all said before. How the text is cut into pieces, also
// inside a UTF-8 character, changes nothing.
//
// Each byte costs a bounded amount of work, on average O(1). Memory comes with
// the text: 5 KiB for the first KiB of it, and never more than [MaxMemory].
//
// The package knows nothing of HTTP, events or JSON, keeps the text only to
// compare it, and never hands any of it out. Its thresholds and what they were
// measured on are in docs/detector.md.
package detect

// MaxMemory bounds what one Detector keeps, in bytes: 16 KiB of text and an
// index of half of that for Exact, the same for Counter, 8 KiB of counts for
// Saturation, and the signals of one Write.
const MaxMemory = 64 << 10

// Detector watches the text of one channel of one response. The zero value
// watches thinking with all parts. It may not be used by several goroutines at
// once, nor copied after the first Write.
type Detector struct {
	// Channel selects the thresholds and stands in the signals' labels. Set it
	// before the first Write.
	Channel Channel
	// Off holds the parts that are switched off; they cost neither time nor
	// memory. Set it before the first Write.
	Off Part

	size       int64 // bytes of text so far
	exact      exact
	fold       folder
	counter    counter
	saturation saturation
	signals    []Signal
}

// Write takes in the next piece of text and returns the signals it raised, in
// the order of their offsets. They are valid until the next call. The text is
// not kept after the call, and not changed.
func (d *Detector) Write(text []byte) []Signal {
	d.signals = d.signals[:0]
	p := d.Channel.profile()
	if d.Off&Exact == 0 {
		d.watchExact(p, text)
	}
	if d.Off&(Counter|Saturation) != Counter|Saturation {
		d.watchFolded(p, text)
	}
	d.size += int64(len(text))
	d.order()
	return d.signals
}

// Size returns the number of bytes of text taken in.
func (d *Detector) Size() int64 { return d.size }

// Reset makes the Detector ready for another text, on the same channel unless
// that is changed. It keeps its memory; which Detector a text is given to
// makes no difference to the signals.
func (d *Detector) Reset() {
	d.size = 0
	d.exact.reset()
	d.fold = folder{}
	d.counter.reset()
	d.saturation.reset()
	d.signals = d.signals[:0]
}

func (d *Detector) watchExact(p *profile, text []byte) {
	for done := 0; done < len(text); {
		n, due := d.exact.feed(text[done:], p.exact[words], p.exactTimes)
		done += n
		if !due {
			continue
		}
		if s, ok := d.exact.judge(p); ok {
			d.raise(s, d.size+int64(done))
		}
	}
}

// watchFolded folds the text a piece at a time and gives the folded bytes to
// Counter and Saturation.
func (d *Detector) watchFolded(p *profile, text []byte) {
	var folded foldedPiece
	for start := 0; start < len(text); start += pieceLen {
		d.fold.fold(&folded, text[start:min(start+pieceLen, len(text))])
		base := d.size + int64(start)
		if d.Off&Counter == 0 {
			for done := 0; done < folded.n; {
				n, due := d.counter.feed(folded.text[done:folded.n], p.counter, p.counterTimes)
				done += n
				if !due {
					continue
				}
				if s, ok := d.counter.judge(p); ok {
					d.raise(s, base+folded.end(done))
				}
			}
		}
		if d.Off&Saturation == 0 {
			for done := 0; done < folded.n; {
				n, due := d.saturation.feed(p, folded.text[done:folded.n])
				done += n
				if !due {
					continue
				}
				if s, ok := d.saturation.judge(p); ok {
					d.raise(s, base+folded.end(done))
				}
			}
		}
	}
}

func (d *Detector) raise(s Signal, offset int64) {
	s.Channel, s.Offset = d.Channel, offset
	d.signals = append(d.signals, s)
}

// order sorts the signals of one Write, few if any, by offset and part, so
// that they do not show which part looked at the text first.
func (d *Detector) order() {
	for i := 1; i < len(d.signals); i++ {
		for j := i; j > 0 && d.signals[j].before(&d.signals[j-1]); j-- {
			d.signals[j], d.signals[j-1] = d.signals[j-1], d.signals[j]
		}
	}
}
