// Package proxy is an HTTP handler that forwards requests to a Responses-style
// API and ends doom loops on the way: when the upstream reports that an answer
// has begun to repeat itself, it cuts that attempt and goes on with a fresh one
// inside the same client response.
//
// One goroutine serves a request: it reads a frame, decides, and writes. Only
// while a started response waits for its next attempt a second one may read.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/stationarity"
	"go.opentelemetry.io/otel/trace"
)

// Mode says what is done about loops.
type Mode string

// The modes. The zero value is ModeEnforce.
const (
	ModeEnforce Mode = "enforce" // cut and recover
	ModeObserve Mode = "observe" // count and log what would be cut, cut nothing
	ModeOff     Mode = "off"     // ask for no reports, look into no stream
)

// OptIn says whose the recovery is when a client asks for reports itself.
type OptIn string

// The choices. The zero value is OptInDefer.
const (
	OptInDefer OptIn = "defer" // the client's: its streams pass untouched
	OptInOwn   OptIn = "own"   // the proxy's
)

// SignalHeaders says which upstreams are asked to report loops.
type SignalHeaders string

// The choices. The zero value is SignalHeadersAuto.
const (
	SignalHeadersAuto   SignalHeaders = "auto" // all but those known to have no such reports
	SignalHeadersAlways SignalHeaders = "always"
	SignalHeadersNever  SignalHeaders = "never"
)

// Profile chooses how discarded items are closed for clients whose User-Agent
// begins with a prefix.
type Profile struct {
	UserAgentPrefix string
	Close           recovery.Close
}

// DefaultProfiles returns the profiles of clients known to tolerate an item
// without an end but to keep a tombstone in their history for good. All others
// get tombstones.
func DefaultProfiles() []Profile {
	var profiles []Profile
	for _, prefix := range []string{"codex", "Codex ", "pi/", "pi (", "opencode/"} {
		profiles = append(profiles, Profile{prefix, recovery.CloseDangling})
	}
	return profiles
}

// Defaults of Config where its fields are zero.
const (
	DefaultWindowTokens             = 1024
	DefaultExactRepetitionMinTokens = 64
	DefaultMaxBody                  = 64 << 20
	DefaultKeepAlive                = 15 * time.Second
	DefaultProgressAfter            = time.Minute
	DefaultLinger                   = 2 * time.Second
	DefaultCutJitter                = 250 * time.Millisecond
	DefaultMaxMemory                = 1 << 30
	DefaultClientTimeout            = time.Minute
	DefaultSilence                  = 10 * time.Minute
)

// Config is what a Proxy is made of. Only Upstream is required.
type Config struct {
	// Upstream is the base URL the agent itself would have used, path
	// included. UpstreamName names it in metrics; empty means "default".
	Upstream     *url.URL
	UpstreamName string

	Mode          Mode
	Detector      Detector
	Stationarity  Stationarity
	ClientOptIn   OptIn
	SignalHeaders SignalHeaders

	// WindowTokens and ExactRepetitionMinTokens are what the upstream's
	// detector is asked for, in tokens; zero means the defaults.
	WindowTokens             int
	ExactRepetitionMinTokens int

	// Policy decides what is cut. Its MaxRetries is used as it is: zero means
	// that no loop is ever cut.
	Policy recovery.Policy
	// Reminder is the text an attempt is told about the one before; empty
	// means recovery.DefaultReminder.
	Reminder string
	// ReasoningBytes and TextBytes bound what a cut attempt is replayed with;
	// zero means the defaults of package recovery.
	ReasoningBytes, TextBytes int
	// Profiles are tried in order; nil means DefaultProfiles.
	Profiles []Profile

	// Delivery is how clients are sent what an attempt thinks; a request may
	// choose otherwise. HoldMaxBytes bounds what is held back for one; zero
	// means DefaultHoldMaxBytes.
	Delivery     Delivery
	HoldMaxBytes int
	// NonStreaming says what is done for requests that ask for no stream.
	NonStreaming NonStreaming

	// Retry says which attempts that fail are made again. Its MaxRetries is used
	// as it is: zero means none.
	Retry Retry

	// MaxBody is the bound of a request body that has to be read, and MaxFrame
	// that of one frame, in bytes; zero means the defaults.
	MaxBody  int64
	MaxFrame int

	// MaxMemory bounds the request bodies and the held events of all requests
	// together, in bytes; zero means the default. Requests beyond it are not
	// protected.
	MaxMemory int64
	// MaxConcurrent bounds the protected requests that run at a time; zero means
	// that nothing does. Requests beyond it are refused.
	MaxConcurrent int
	// ClientTimeout is how long a client may take to send the next bytes of its
	// body, and to take the next bytes of its answer; Silence is how long any
	// upstream may let a stream wait for its next byte. Zero means the defaults.
	ClientTimeout, Silence time.Duration

	// Authorize reports whether a request with that x-doomproxy-token may be
	// served; nil means that any may. It is called concurrently.
	Authorize func(token string) bool

	// KeepAlive is how often a client that waits for a further attempt is sent
	// a comment, and ProgressAfter when it is first told response.in_progress
	// again; Linger is how long a stream may go on behind its terminal event;
	// CutJitter is the longest wait between a cut and the next attempt. Zero
	// means the defaults.
	KeepAlive, ProgressAfter, Linger, CutJitter time.Duration

	// State is shared by all proxies of a process, those of an earlier
	// configuration included; nil means one of its own.
	State *State
	// Drill lets the request header x-doomproxy-drill: cut force one cut.
	Drill bool
	// Capture keeps discarded attempts; its zero value keeps none.
	Capture Capture

	// Transport sends requests upstream; nil means NewTransport.
	Transport http.RoundTripper
	// Ledger remembers what discarded attempts sent; nil means in memory, for
	// this Proxy alone. LedgerName names its kind in metrics; empty means
	// "memory". Who made it closes it.
	Ledger     ledger.Store
	LedgerName string
	// Metrics and Logger are where requests are counted and recorded; nil
	// means nowhere.
	Metrics *metrics.Metrics
	Logger  *slog.Logger
	// Tracer makes the spans of requests and attempts; nil means none.
	Tracer trace.Tracer
	// AdminURL is told to who asks for the root page; it may be empty.
	AdminURL string
}

// ErrCancelled is the cause (see context.Cause) with which the context of a
// request is cancelled that is to be dropped although its client is there.
var ErrCancelled = errors.New("the request was cancelled on this side")

// ErrUpstream is returned by New for an upstream URL that cannot be used.
var ErrUpstream = errors.New("unusable upstream URL")

// Proxy is an http.Handler. It is safe for concurrent use.
type Proxy struct {
	cfg    Config
	state  *State
	asks   http.Header // what the upstream is asked for besides, to report loops
	meters *meters
}

// New returns a Proxy for cfg.
func New(cfg Config) (*Proxy, error) {
	u := cfg.Upstream
	if u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%w: want http(s)://host[:port][/path][?query]", ErrUpstream)
	}
	cfg.Mode = orDefault(cfg.Mode, ModeEnforce)
	cfg.Detector.Mode = orDefault(cfg.Detector.Mode, ModeEnforce)
	cfg.Stationarity.Mode = orDefault(cfg.Stationarity.Mode, ModeEnforce)
	cfg.Stationarity.Injected = append(slices.Clip(cfg.Stationarity.Injected), cmp.Or(cfg.Reminder, recovery.DefaultReminder))
	cfg.ClientOptIn = orDefault(cfg.ClientOptIn, OptInDefer)
	cfg.SignalHeaders = orDefault(cfg.SignalHeaders, SignalHeadersAuto)
	cfg.UpstreamName = orDefault(cfg.UpstreamName, "default")
	cfg.WindowTokens = orDefault(cfg.WindowTokens, DefaultWindowTokens)
	cfg.ExactRepetitionMinTokens = orDefault(cfg.ExactRepetitionMinTokens, DefaultExactRepetitionMinTokens)
	cfg.Policy = cfg.Policy.Clamped()
	cfg.Delivery = orDefault(cfg.Delivery, DeliveryLive)
	cfg.HoldMaxBytes = orDefault(cfg.HoldMaxBytes, DefaultHoldMaxBytes)
	cfg.NonStreaming = orDefault(cfg.NonStreaming, NonStreamingProtect)
	cfg.Retry = cfg.Retry.withDefaults()
	cfg.MaxMemory = orDefault(cfg.MaxMemory, DefaultMaxMemory)
	cfg.ClientTimeout = orDefault(cfg.ClientTimeout, DefaultClientTimeout)
	cfg.Silence = orDefault(cfg.Silence, DefaultSilence)
	cfg.MaxBody = orDefault(cfg.MaxBody, DefaultMaxBody)
	cfg.KeepAlive = orDefault(cfg.KeepAlive, DefaultKeepAlive)
	cfg.ProgressAfter = orDefault(cfg.ProgressAfter, DefaultProgressAfter)
	cfg.Linger = orDefault(cfg.Linger, DefaultLinger)
	cfg.CutJitter = max(orDefault(cfg.CutJitter, DefaultCutJitter), 1)
	if cfg.Profiles == nil {
		cfg.Profiles = DefaultProfiles()
	}
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Ledger == nil {
		cfg.Ledger = ledger.NewMemory(ledger.Options{})
	}
	cfg.LedgerName = orDefault(cfg.LedgerName, "memory")
	if cfg.Metrics == nil {
		cfg.Metrics = metrics.New(nil, metrics.Build{})
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.State == nil {
		cfg.State = new(State)
	}
	p := &Proxy{cfg: cfg, state: cfg.State, asks: signalHeaders(&cfg), meters: newMeters(cfg.Metrics)}
	p.state.memory.limit.Store(cfg.MaxMemory)
	return p, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// ServeHTTP implements http.Handler. It panics with http.ErrAbortHandler where
// a started response must not look complete.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !isOwnTarget(r):
		p.refuse(w, r, http.StatusBadRequest, "unsupported_target",
			"the request target must be a path without dot segments: this is no proxy for other hosts")
	case p.cfg.Authorize != nil && !p.cfg.Authorize(r.Header.Get(headerToken)):
		w.Header().Set("WWW-Authenticate", headerToken)
		p.refuse(w, r, http.StatusUnauthorized, "unauthorized",
			"the header "+headerToken+" is missing or holds none of the tokens of this proxy")
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		p.root(w)
	default:
		p.serve(w, r)
	}
}

// isOwnTarget reports whether a request is for a path on this server. One with
// dot segments may lead out of what the upstream's URL names.
func isOwnTarget(r *http.Request) bool {
	if r.Method == http.MethodConnect || r.URL.IsAbs() || !strings.HasPrefix(r.URL.EscapedPath(), "/") {
		return false
	}
	if !strings.Contains(r.URL.Path, "/.") {
		return true
	}
	path := segments(r)
	return !slices.Contains(path, ".") && !slices.Contains(path, "..")
}

// headerToken is the header of Config.Authorize.
const headerToken = "X-Doomproxy-Token" // #nosec G101 -- the name of a header

// root tells who opens the base URL in a browser what it is.
func (p *Proxy) root(w http.ResponseWriter) {
	w.Header().Set(headerRequestID, newRequestID())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	admin := "The admin listener is off."
	if p.cfg.AdminURL != "" {
		admin = "Metrics and health are at " + p.cfg.AdminURL
	}
	text := "doomproxy: point your agent's base URL here, it forwards to a Responses-style API and ends doom loops.\n" + admin + "\n"
	_, _ = io.WriteString(w, text) // #nosec G705 -- plain text, and what is configured
}

// refuse answers a request that is not served.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	rec := p.newRecord(w, r, func(error) {})
	defer rec.finish()
	rec.reject(w, status, code, message)
}

// serve handles one request that is for the upstream.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	rec := p.newRecord(w, r, cancel)
	defer rec.finish()
	w.Header().Set(headerRequestID, rec.id)
	r = r.WithContext(rec.trace(ctx, r.Header))
	req := p.admit(w, r, rec)
	if req == nil {
		return
	}
	defer req.release()
	switch req.protection {
	case protected:
		defer p.state.protected.Add(-1)
		p.exchange(w, r, rec, req)
	case observed:
		p.exchange(w, r, rec, req)
	case deferred, passthrough:
		p.passThrough(w, r, rec, req)
	}
}

// admit reads a request and decides whether it goes to the upstream. If not it
// answers itself, and returns nil. A protected one counts in p.state until its end.
func (p *Proxy) admit(w http.ResponseWriter, r *http.Request, rec *record) (admitted *request) {
	if r.Method == http.MethodGet && makesResponse(segments(r)) && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		// Some clients try this first, and fall back to HTTP at this answer.
		w.Header().Set("Upgrade", "HTTP/1.1")
		rec.reject(w, http.StatusUpgradeRequired, "no_websocket", "responses are served over HTTP, not over a WebSocket")
		return nil
	}
	req, err := p.readRequest(w, r)
	defer func() {
		if admitted == nil {
			req.release()
		}
	}()
	if err != nil {
		p.rejectBody(w, r, rec, err)
		return nil
	}
	if !p.takes(w, r, rec, req) {
		return nil
	}
	return req
}

// takes is admit for a request that was read.
func (p *Proxy) takes(w http.ResponseWriter, r *http.Request, rec *record, req *request) bool {
	rec.classified(req)
	if req.read && req.fingerprint == 0 {
		body, _ := req.first()
		req.fingerprint = p.fingerprint(r, body)
	}
	p.state.known(r.Context(), &rec.live, req.fingerprint)
	if req.read && p.state.isCancelled(req.fingerprint) {
		rec.reject(w, http.StatusBadRequest, "cancelled_by_operator", "an operator cancelled this request a moment ago; it is not to be sent again at once")
		return false
	}
	rec.repeats(req.repeated)
	if req.action == stationarity.ActionStop {
		p.endTurn(w, r, rec, req)
		return false
	}
	if req.protection != protected {
		return true
	}
	n, most := p.state.protected.Add(1), p.cfg.MaxConcurrent
	if most > 0 && n > int64(most) {
		p.state.protected.Add(-1)
		w.Header().Set("Retry-After", "1")
		rec.reject(w, http.StatusServiceUnavailable, "too_many_requests", fmt.Sprintf("all of the %d requests that may run at a time do", most))
		return false
	}
	p.state.retries.request(time.Now())
	return true
}
