package proxy

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"go.opentelemetry.io/otel/attribute"
)

// relay passes the attempt's events on, one by one, until it ends or is cut.
func (x *exchange) relay(a *attempt) verdict {
	for {
		frame, err := x.next(a)
		if err != nil {
			return x.ended(a, err)
		}
		ev := a.in.parser.Parse(frame)
		if v := x.absorb(a, ev); v != verdictNone {
			return v
		}
		x.forward(a, ev)
		if !a.in.scanner.Buffered() && !x.flush() {
			return x.clientLeft()
		}
	}
}

// next returns the attempt's next frame.
func (x *exchange) next(a *attempt) (frame sseframe.Frame, err error) {
	if x.idle == nil || a.in.scanner.Buffered() {
		frame, err = a.in.scanner.Next()
	} else {
		frame, err = x.awaitFrame(a)
	}
	if a.bytes == 0 {
		a.firstByte = time.Now()
	}
	a.bytes += int64(len(frame.Raw))
	x.received++
	if x.kept != nil {
		x.kept.add(frame.Raw)
	}
	return frame, err
}

// awaitFrame is Scanner.Next while the client is kept alive. It stands apart
// because what it shares with another goroutine is allocated.
func (x *exchange) awaitFrame(a *attempt) (frame sseframe.Frame, err error) {
	err = x.await(func() error {
		frame, err = a.in.scanner.Next()
		return err
	})
	return frame, err
}

// absorb takes in what ev tells of the attempt, before it is forwarded, and
// returns how the attempt ends if this ends it.
func (x *exchange) absorb(a *attempt, ev *recovery.Event) verdict {
	known := len(a.collector.Signals())
	a.collector.Absorb(ev)
	if x.listens {
		x.rec.listen(a.detection.Watch(ev), &a.collector)
	}
	fresh := a.collector.Signals()[known:]
	confident := len(fresh) > 0 && x.heed(a, fresh)
	if a.armed && !x.view.Visible {
		a.capture.Absorb(ev)
		a.textBytes += int64(ev.TextBytes())
	}
	switch {
	case confident:
		return x.looped(a)
	case x.drills(a, ev):
		x.rec.label(drillLabel)
		a.trigger.Label = drillLabel
		x.abort("drill", recovery.KindUnknown, ModeEnforce)
		x.rec.frames[recovery.Discarded]++
		return verdictCut
	}
	if !a.looped && x.failedInBand(a, ev) {
		x.rec.frames[recovery.Discarded]++
		return verdictRetry
	}
	return x.refusedInBand(a, ev)
}

// heed takes down new signals and reports whether one is to be acted on. The
// tightest of these is the attempt's trigger, unless it has one.
func (x *exchange) heed(a *attempt, signals []recovery.Signal) (acts bool) {
	for _, s := range signals {
		confident := x.p.cfg.Policy.Confident(s)
		x.rec.signal(s, confident)
		switch {
		case !confident:
		case s.Source == recovery.SourceLocal && x.req.detector == ModeObserve:
			x.notice(a, s)
		case !a.looped && (!acts || s.Threshold < a.trigger.Threshold):
			a.trigger, acts = s, true
		}
	}
	return acts
}

// notice counts that an attempt would have been cut.
func (x *exchange) notice(a *attempt, s recovery.Signal) {
	if !a.noticed && !a.looped && !x.view.Visible {
		a.noticed = true
		x.abort(s.Source.String(), s.Kind, ModeObserve)
	}
}

// looped decides what is done about a confident signal. The first of an
// attempt settles it.
func (x *exchange) looped(a *attempt) verdict {
	if a.looped {
		return verdictNone
	}
	a.looped = true
	switch {
	case x.view.Visible:
		x.late = true
	case a.armed:
		x.abort(a.trigger.Source.String(), a.trigger.Kind, ModeEnforce)
		x.rec.frames[recovery.Discarded]++
		return verdictCut
	case x.req.protection == observed:
		x.abort(a.trigger.Source.String(), a.trigger.Kind, ModeObserve)
	default:
		x.acceptedAfterBudget = true
	}
	return verdictNone
}

// abort counts a cut, or one that would have been.
func (x *exchange) abort(source string, kind recovery.Kind, mode Mode) {
	x.rec.event("doomproxy.cut", attribute.String("doomproxy.cut.source", source), attribute.String("doomproxy.cut.mode", string(mode)))
	x.p.cfg.Metrics.DoomAborts.WithLabelValues(source, kind.String(), x.rec.model, string(mode)).Inc()
}

// The request header that forces a cut, if Config.Drill allows that, and what
// stands in its place where a report has a label.
const (
	headerDrill = "X-Doomproxy-Drill"
	drillLabel  = "drill"
)

// drills reports whether the attempt is cut to show what that does: once for a
// request, as late as it can be, but not before something was thought if the
// model thinks.
func (x *exchange) drills(a *attempt, ev *recovery.Event) bool {
	if !x.drill || !a.armed || x.cuts > 0 || x.view.Visible {
		return false
	}
	view := x.view
	if x.held != nil {
		view = x.held.view
	}
	return a.textBytes > drillAfter || view.Shows(ev)
}

// drillAfter is how much of the model's text comes before the cut, in bytes.
const drillAfter = 200

// forward sends ev on as the client is to see it.
func (x *exchange) forward(a *attempt, ev *recovery.Event) {
	if ev.Class == recovery.ClassCheck {
		x.rec.frames[recovery.Swallowed]++
		return
	}
	a.spoke = a.spoke || ev.Class == recovery.ClassOther && (x.view.Created() || recovery.ValidJSON(ev.Data))
	if x.held != nil {
		if x.held.keep(ev, x.p.cfg.HoldMaxBytes) {
			x.rec.enter(phaseHeld)
			return
		}
		x.letGo(a)
	}
	x.pass(a, ev)
}

// pass sends ev on, or takes it down for a client that wants a whole answer.
func (x *exchange) pass(a *attempt, ev *recovery.Event) {
	if t, ok := ev.Trace(); ok && len(a.traces) < maxTraces {
		a.traces = append(a.traces, traceKeys(t)...)
	}
	raw, action := x.view.Forward(ev)
	x.rec.frames[action]++
	if action == recovery.Swallowed {
		return
	}
	if ev.Class == recovery.ClassTerminal {
		client, upstream := x.view.ResponseIDs()
		x.history.accept(x.r.Context(), a.traces, client, upstream)
	}
	switch {
	case x.whole != nil:
		x.whole.add(ev)
	case action == recovery.Forwarded:
		x.forwardRaw(raw)
	default:
		x.write(raw)
	}
	if !a.forwarded && ev.Class != recovery.ClassNone {
		x.sending(a)
	}
	if x.view.Visible && x.rec.now != phaseVisible {
		x.visible(a)
	}
	if ev.Class == recovery.ClassTerminal {
		x.terminal(a, ev)
	}
}

// terminal takes down what the answer says of itself. Its stream may go on for
// a moment.
func (x *exchange) terminal(a *attempt, ev *recovery.Event) {
	m := x.p.meters
	u := ev.Usage()
	if x.rec.span.IsRecording() {
		x.rec.span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", u.Input), attribute.Int64("gen_ai.usage.output_tokens", u.Output))
	}
	m.input.Add(float64(u.Input))
	m.output.Add(float64(u.Output))
	m.reasoning.Add(float64(u.Reasoning))
	m.cached.Add(float64(u.Cached))
	switch ev.Type {
	case "response.incomplete":
		reason := ev.IncompleteReason()
		if reason != "max_output_tokens" && reason != "content_filter" {
			reason = "other"
		}
		x.p.cfg.Metrics.Incomplete.WithLabelValues(reason).Inc()
	case "response.failed":
		x.rec.end(outcomeUpstreamError, nil)
	}
	if a.linger == nil {
		a.linger = time.AfterFunc(x.p.cfg.Linger, a.cancel)
	}
}

// clientLeft returns how an attempt ends whose client takes no more: a client
// that has its answer may close without waiting for the end.
func (x *exchange) clientLeft() verdict {
	if x.view.Terminal {
		return verdictAccepted
	}
	return verdictGone
}

// errUnfinished is why a stream that simply ends is no answer.
var errUnfinished = errors.New("the stream ended without a terminal event")

// ended decides what the end of the attempt's stream means.
func (x *exchange) ended(a *attempt, err error) verdict {
	if errors.Is(err, sseframe.ErrFrameTooLong) {
		return x.copyRest(a)
	}
	if x.verdict(verdictNone) == verdictGone {
		return x.clientLeft()
	}
	tail := a.in.scanner.Tail()
	a.bytes += int64(len(tail.Raw))
	// An event whose blank line is missing counts, if it is whole.
	ev := a.in.parser.Parse(tail)
	if ev.Class != recovery.ClassCheck && !recovery.ValidJSON(ev.Data) {
		ev = &recovery.Event{Frame: tail}
	}
	if v := x.absorb(a, ev); v != verdictNone {
		return v
	}
	created := x.view.Created() || x.held != nil && x.held.view.Created()
	otherDialect := !created && (a.spoke || ev.Class == recovery.ClassOther)
	switch {
	case x.view.Terminal, x.view.Errored, ev.Class == recovery.ClassTerminal, ev.Class == recovery.ClassError:
		x.letGo(a)
		x.forwardTail(a, ev)
		if ev.Class != recovery.ClassNone && !errors.Is(err, io.EOF) && x.whole == nil {
			// Many clients take no event without the blank line that was lost.
			x.write([]byte("\n\n"))
			x.flush()
			x.rec.frames[recovery.Synthesized]++
		}
	case otherDialect && !a.looped && !x.redone && x.whole == nil:
		// No stream of a response: it ends as it ended.
		x.letGo(a)
		x.forwardTail(a, ev)
		if !errors.Is(err, io.EOF) {
			a.failure = failure{err: fmt.Errorf("read upstream: %w", err)}
			return x.verdict(verdictDropped)
		}
	default:
		return x.brokeOff(a, ev, err)
	}
	if x.view.Errored {
		x.rec.end(outcomeUpstreamError, nil)
	}
	return verdictAccepted
}

// brokeOff decides what becomes of an attempt that ended without a terminal
// event, with tail as its last.
func (x *exchange) brokeOff(a *attempt, tail *recovery.Event, err error) verdict {
	why := FailureDrop
	a.failure = failure{"server_error", "the upstream's answer broke off", errUnfinished}
	switch {
	case a.watch.bit.Load():
		why = FailureIdle
		a.failure = failure{"server_error", "the upstream sent nothing for too long", errSilent}
	case !errors.Is(err, io.EOF):
		a.failure.err = fmt.Errorf("%w: read upstream: %w", errUnfinished, err)
	}
	switch {
	case x.view.Visible:
		x.forwardTail(a, tail)
	case !a.looped && x.again(a, why, 0):
		return verdictRetry
	}
	return x.verdict(verdictFailed)
}

// forwardTail sends on what a stream ended with, if it did not end with a frame.
func (x *exchange) forwardTail(a *attempt, ev *recovery.Event) {
	if len(ev.Frame.Raw) > 0 {
		x.forward(a, ev)
		x.flush()
	}
}

// copyRest passes on a stream from a frame on that is too long to look into.
// What is in it stays unknown, so that nothing can be taken back behind it.
func (x *exchange) copyRest(a *attempt) verdict {
	x.rec.oversized()
	if x.view.Terminal && (x.view.Spliced() || x.whole != nil) {
		return verdictAccepted // what follows the answer is not worth more
	}
	if x.view.Spliced() || x.whole != nil {
		// It would have to be rewritten, or looked into.
		a.failure = failure{"server_error", "the upstream sent an event that is too large", sseframe.ErrFrameTooLong}
		return verdictFailed
	}
	x.letGo(a)
	x.view.Visible = true
	x.visible(a)
	x.write(a.in.scanner.Rest())
	if !x.flush() {
		return verdictGone
	}
	v := x.copyAnswer(a)
	if x.view.Terminal && v == verdictDropped {
		return verdictAccepted
	}
	return v
}
