package proxy

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

// Delivery says when a client is sent what an attempt thinks.
type Delivery string

// The choices. The zero value is DeliveryLive.
const (
	DeliveryLive Delivery = "live" // as it comes; a cut attempt is closed on the client's side
	DeliveryHold Delivery = "hold" // once the attempt answers; a cut one leaves no trace
)

// headerDelivery chooses for one request.
const headerDelivery = "X-Doomproxy-Delivery"

// DefaultHoldMaxBytes bounds what is held back for one client, in bytes. It is
// a hundred times what models usually think.
const DefaultHoldMaxBytes = 8 << 20

// hold is what of the current attempt is held back.
type hold struct {
	view   *recovery.View // what the client would have of the attempt
	raw    []byte         // whole frames, as they came: a list of them would be larger than they are
	frames int
	memory *allowance
}

func newHold(memory *allowance) *hold {
	return &hold{memory: memory, view: recovery.NewView(recovery.CloseTombstone, recovery.Response{})}
}

// keep holds ev back, unless it can't be taken back once sent, or there is no
// room for it.
func (h *hold) keep(ev *recovery.Event, maxBytes int) bool {
	h.view.Forward(ev)
	n := len(ev.Frame.Raw)
	if h.view.Visible || len(h.raw)+n > maxBytes || !h.memory.take(n) {
		return false
	}
	h.raw = append(h.raw, ev.Frame.Raw...)
	h.frames++
	return true
}

// events returns the events that are held back, each valid until the next one,
// with the offset of its end.
func (h *hold) events(maxFrame int) iter.Seq2[int, *recovery.Event] {
	return func(yield func(int, *recovery.Event) bool) {
		scanner := sseframe.Scanner{MaxFrame: maxFrame}
		scanner.Reset(bytes.NewReader(h.raw))
		var parser recovery.Parser
		for end := 0; ; {
			f, err := scanner.Next()
			if err != nil {
				return
			}
			end += len(f.Raw)
			ev := parser.Parse(f)
			if !yield(end, ev) {
				return
			}
		}
	}
}

// release gives back the memory of what was held back.
func (h *hold) release() {
	h.memory.give(len(h.raw))
	h.raw, h.frames = nil, 0
}

// holdBack begins to hold back what the attempts send.
func (x *exchange) holdBack() {
	x.held = newHold(&x.p.state.memory)
	x.waits(phaseHeld)
}

// letGo sends on what was held back. From here on the delivery is live.
func (x *exchange) letGo(a *attempt) {
	if x.held == nil {
		return
	}
	h := x.held
	x.held = nil
	for _, ev := range h.events(x.p.cfg.MaxFrame) {
		x.pass(a, ev)
		x.writeFrames() // before the scanner that it is in goes on
	}
	h.release()
}

// dropHeld forgets what was held back of an attempt that is discarded. Only if
// the response had to be started meanwhile there is something to close.
func (x *exchange) dropHeld(comment string) {
	x.rec.frames[recovery.Discarded] += x.held.frames
	x.held.release()
	x.held = newHold(&x.p.state.memory)
	if x.view.Created() {
		x.splice(comment)
	}
}

// startHeld sends the response.created that is held back, for a client that has
// waited long: events can then tell it that the response is in progress.
func (x *exchange) startHeld() {
	h := x.held
	for end, ev := range h.events(x.p.cfg.MaxFrame) {
		if ev.Type != "response.created" {
			continue
		}
		raw, action := x.view.Forward(ev)
		x.rec.frames[action]++
		x.write(raw)
		n := len(ev.Frame.Raw)
		h.raw = slices.Delete(h.raw, end-n, end)
		h.frames--
		h.memory.give(n)
		return
	}
}

// keepAlive sends a client that waits a comment and, for those whose idle timer
// does not count comments, after a while an event that says nothing new.
func (x *exchange) keepAlive() {
	x.write([]byte(": keepalive\n\n"))
	x.rec.frames[recovery.Synthesized]++
	if time.Since(x.idle.since) >= x.p.cfg.ProgressAfter {
		if x.held != nil && !x.view.Created() {
			x.startHeld()
		}
		if x.view.Created() {
			x.write(x.view.Progress())
			x.rec.frames[recovery.Synthesized]++
		}
	}
	x.flush()
}
