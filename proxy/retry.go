package proxy

import (
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/doomproxy/doomproxy/recovery"
)

// Failure is a way in which an attempt can fail before anything is visible, so
// that the request can be made again. The names are those of the configuration
// and of the metrics.
type Failure string

// The failures.
const (
	FailureConnect   Failure = "connect"      // no answer: refused, reset, timed out
	FailureRateLimit Failure = "rate_limit"   // status 429
	FailureServer    Failure = "server"       // status 500, 502, 503, 504, 520 to 524, 529, 530
	FailureDrop      Failure = "drop"         // the stream broke off
	FailureEvent     Failure = "failed_event" // the stream told of an error on the server's side
	FailureEmpty     Failure = "empty"        // completed, with nothing but reasoning
	FailureIdle      Failure = "idle"         // no byte for Retry.IdleTimeout
)

// Failures returns all failures, in the order of their documentation.
func Failures() []Failure {
	return []Failure{FailureConnect, FailureRateLimit, FailureServer, FailureDrop, FailureEvent, FailureEmpty, FailureIdle}
}

// DefaultRetryOn returns the failures after which a request is made again unless
// configured otherwise: all but FailureIdle, for a model may think in silence.
func DefaultRetryOn() []Failure {
	return slices.DeleteFunc(Failures(), func(f Failure) bool { return f == FailureIdle })
}

// Backoff says how the wait between two attempts grows.
type Backoff string

// The choices. The zero value is BackoffExponential.
const (
	BackoffExponential Backoff = "exponential" // doubles up to 16 times the first, with jitter
	BackoffLinear      Backoff = "linear"      // grows by the first, up to 16 times that
	BackoffFixed       Backoff = "fixed"       // stays
)

// maxBackoff is the longest wait, in units of the first: 8 s with the default.
const maxBackoff = 16

// Defaults of Retry where its fields are zero, and the number of retries that
// the command has by default.
const (
	DefaultTransportRetries = 2
	DefaultRetryMaxWait     = 30 * time.Second
	DefaultRetryIdleTimeout = 4 * time.Minute
	DefaultRetryFirstWait   = 500 * time.Millisecond
)

// Retry says which failed attempts are made again. It is a budget of its own,
// apart from that for loops.
type Retry struct {
	// MaxRetries is how often one request is made again; zero turns it off.
	MaxRetries int
	// MaxWait is the longest Retry-After that is waited for; zero means
	// DefaultRetryMaxWait. A rate limit that asks for more is passed on, other
	// failures are answered after as long.
	MaxWait time.Duration
	// Backoff and FirstWait are how long is waited where nothing is asked for;
	// zero means BackoffExponential and DefaultRetryFirstWait.
	Backoff   Backoff
	FirstWait time.Duration
	// On are the failures that are answered so; nil means DefaultRetryOn.
	On []Failure
	// IdleTimeout is when a silent attempt counts as FailureIdle; zero means
	// DefaultRetryIdleTimeout.
	IdleTimeout time.Duration
}

func (r Retry) withDefaults() Retry {
	r.MaxWait = orDefault(r.MaxWait, DefaultRetryMaxWait)
	r.Backoff = orDefault(r.Backoff, BackoffExponential)
	r.FirstWait = orDefault(r.FirstWait, DefaultRetryFirstWait)
	r.IdleTimeout = orDefault(r.IdleTimeout, DefaultRetryIdleTimeout)
	if r.On == nil {
		r.On = DefaultRetryOn()
	}
	return r
}

// newBackOff returns the waits of one request.
func (r *Retry) newBackOff() backoff.BackOff {
	switch r.Backoff {
	case BackoffFixed:
		return backoff.NewConstantBackOff(r.FirstWait)
	case BackoffLinear:
		return &linearBackOff{step: r.FirstWait}
	case BackoffExponential:
	}
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.FirstWait),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxBackoff*r.FirstWait),
		backoff.WithMaxElapsedTime(0), // the number of retries is the bound
	)
}

// linearBackOff waits a step longer each time.
type linearBackOff struct{ step, wait time.Duration }

func (b *linearBackOff) NextBackOff() time.Duration {
	b.wait = min(b.wait+b.step, maxBackoff*b.step)
	return b.wait
}

func (b *linearBackOff) Reset() { b.wait = 0 }

// mayRetry reports whether the request may be made once more after a failure of
// its current attempt, as far as the request itself goes.
func (x *exchange) mayRetry(why Failure) bool {
	r := &x.p.cfg.Retry
	return x.req.protection == protected && !x.plain && !x.view.Visible && !x.left() &&
		x.retries < r.MaxRetries && slices.Contains(r.On, why)
}

// again decides whether the request is made once more after its current attempt
// failed, not before the time asked for, and takes that from the budgets.
func (x *exchange) again(a *attempt, why Failure, asked time.Duration) bool {
	if !x.mayRetry(why) || a.resp != nil && strings.EqualFold(a.resp.Header.Get("X-Should-Retry"), "false") {
		return false
	}
	if !x.p.state.retries.spend(time.Now()) {
		return false
	}
	x.retries++
	if x.backOff == nil {
		x.backOff = x.p.cfg.Retry.newBackOff()
	}
	x.retryWait = max(x.backOff.NextBackOff(), asked)
	x.retryWhy = why
	return true
}

// failedToSend decides whether an attempt that got no answer is made again.
func (x *exchange) failedToSend(a *attempt, err error) bool {
	// A certificate that is not trusted will not be the next time either.
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return !untrusted && x.again(a, FailureConnect, 0)
}

// failedStatus decides whether an attempt with an error answer is made again.
func (x *exchange) failedStatus(a *attempt) bool {
	status, why := a.resp.StatusCode, FailureServer
	asked, limit := retryAfter(a.resp.Header.Get("Retry-After"), time.Now()), x.p.cfg.Retry.MaxWait
	switch {
	case status == http.StatusTooManyRequests:
		why = FailureRateLimit
		if asked > limit {
			return false
		}
	case !isServerFailure(status):
		return false
	}
	if !x.mayRetry(why) {
		return false // and nothing is to hold the answer up
	}
	x.peek(a) //nolint:errcheck // what can't be read is passed on so
	code, errorType, _ := a.tells()
	if why == FailureRateLimit && (isQuotaCode(code) || isQuotaCode(errorType)) {
		return false
	}
	return x.again(a, why, min(asked, limit))
}

// isServerFailure reports whether a status tells of a failure that may be gone
// the next time: 520 to 530 are those of a common content delivery network, less
// the two that are about a certificate, 529 is an overloaded API's.
func isServerFailure(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		520, 521, 522, 523, 524, 529, 530:
		return true
	}
	return false
}

// isQuotaCode reports whether an error code says that waiting does not help.
func isQuotaCode(code string) bool {
	return strings.Contains(code, "quota") || strings.Contains(code, "billing")
}

// retryAfter returns how long a Retry-After header asks to wait, zero if it does
// not say: it holds seconds or a date (RFC 9110, 10.2.3).
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// failedInBand decides whether an attempt is made again whose stream tells of an
// error, or ends with no answer in it.
func (x *exchange) failedInBand(a *attempt, ev *recovery.Event) bool {
	switch {
	case ev.Class == recovery.ClassError || ev.Type == "response.failed":
		code, message := ev.Failure()
		a.failure = failure{code, message, errRefusedInBand}
		return isServerCode(code) && x.again(a, FailureEvent, 0)
	case ev.Type == "response.completed":
		return ev.Empty() && x.again(a, FailureEmpty, 0)
	}
	return false
}

// isServerCode reports whether an error code speaks of a failure that may be
// gone the next time.
func isServerCode(code string) bool {
	if status, err := strconv.Atoi(code); err == nil {
		return status >= 500 && status <= 599
	}
	return code == "server_error" || strings.HasPrefix(code, "rate_limit") ||
		strings.Contains(code, "overloaded") || strings.Contains(code, "timeout")
}
