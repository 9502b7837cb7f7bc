package proxy

// forwardRaw sends a frame of the attempt's scanner to the client with the next
// flush. Frames that lie there one behind the other are written as one.
func (x *exchange) forwardRaw(raw []byte) {
	n := len(x.unsent)
	if n > 0 && n < cap(x.unsent) && n+len(raw) <= maxUnpaced && len(raw) > 0 && &x.unsent[:n+1][n] == &raw[0] {
		x.unsent = x.unsent[:n+len(raw)]
		return
	}
	x.writeFrames()
	x.unsent = raw
}

// writeFrames writes the frames that wait for it.
func (x *exchange) writeFrames() {
	frames := x.unsent
	x.unsent = nil
	x.put(frames)
}

// write sends raw to the client with the next flush. Errors stick to x.out.
func (x *exchange) write(raw []byte) {
	x.writeFrames()
	x.put(raw)
}

// put is write behind all that waits.
func (x *exchange) put(raw []byte) {
	if len(raw) > 0 {
		x.head.settle()
	}
	for len(raw) > 0 {
		if x.unpaced == 0 || x.unpaced >= maxUnpaced {
			x.extend()
			x.unpaced = 0
		}
		n := min(len(raw), maxUnpaced)
		x.out.Write(raw[:n]) //nolint:errcheck // checked by flush
		x.unpaced += n
		raw = raw[n:]
	}
}

// extend extends rec.pace. Between two pulses of the watchdog once is enough, if not
// much was written meanwhile.
func (x *exchange) extend() {
	if x.watch != nil {
		pulse := x.watch.pulses.Load()
		if pulse == x.pulse && x.unpaced == 0 {
			return
		}
		x.pulse = pulse
	}
	x.rec.pace.extend()
}

// flush sends on what was written, and reports whether the client is there. If
// it is not, the attempt ends too.
func (x *exchange) flush() bool {
	x.writeFrames()
	x.unpaced = 0
	x.rec.live.frames.Store(x.received)
	if x.out.Flush() != nil {
		x.cancel(x.out.Err())
		return false
	}
	return true
}
