package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
)

// Kinds of attempts, named as in the metrics.
const (
	kindFirst    = "first"
	kindRetry    = "retry"    // after a failure, or without an item that the upstream does not know
	kindResample = "resample" // after a cut
	kindLadder   = "ladder"   // after the upstream refused a resample
)

// maxLadder is the number of attempts that answer a refusal: the reminder
// alone, and the client's own body.
const maxLadder = 2

// lockedWait is the wait before the same request is sent again to an upstream
// that said it was busy with the one before; it doubles each time.
const lockedWait = 250 * time.Millisecond

// bytesPerToken is the usual estimate for English text and code.
const bytesPerToken = 4

// exchange is one inspected request: what its client was sent, and the attempts
// that are made for it, one after the other.
type exchange struct {
	// Each frame touches these.
	view     *recovery.View
	rec      *record
	received int64      // frames
	unsent   []byte     // frames, one behind the other in the attempt's scanner, that are to be written
	unpaced  int        // bytes written since rec.pace was looked at
	watch    *watchdog  // of the current attempt, once it has an answer
	pulse    int64      // of watch, when rec.pace was extended last
	idle     *idleTimer // runs while the client waits for an attempt
	kept     *kept      // of the current attempt, if that is asked for
	// How the client is sent the answer: live, unless one of these says otherwise.
	held    *hold  // so much of it is held back
	whole   *whole // the client wants one JSON object
	drill   bool   // one cut is to be made without a report
	listens bool   // loops are looked for on this side
	// started is set once the client has seen bytes. Before, an error is an
	// HTTP status; after, it is a response.failed or a dropped connection.
	started bool
	head    head // of the answer, until something follows it
	out     sseframe.Writer

	p      *Proxy
	req    *request
	r      *http.Request // its context ends with the client, or by cancel
	cancel context.CancelCauseFunc
	w      http.ResponseWriter

	replay  recovery.Replay
	cuts    int // made so far, of Policy.MaxRetries
	retries int // made so far, of Retry.MaxRetries
	ladder  int // attempts spent, of maxLadder
	missing int // attempts spent, of maxMissing
	history history

	// What again decided last.
	retryWhy  Failure
	retryWait time.Duration
	backOff   backoff.BackOff

	last    *answer // the upstream's last answer, if it was an error
	renamed bool    // the client's idempotency key is not that of the next attempt

	redone   bool // a stream was discarded: what comes now stands in its place
	nudge    bool // attempts tell the agent's model that tool calls are repeated
	unnudged bool // no more, since the upstream refused that
	holds    bool // what attempts think is held back
	plain    bool // the upstream is to make one JSON object, unprotected

	work   chan func() error // to the goroutine of await, once there is one
	worked chan worked       // from it
	cutAt  time.Time         // when the attempt before this one was cut; zero once the next one sends

	acceptedAfterBudget, late bool
}

// failure is what a client is told when no attempt succeeds.
type failure struct {
	code, message string
	err           error // for the log
}

// exchange serves an inspected request.
func (p *Proxy) exchange(w http.ResponseWriter, r *http.Request, rec *record, req *request) {
	x := p.newExchange(w, r, rec, req)
	defer x.release()
	x.run()
}

func (p *Proxy) newExchange(w http.ResponseWriter, r *http.Request, rec *record, req *request) *exchange {
	x := &exchange{
		p: p, w: w, r: r, cancel: rec.live.cancel, rec: rec, req: req,
		out:     *sseframe.NewWriter(w, &rec.pace.conn),
		replay:  recovery.Replay{Reminder: p.cfg.Reminder},
		holds:   p.holds(r, req),
		history: history{p: p},
	}
	x.listens = req.detector != ModeOff
	x.drill = p.cfg.Drill && strings.EqualFold(r.Header.Get(headerDrill), "cut")
	x.nudge = req.action == stationarity.ActionNudge
	x.view = x.newView()
	if !req.stream {
		x.whole = &whole{memory: &p.state.memory}
		if p.state.streamless.known(p.lesson(req.model)) {
			x.unprotect()
		}
	}
	if req.previous || p.state.refusals.known(p.lesson(req.model)) {
		x.replay.StartAt(recovery.ModeReminder)
	}
	return x
}

// holds reports whether what attempts think is held back for a request. Where
// nothing is ever made again that would only make the client wait.
func (p *Proxy) holds(r *http.Request, req *request) bool {
	delivery := Delivery(strings.ToLower(r.Header.Get(headerDelivery)))
	if delivery != DeliveryLive && delivery != DeliveryHold {
		delivery = p.cfg.Delivery
	}
	return delivery == DeliveryHold && req.stream && req.protection == protected && p.cfg.Policy.MaxRetries+p.cfg.Retry.MaxRetries > 0
}

// newView returns the view of a client that was sent nothing.
func (x *exchange) newView() *recovery.View {
	return recovery.NewView(x.p.closing(x.r.UserAgent()), recovery.Response{
		ID:        `"resp_` + x.rec.id + `"`,
		Model:     string(gjson.AppendJSONString(nil, x.req.model)),
		CreatedAt: strconv.FormatInt(x.rec.start.Unix(), 10),
	})
}

// closing returns how discarded items are closed for a client.
func (p *Proxy) closing(userAgent string) recovery.Close {
	for _, profile := range p.cfg.Profiles {
		if strings.HasPrefix(userAgent, profile.UserAgentPrefix) {
			return profile.Close
		}
	}
	return recovery.CloseTombstone
}

// run makes attempts until one is the answer, or none can be.
func (x *exchange) run() {
	for kind := kindFirst; ; {
		var wait time.Duration
		a, v := x.try(kind)
		x.count(a, v)
		switch v {
		case verdictCut, verdictRefused, verdictLocked, verdictFailed, verdictDropped, verdictRetry:
			x.discard(a)
		default:
		}
		switch v {
		case verdictAccepted:
			x.accepted()
			return
		case verdictGone:
			x.rec.gone(x.w, x.r)
		case verdictCut:
			kind, wait = kindResample, rand.N(x.p.cfg.CutJitter) // #nosec G404 -- a jitter is no secret
			x.resample(a)
		case verdictRetry:
			kind, wait = kindRetry, x.retryWait
			x.retried(a)
		case verdictRefused, verdictLocked:
			kind = kindLadder
			if !x.stepDown(a, v) {
				x.giveUp(a.failure)
				return
			}
			if v == verdictLocked {
				wait = lockedWait << x.ladder
			}
		case verdictMissing:
			kind, x.renamed = kindRetry, true
		case verdictNoStream:
			kind, x.renamed = kindLadder, true
			x.unprotect()
		case verdictDropped:
			x.drop(a.failure)
		case verdictFailed, verdictNone:
			x.giveUp(a.failure)
			return
		}
		if !x.pause(wait) {
			x.rec.gone(x.w, x.r)
		}
	}
}

// try makes one attempt.
func (x *exchange) try(kind string) (*attempt, verdict) {
	a := x.begin(kind)
	defer a.end()
	v := x.serve(a)
	x.writeFrames() // while the scanner is the attempt's
	x.watch = nil
	return a, v
}

// unprotect lets the upstream answer a client that wants no stream by itself,
// since it makes none.
func (x *exchange) unprotect() {
	x.plain = true
	x.p.cfg.Metrics.Unprotected.WithLabelValues(reasonBody).Inc()
}

// discard remembers what the client was sent of an attempt that is not the
// answer, so that it is told when it comes back.
func (x *exchange) discard(a *attempt) {
	if x.kept != nil {
		x.p.keep(x.rec.id, x.rec.attempts, x.kept.raw)
	}
	if x.whole == nil {
		x.history.discard(x.r.Context(), a.traces)
	}
}

// armed reports whether a loop in the current attempt is cut.
func (x *exchange) armed() bool {
	return x.req.protection == protected && x.cuts < x.p.cfg.Policy.MaxRetries
}

// accepted takes down what became of the request with its answer.
func (x *exchange) accepted() {
	if x.whole != nil && !x.started {
		x.answerWhole()
	}
	if x.unnudged && x.rec.status == http.StatusOK {
		x.p.state.nudgeless.remember(x.p.lesson(x.req.model))
	}
	switch {
	case x.acceptedAfterBudget:
		x.rec.end(outcomeAcceptedAfterBudget, nil)
	case x.late:
		x.rec.end(outcomeLate, nil)
	case x.cuts > 0:
		x.rec.end(outcomeRecovered, nil)
	case x.retries > 0:
		x.rec.end(outcomeRetried, nil)
	}
}

// resample takes in a cut attempt and makes way for the next one.
func (x *exchange) resample(a *attempt) {
	x.cuts++
	x.rec.cuts++
	x.renamed = true
	x.cutAt = time.Now()
	m := x.p.cfg.Metrics
	m.Replay.WithLabelValues(string(x.replay.Add(&a.capture))).Inc()
	x.rec.discarded += a.bytes
	m.DiscardedBytes.Add(float64(a.bytes))
	m.DiscardedTokensEstimated.Add(float64(a.textBytes / bytesPerToken))
	m.TimeToAbort.Observe(time.Since(a.firstByte).Seconds())
	x.rec.event("doomproxy.resample", attribute.Int("doomproxy.resample.number", x.cuts))
	x.makeWay(a, fmt.Sprintf("doomproxy resample=%d trigger=%s", x.cuts, recovery.SanitizeLabel(a.trigger.Label)))
}

// retried takes in an attempt that failed and makes way for the next one.
func (x *exchange) retried(a *attempt) {
	x.rec.retries++
	// An upstream that had begun to answer may keep that answer under its key.
	x.renamed = x.renamed || a.stream
	x.rec.event("doomproxy.retry", attribute.Int("doomproxy.retry.number", x.retries), attribute.String("doomproxy.retry.reason", string(x.retryWhy)))
	x.makeWay(a, fmt.Sprintf("doomproxy retry=%d reason=%s", x.retries, x.retryWhy))
}

// makeWay ends on the client's side what it was sent of an attempt, if that is
// anything, and has it wait for the next one.
func (x *exchange) makeWay(a *attempt, comment string) {
	x.redone = x.redone || a.stream
	switch {
	case x.whole != nil:
		x.whole.reset()
		x.view = x.newView()
	case x.held != nil:
		x.dropHeld(comment)
	case x.started:
		x.splice(comment)
	}
	x.waits(phaseBackoff)
}

// splice closes on the client's side what the attempt left open.
func (x *exchange) splice(comment string) {
	raw, frames := x.view.Splice(comment)
	x.write(raw)
	x.rec.frames[recovery.Synthesized] += frames
	x.flush()
}

// stepDown prepares another attempt after the upstream refused this one, and
// reports whether there is one to make.
func (x *exchange) stepDown(a *attempt, v verdict) bool {
	if v == verdictRefused && a.amended {
		x.p.cfg.Metrics.Replay.WithLabelValues("refused_by_upstream").Inc()
		if x.replay.Holds() && a.failure.namesReasoning() {
			x.p.state.refusals.remember(x.p.lesson(x.req.model))
		}
	}
	if v == verdictRefused {
		x.unnudged, x.nudge = x.unnudged || a.nudged && !a.amended, false
		if !x.replay.StepDown() && !a.nudged {
			return false
		}
		x.renamed = true
	}
	x.ladder++
	if a.stream { // refused in it
		x.makeWay(a, fmt.Sprintf("doomproxy ladder=%d", x.ladder))
	} else {
		x.waits(phaseBackoff)
	}
	return x.ladder <= maxLadder
}

// giveUp ends the request without an answer.
func (x *exchange) giveUp(f failure) {
	switch {
	case !x.started && x.last != nil:
		x.rec.end(x.failed(), f.err)
		x.sendLast()
	case !x.started && x.cuts > 0:
		x.rec.end(outcomeGaveUp, f.err)
		x.rec.sendError(x.w, http.StatusBadGateway, errorTypeOwn, f.code, f.message)
	case !x.started:
		x.rec.end(outcomeUpstreamError, f.err)
		status, code := upstreamStatus(f.err)
		x.rec.sendError(x.w, status, errorTypeOwn, code, f.message)
	case x.view.Visible:
		x.drop(f)
	default:
		x.rec.end(outcomeGaveUp, f.err)
		x.history.settle()
		raw, frames := x.view.Fail(f.code, f.message)
		x.write(raw)
		x.rec.frames[recovery.Synthesized] += frames
		x.flush()
	}
}

// drop ends the connection, so that what the client has does not look complete.
func (x *exchange) drop(f failure) {
	x.rec.end(x.failed(), f.err)
	x.flush() // or net/http throws away what it still buffers
	x.history.settle()
	abort(x.w, x.r)
}

// failed returns the outcome of a request that is left without an answer.
func (x *exchange) failed() outcome {
	if x.cuts > 0 {
		return outcomeGaveUp
	}
	return outcomeUpstreamError
}

// count takes down an attempt that ended.
func (x *exchange) count(a *attempt, v verdict) {
	m := x.p.cfg.Metrics
	result := v.String()
	if v == verdictRetry {
		result = string(x.retryWhy)
	}
	a.traceEnd(result)
	m.Attempts.WithLabelValues(x.p.cfg.UpstreamName, a.kind, result).Inc()
	m.MalformedChecks.Add(float64(a.collector.Malformed()))
}
