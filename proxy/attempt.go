package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/doomproxy/doomproxy/stationarity"
	"go.opentelemetry.io/otel/trace"
)

// attempt is one upstream request and what came of it.
type attempt struct {
	// Each frame touches these.
	in        *incoming
	bytes     int64 // received
	textBytes int64 // of these, text of the model
	armed     bool  // a loop is cut
	looped    bool  // a confident signal came
	noticed   bool  // one came that is not acted on, for the detector only observes
	forwarded bool  // something was sent on
	spoke     bool  // an event was, other than of the response's lifecycle
	collector recovery.Collector
	watch     watchdog // on resp, once there is one
	capture   recovery.Capture
	detection Detection

	kind      string
	amended   bool          // its request tells of a cut
	nudged    bool          // and that tool calls are repeated
	silence   time.Duration // that ends it
	cancel    context.CancelFunc
	body      *outgoing
	resp      *http.Response
	stream    bool // resp is a stream of events that can be looked into
	peeked    bool
	said      []byte          // the beginning of an answer that is no stream, once peeked
	linger    *time.Timer     // ends a stream that goes on behind its terminal event
	traces    []ledger.Key    // of the reasoning items that were sent on
	firstByte time.Time       // of the stream
	trigger   recovery.Signal // what it is cut for
	failure   failure
	span      trace.Span
}

// incoming reads the events of a stream.
type incoming struct {
	scanner sseframe.Scanner
	parser  recovery.Parser
}

// incomings keeps the buffers of ended streams for later ones.
var incomings = sync.Pool{New: func() any { return new(incoming) }}

// newIncoming returns what reads r, to be released.
func newIncoming(r io.Reader, maxFrame int) *incoming {
	in := incomings.Get().(*incoming)
	in.scanner.MaxFrame = maxFrame
	in.scanner.Reset(r)
	return in
}

// release gives back the buffers.
func (in *incoming) release() {
	in.scanner.Reset(nil)
	in.parser.Reset()
	incomings.Put(in)
}

// begin prepares an attempt of the given kind.
func (x *exchange) begin(kind string) *attempt {
	x.rec.begins()
	a := &attempt{kind: kind, armed: x.armed(), amended: x.cuts > 0, nudged: x.nudge, span: noSpan}
	a.detection.Channels = x.p.cfg.Detector.Channels
	a.capture.ReasoningBytes = x.p.cfg.ReasoningBytes
	a.capture.TextBytes = x.p.cfg.TextBytes
	a.silence = x.silence()
	x.kept.release()
	if x.p.cfg.Capture.Dir != "" {
		x.kept = &kept{memory: &x.p.state.memory}
	}
	return a
}

// end gives back what the attempt holds. An answer that was not read to its end
// is not drained: its connection is closed, and never used again.
func (a *attempt) end() {
	if a.cancel != nil {
		a.cancel()
	}
	if a.body != nil {
		a.body.Close() //nolint:errcheck // it has none; the transport may take its time
	}
	if a.linger != nil {
		a.linger.Stop()
	}
	if a.resp != nil {
		a.watch.stop()
		a.resp.Body.Close()
	}
	a.detection.Close()
	if a.in != nil {
		a.in.release()
		a.in = nil
	}
}

// send makes the upstream request and waits for the head of its answer.
func (x *exchange) send(a *attempt) error {
	ctx, span := x.rec.traceAttempt(x.r.Context(), a.kind)
	ctx, cancel := context.WithCancel(ctx)
	a.span, a.cancel = span, cancel
	text, encoded := x.text(a)
	a.body = newOutgoing(text, &x.p.state.memory)
	// Without GetBody net/http cannot send the request again behind our back.
	r := new(http.Request).WithContext(ctx)
	r.Method = http.MethodPost
	r.URL = target(x.p.cfg.Upstream, x.req.url)
	r.Header = x.p.upstreamHeader(x.r.Header, encoded)
	r.Body, r.ContentLength = a.body.reader(), int64(len(text))
	x.rec.inject(ctx, r.Header)
	if x.renamed {
		r.Header.Del("Idempotency-Key")
	}
	if x.req.changed || a.amended || a.nudged || x.whole != nil && !x.plain {
		removeDigests(r.Header)
	}
	start := time.Now()
	resp, err := x.p.cfg.Transport.RoundTrip(r) //nolint:bodyclose // attempt.end does
	if err == nil && resp.StatusCode < http.StatusOK {
		resp.Body.Close()
		err = errNoAnswer
	}
	if err != nil {
		return fmt.Errorf("send upstream: %w", err)
	}
	x.p.meters.firstByte[a.kind].Observe(time.Since(start).Seconds())
	a.resp = resp
	a.watch.begin(resp.Body, a.silence, x.p.cfg.ClientTimeout/perLimit, cancel)
	x.watch, x.pulse = &a.watch, -1
	resp.Body = &a.watch
	a.in = newIncoming(resp.Body, x.p.cfg.MaxFrame)
	return nil
}

// text returns the attempt's body, and whether it is encoded as the client's
// headers say. What is added to the client's input comes last in it.
func (x *exchange) text(a *attempt) (body string, encoded bool) {
	whole := x.whole != nil && !x.plain
	body, encoded = x.req.first()
	if whole || a.amended && !x.plain || a.nudged {
		body, encoded = x.req.body, false
	}
	if a.amended && !x.plain {
		body = x.replay.Amend(body)
	}
	if a.nudged {
		body = stationarity.Nudge(body, x.req.repeated)
	}
	if whole {
		body = askForStream(body)
	}
	return body, encoded
}

// silence returns how long the attempt may send nothing.
func (x *exchange) silence() time.Duration {
	if x.mayRetry(FailureIdle) { // or it would only be lost
		return min(x.p.cfg.Retry.IdleTimeout, x.p.cfg.Silence)
	}
	return x.p.cfg.Silence
}

// serve makes the attempt and passes on what comes of it, to its end.
func (x *exchange) serve(a *attempt) verdict {
	if err := x.await(func() error { return x.send(a) }); err != nil {
		a.failure = failure{"server_error", "the upstream could not be reached", err}
		if x.failedToSend(a, err) {
			return verdictRetry
		}
		return x.verdict(verdictFailed)
	}
	x.rec.answered(a.resp)
	status, h := a.resp.StatusCode, a.resp.Header
	named := isEventStream(h)
	a.stream = status == http.StatusOK && isPlain(h) && (named || x.req.stream && mayBeStream(h))
	switch {
	case a.stream:
		x.last = nil
		x.start(a)
		return x.relay(a)
	case x.failedStatus(a):
		return verdictRetry
	case a.amended && !x.plain, x.started:
		return x.refusal(a)
	case x.namesMissing(a):
		return verdictMissing
	case a.nudged && refusesContent(status):
		return x.refusal(a)
	case x.whole != nil && !x.plain && (refusesStream(status) || named && status == http.StatusOK):
		return verdictNoStream
	case x.req.protection == protected && x.req.stream && status == http.StatusOK && !named:
		return x.noStream(a)
	}
	if named && !isPlain(h) { // though identity was asked for
		x.p.cfg.Metrics.Unprotected.WithLabelValues(reasonBody).Inc()
	}
	x.start(a)
	if x.plain && a.kind != kindFirst && status < http.StatusBadRequest {
		x.p.state.streamless.remember(x.p.lesson(x.req.model))
	}
	return x.copyAnswer(a)
}

// verdict returns v, unless the client went away: that is then why the attempt
// ended.
func (x *exchange) verdict(v verdict) verdict {
	if x.left() {
		return verdictGone
	}
	return v
}

// left reports whether the client went away.
func (x *exchange) left() bool { return x.r.Context().Err() != nil || x.out.Err() != nil }

// start sends the client the head of the first answer. A client that wants a
// whole answer gets its head with it.
func (x *exchange) start(a *attempt) {
	resp := a.resp
	if x.whole != nil && a.stream {
		x.whole.header = resp.Header
		x.rec.enter(phaseThinking)
		return
	}
	if x.started {
		return
	}
	x.started = true
	h := x.w.Header()
	copyHeader(h, resp.Header)
	if a.stream || isEventStream(resp.Header) {
		h.Del("Content-Length") // further attempts may add to it
		h.Set("X-Accel-Buffering", "no")
	}
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // or net/http guesses one from the first event
	}
	x.rec.sent(resp.StatusCode)
	x.w.WriteHeader(resp.StatusCode)
	x.head.wrote(x.w)
	x.rec.enter(phaseThinking)
	if x.holds && a.stream {
		x.holdBack()
	}
}

// visible takes down that the client was sent what can't be taken back. No
// attempt follows this one, and its request is needed no more.
func (x *exchange) visible(a *attempt) {
	x.rec.enter(phaseVisible)
	x.req.release()
	x.kept.release() // it will not be discarded
	x.kept = nil
	a.watch.limit.Store(int64(x.p.cfg.Silence))
}

// copyAnswer passes on an answer that is no event stream as it is.
func (x *exchange) copyAnswer(a *attempt) verdict {
	if a.resp.StatusCode >= http.StatusBadRequest {
		x.rec.end(outcomeUpstreamError, nil)
	}
	x.visible(a)
	buf := make([]byte, 16<<10)
	for {
		n, err := a.resp.Body.Read(buf)
		x.write(buf[:n])
		if !x.flush() {
			return verdictGone
		}
		if errors.Is(err, io.EOF) {
			return verdictAccepted
		}
		if err != nil {
			a.failure = failure{err: fmt.Errorf("read upstream: %w", err)}
			return x.verdict(verdictDropped)
		}
	}
}

// await runs work, which ends when x's context does. If the client waits for
// an attempt it is kept alive meanwhile: then another goroutine does the work.
func (x *exchange) await(work func() error) error {
	if x.idle == nil {
		return work()
	}
	if x.work == nil {
		x.work, x.worked = make(chan func() error), make(chan worked, 1)
		go func() {
			for work := range x.work {
				x.worked <- do(work)
			}
		}()
	}
	x.work <- work
	for {
		select {
		case done := <-x.worked:
			if done.panicked != nil {
				panic(done.panicked)
			}
			return done.err
		case <-x.idle.C:
			x.keepAlive()
		}
	}
}

// worked is how some work of await ended.
type worked struct {
	err      error
	panicked any // what with, if it did
}

// do does work. A panic is to happen where net/http expects it.
func do(work func() error) (w worked) {
	defer func() {
		if cause := recover(); cause != nil {
			w.panicked = cause
		}
	}()
	w.err = work()
	return w
}

// release ends what await and waits began, and gives back what is kept.
func (x *exchange) release() {
	x.head.settle()
	if x.work != nil {
		close(x.work)
	}
	if x.idle != nil {
		x.idle.Stop()
	}
	if x.held != nil {
		x.held.release()
	}
	if x.whole != nil {
		x.whole.reset()
	}
	x.kept.release()
	x.rec.bytes += x.out.Written()
}

// pause waits for d between two attempts, and reports whether the client is
// still there.
func (x *exchange) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	x.await(func() error { //nolint:errcheck // it has none
		select {
		case <-timer.C:
		case <-x.r.Context().Done():
		}
		return nil
	})
	x.rec.enter(phaseWaiting)
	return x.verdict(verdictNone) != verdictGone
}

// idleTimer ticks while a started response waits for its next attempt.
type idleTimer struct {
	*time.Ticker
	since time.Time
}

func newIdleTimer(interval time.Duration) *idleTimer {
	return &idleTimer{time.NewTicker(interval), time.Now()}
}

// waits keeps the client alive from now on until an attempt sends.
func (x *exchange) waits(during phase) {
	x.rec.enter(during)
	if x.idle == nil && x.started {
		x.idle = newIdleTimer(x.p.cfg.KeepAlive)
	}
}

// sending takes down that the attempt sent something on, so that the client
// waits no more.
func (x *exchange) sending(a *attempt) {
	a.forwarded = true
	if x.idle != nil {
		x.idle.Stop()
		x.idle = nil
	}
	if !x.cutAt.IsZero() {
		x.p.cfg.Metrics.ResampleGap.Observe(time.Since(x.cutAt).Seconds())
		x.cutAt = time.Time{}
	}
	x.rec.enter(phaseThinking)
}
