package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/doomproxy/doomproxy/recovery"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// outcome is how a request ended, as the client's user sees it. Of several that
// apply the lowest one holds.
type outcome uint8

const (
	outcomeNone outcome = iota
	outcomeClientGone
	outcomeCancelled
	outcomeRejected
	outcomeGaveUp
	outcomeUpstreamError
	outcomeAcceptedAfterBudget
	outcomeLate
	outcomeRecovered
	outcomeRetried
	outcomeClean
)

func (o outcome) String() string {
	switch o {
	case outcomeClientGone:
		return "client_gone"
	case outcomeCancelled:
		return "cancelled"
	case outcomeRejected:
		return "rejected"
	case outcomeGaveUp:
		return "gave_up"
	case outcomeUpstreamError:
		return "upstream_error"
	case outcomeAcceptedAfterBudget:
		return "accepted_after_budget"
	case outcomeLate:
		return "late"
	case outcomeRecovered:
		return "recovered"
	case outcomeRetried:
		return "retried"
	case outcomeNone, outcomeClean:
	}
	return "clean"
}

// phase is what a request in flight is doing, named as in the metrics.
type phase string

const (
	phaseWaiting  phase = "waiting"  // no answer yet
	phaseThinking phase = "thinking" // frames arrive, nothing is visible yet
	phaseHeld     phase = "held"     // frames arrive and are held back
	phaseVisible  phase = "visible"
	phaseBackoff  phase = "backoff" // between two attempts
)

// statusClientGone is logged and counted for a client that left, after nginx.
const statusClientGone = 499

// maxLoggedLabels bounds the labels of one log record. An attempt may report
// 64, and a request may have several attempts.
const maxLoggedLabels = 16

// How much of a request's method and path is logged, in bytes: a client may send
// as much as headers may have.
const (
	maxLoggedMethod = 32
	maxLoggedPath   = 512
)

// record is what is counted and logged of one request, once, when it ends.
type record struct {
	// Each frame touches these.
	frames [recovery.Actions]int
	now    phase
	live   live // what others may see of it
	pace   pace // of what the client is sent

	p *Proxy

	id    string
	start time.Time
	span  trace.Span
	// generation are attributes of spans, if a response is asked for.
	generation []attribute.KeyValue

	method, path      string
	model             string // as a metric label
	protection        protection
	status            int    // sent to the client; 0 if none was
	upstreamRequestID string // the last attempt's x-request-id

	outcome   outcome
	attempts  int
	cuts      int // resamples asked for
	retries   int // after failures
	bytes     int64
	discarded int64 // bytes of cut attempts
	labels    []string
	loops     []string // that were found on this side, in numbers
	repeated  string   // tool calls in the request, and what is done about them
	err       error    // why the outcome is no better, if there is a cause to tell
}

// headerRequestID carries the id of a request's log record on each answer.
const headerRequestID = "X-Doomproxy-Request-Id"

func newRequestID() string {
	var id [12]byte
	rand.Read(id[:]) //nolint:errcheck // never fails, by its documentation
	return hex.EncodeToString(id[:])
}

func (p *Proxy) newRecord(w http.ResponseWriter, r *http.Request, cancel context.CancelCauseFunc) *record {
	rec := &record{
		p:          p,
		id:         newRequestID(),
		start:      time.Now(),
		span:       noSpan,
		method:     r.Method[:min(len(r.Method), maxLoggedMethod)],
		path:       r.URL.Path[:min(len(r.URL.Path), maxLoggedPath)],
		model:      "unknown",
		labels:     []string{},
		protection: passthrough,
	}
	rec.pace.begin(w, p.cfg.ClientTimeout)
	rec.live.start, rec.live.cancel = rec.start, cancel
	rec.live.shown = Running{
		ID: rec.id, Upstream: p.cfg.UpstreamName, Model: rec.model, Protection: string(rec.protection), Signals: []string{},
	}
	p.state.enter(&rec.live)
	rec.enter(phaseWaiting)
	return rec
}

// enter moves the request to another phase.
func (rec *record) enter(next phase) {
	if rec.now == next {
		return
	}
	if rec.now != "" {
		rec.p.meters.inFlight[rec.now].Dec()
	}
	if next != "" {
		rec.p.meters.inFlight[next].Inc()
	}
	rec.now = next
	rec.live.change(func(shown *Running) { shown.Phase = string(next) })
}

// begins takes down that an attempt is made.
func (rec *record) begins() {
	rec.attempts++
	rec.live.change(func(shown *Running) { shown.Attempt = rec.attempts })
}

// classified takes down what is known once the request was read.
func (rec *record) classified(req *request) {
	m := rec.p.cfg.Metrics
	rec.protection = req.protection
	rec.model = m.ModelLabel(req.model)
	rec.live.change(func(shown *Running) {
		shown.Model, shown.Protection = rec.model, string(rec.protection)
	})
	rec.traceClassified(req)
	if req.reason != "" {
		m.Unprotected.WithLabelValues(req.reason).Inc()
	}
	if req.responses {
		if req.turnStart {
			rec.p.meters.turnStart.Inc()
		} else {
			rec.p.meters.followUp.Inc()
		}
	}
}

// end takes down an outcome; the lowest one given holds.
func (rec *record) end(o outcome, err error) {
	if rec.outcome == outcomeNone || o < rec.outcome {
		rec.outcome, rec.err = o, err
	}
}

// gone ends a request whose context ended. A client that is there all the same
// must not take what it has for an answer: gone panics.
func (rec *record) gone(w http.ResponseWriter, r *http.Request) {
	o := outcomeClientGone
	if errors.Is(context.Cause(r.Context()), ErrCancelled) {
		o = outcomeCancelled
	}
	rec.end(o, nil)
	abort(w, r)
}

// abort ends the connection, so that what was sent does not look complete. To a
// client of HTTP/1.0 that needs a reset: for it the end of the connection is that
// of the answer.
func abort(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			raw := conn
			if secure, ok := conn.(*tls.Conn); ok {
				raw = secure.NetConn()
			}
			if tcp, ok := raw.(*net.TCPConn); ok {
				tcp.SetLinger(0) //nolint:errcheck // then it ends as it ends
			}
			raw.Close()
		}
	}
	panic(http.ErrAbortHandler)
}

// sent takes down the status that the client is sent.
func (rec *record) sent(status int) { rec.status = status }

// reject answers a request that is not sent on.
func (rec *record) reject(w http.ResponseWriter, status int, code, message string) {
	rec.end(outcomeRejected, nil)
	rec.sendError(w, status, errorTypeOwn, code, message)
}

// errorTypeOwn is the type of errors that are the proxy's and not the API's.
const errorTypeOwn = "proxy_error"

// sendError answers with an error of the API's shape.
func (rec *record) sendError(w http.ResponseWriter, status int, errorType, code, message string) {
	type apiError struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	}
	body, _ := json.Marshal(map[string]apiError{"error": {message, errorType, code}}) //nolint:errchkjson // strings always marshal
	rec.sent(status)
	rec.pace.refuse()
	rec.pace.extend()
	w.Header().Set(headerRequestID, rec.id)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	n, _ := w.Write(body) // the answer ends here, whether or not it arrives
	rec.bytes += int64(n)
}

// signal takes down a signal that came for the first time in its attempt.
func (rec *record) signal(s recovery.Signal, confident bool) {
	rec.p.cfg.Metrics.DoomSignals.WithLabelValues(
		s.Source.String(), s.Kind.String(), s.ChannelLabel(), strconv.FormatBool(confident)).Inc()
	label := recovery.SanitizeLabel(s.Label)
	rec.label(label)
	rec.event("doomproxy.signal", attribute.String("doomproxy.signal.label", label),
		attribute.String("doomproxy.signal.source", s.Source.String()), attribute.Bool("doomproxy.signal.confident", confident))
}

// label takes down the label of a report.
func (rec *record) label(label string) {
	if len(rec.labels) < maxLoggedLabels && !slices.Contains(rec.labels, label) {
		rec.labels = append(rec.labels, label)
		rec.live.change(func(shown *Running) { shown.Signals = append(shown.Signals, label) })
	}
}

// errPanic is why a request ended whose handler has a fault.
var errPanic = errors.New("the proxy panicked")

// finish counts and logs the request. It runs deferred, so that it also sees
// what a panic ends.
func (rec *record) finish() {
	if cause := recover(); cause != nil {
		if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
			rec.end(outcomeGaveUp, errPanic)
		}
		defer panic(cause)
	}
	rec.pace.extend() // for the end that net/http writes
	rec.enter("")
	rec.end(outcomeClean, nil)
	code := rec.status
	if rec.outcome == outcomeClientGone {
		code = statusClientGone
	}
	rec.traceEnd(code)
	m, o := rec.p.cfg.Metrics, rec.outcome.String()
	took := time.Since(rec.start)
	m.Requests.WithLabelValues(rec.p.cfg.UpstreamName, string(rec.protection), o, strconv.Itoa(code), rec.model).Inc()
	m.RequestDuration.WithLabelValues(string(rec.protection), o).Observe(took.Seconds())
	for action, n := range rec.frames {
		rec.p.meters.frames[action].Add(float64(n))
	}
	var recovered *Recovery
	if rec.recovers() {
		m.Recoveries.WithLabelValues(o).Inc()
		recovered = &Recovery{
			ID: rec.id, Time: time.Now(), Upstream: rec.p.cfg.UpstreamName, Model: rec.model, Outcome: o,
			Attempts: rec.attempts, Cuts: rec.cuts, Discarded: rec.discarded, Seconds: took.Seconds(), Signals: rec.labels,
		}
	}
	rec.p.state.leave(rec.id, recovered)
	rec.log(code, took)
}

// log writes the request's log record.
func (rec *record) log(code int, took time.Duration) {
	level := slog.LevelInfo
	if rec.outcome == outcomeGaveUp || rec.outcome == outcomeUpstreamError {
		level = slog.LevelWarn
	}
	logger := rec.p.cfg.Logger
	if !logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("id", rec.id),
		slog.String("method", rec.method),
		slog.String("path", rec.path),
		slog.String("upstream", rec.p.cfg.UpstreamName),
		slog.String("model", rec.model),
		slog.String("protection", string(rec.protection)),
		slog.String("outcome", rec.outcome.String()),
		slog.Int("status", code),
		slog.Int("attempts", rec.attempts),
		slog.Int("cuts", rec.cuts),
		slog.Int("retries", rec.retries),
		slog.Any("signals", rec.labels),
		slog.Int64("bytes", rec.bytes),
		slog.Float64("seconds", took.Seconds()),
	}
	if rec.repeated != "" {
		attrs = append(attrs, slog.String("stationarity", rec.repeated))
	}
	if len(rec.loops) > 0 {
		attrs = append(attrs, slog.Any("loops", rec.loops))
	}
	if rec.upstreamRequestID != "" {
		attrs = append(attrs, slog.String("upstream_request_id", rec.upstreamRequestID))
	}
	if rec.err != nil {
		attrs = append(attrs, slog.String("error", describe(rec.err)))
	}
	logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// recovers reports whether the request counts as a recovery: a loop was cut, or
// would have been but for the budget or for what was visible.
func (rec *record) recovers() bool {
	switch rec.outcome {
	case outcomeRecovered, outcomeAcceptedAfterBudget, outcomeLate:
		return true
	case outcomeGaveUp, outcomeClientGone:
		return rec.cuts > 0
	case outcomeNone, outcomeCancelled, outcomeRejected, outcomeUpstreamError, outcomeRetried, outcomeClean:
	}
	return false
}
