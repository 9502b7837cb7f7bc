package proxy

import (
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
	parser recovery.Parser
	frames []sseframe.Frame
	bytes  int // of frames
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
	if h.view.Visible || h.bytes+n > maxBytes || !h.memory.take(n) {
		return false
	}
	h.bytes += n
	f := ev.Frame
	f.Raw = append([]byte(nil), f.Raw...)
	h.frames = append(h.frames, f)
	return true
}

// release gives back the memory of the frames, which are not needed any more.
func (h *hold) release() {
	h.memory.give(h.bytes)
	h.bytes, h.frames = 0, nil
}

// holdBack begins to hold back what the attempts send.
func (x *exchange) holdBack() {
	x.held = newHold(&x.p.memory)
	x.waits(phaseHeld)
}

// letGo sends on what was held back. From here on the delivery is live.
func (x *exchange) letGo(a *attempt) {
	if x.held == nil {
		return
	}
	h := x.held
	x.held = nil
	for _, f := range h.frames {
		ev := h.parser.Parse(f)
		x.pass(a, &ev)
	}
	h.release()
}

// dropHeld forgets what was held back of an attempt that is discarded. Only if
// the response had to be started meanwhile there is something to close.
func (x *exchange) dropHeld(comment string) {
	x.rec.frames[recovery.Discarded] += len(x.held.frames)
	x.held.release()
	x.held = newHold(&x.p.memory)
	if x.view.Created() {
		x.splice(comment)
	}
}

// startHeld sends the response.created that is held back, for a client that has
// waited long: events can then tell it that the response is in progress.
func (x *exchange) startHeld() {
	h := x.held
	for i, f := range h.frames {
		if ev := h.parser.Parse(f); ev.Type == "response.created" {
			h.frames = append(h.frames[:i], h.frames[i+1:]...)
			raw, action := x.view.Forward(&ev)
			x.rec.frames[action]++
			x.write(raw)
			return
		}
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
