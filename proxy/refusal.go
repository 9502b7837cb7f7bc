package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/tidwall/gjson"
)

// maxErrorBody bounds what is read of an error answer to a further attempt, in
// bytes. API errors are a few hundred.
const maxErrorBody = 64 << 10

// answer is one that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// peek reads the beginning of an answer that is no event stream. It stays to be
// read. One that does not come is ended: it must not hold up what follows.
func (x *exchange) peek(a *attempt) error {
	if a.peeked {
		return nil
	}
	a.peeked, x.last = true, nil
	late := time.AfterFunc(x.p.cfg.Linger, a.cancel)
	defer late.Stop()
	body := a.resp.Body
	err := x.await(func() (err error) {
		a.said, err = io.ReadAll(io.LimitReader(body, maxErrorBody+1))
		return err
	})
	if err == nil && len(a.said) <= maxErrorBody {
		x.last = &answer{a.resp.StatusCode, a.resp.Header, a.said}
	}
	a.resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(a.said), body), body}
	return err
}

// sendLast answers the client as the upstream last did.
func (x *exchange) sendLast() {
	x.started = true
	copyHeader(x.w.Header(), x.last.header)
	x.rec.sent(x.last.status)
	x.w.WriteHeader(x.last.status)
	x.write(x.last.body)
	x.flush()
}

// tells returns what an answer says of its error, as far as it was peeked at.
func (a *attempt) tells() (code, errorType, message string) {
	e := gjson.GetBytes(a.said, "error")
	return e.Get("code").String(), e.Get("type").Str, e.Get("message").Str
}

// refusal decides about an answer to a further attempt that is no event stream.
func (x *exchange) refusal(a *attempt) verdict {
	err := x.peek(a)
	a.bytes = int64(len(a.said))
	code, errorType, message := a.tells()
	status := a.resp.StatusCode
	a.failure = failure{
		code:    cmp.Or(code, errorType, "server_error"),
		message: cmp.Or(message, "the upstream answered with status "+strconv.Itoa(status)),
		err:     &statusError{status},
	}
	switch {
	case err != nil, !a.amended && !a.nudged:
		return x.verdict(verdictFailed)
	case status == http.StatusConflict || status == http.StatusLocked || isLockedCode(a.failure.code):
		return x.verdict(verdictLocked)
	case refusesContent(status):
		return x.verdict(verdictRefused)
	}
	return x.verdict(verdictFailed)
}

// noStream is the failure of a 200 that is no stream although one was asked for.
// Clients would take it for an answer with nothing in it.
func (x *exchange) noStream(a *attempt) verdict {
	x.peek(a) //nolint:errcheck // it is a failure in any case
	x.last = nil
	_, _, message := a.tells()
	a.failure = failure{"upstream_no_stream", cmp.Or(message, "the upstream answered a request for a stream with something else"), errNoStream}
	return x.verdict(verdictFailed)
}

var errNoStream = errors.New("the upstream's answer is no event stream")

// statusError is an upstream's answer with a status that is no success.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return "the upstream answered with status " + strconv.Itoa(e.status)
}

// refusesContent reports whether a status says that the request itself is not
// wanted.
func refusesContent(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// refusedInBand returns the verdict if ev, as the first event of a further
// attempt but for lifecycle events, says that the upstream does not want the
// request.
func (x *exchange) refusedInBand(a *attempt, ev *recovery.Event) verdict {
	if !a.amended && !a.nudged || a.spoke || ev.Class != recovery.ClassError && ev.Type != "response.failed" {
		return verdictNone
	}
	code, message := ev.Failure()
	a.failure = failure{code, message, errRefusedInBand}
	switch {
	case isLockedCode(code):
		return verdictLocked
	case isClientCode(code):
		return verdictRefused
	}
	return verdictNone
}

var errRefusedInBand = errors.New("the upstream answered with an error event")

// isClientCode reports whether an error code blames the request.
func isClientCode(code string) bool {
	if status, err := strconv.Atoi(code); err == nil {
		return refusesContent(status)
	}
	return strings.HasPrefix(code, "invalid_") || strings.HasPrefix(code, "unsupported_") ||
		strings.HasSuffix(code, "_not_found") || strings.HasSuffix(code, "_too_long") ||
		strings.HasSuffix(code, "_above_max_length") || strings.HasSuffix(code, "_too_large") ||
		code == "context_length_exceeded" || code == "bad_request"
}

// isLockedCode reports whether an error code asks to try the same again later.
func isLockedCode(code string) bool {
	return code == "409" || code == "423" || code == "conflict" || strings.Contains(code, "locked")
}

// namesReasoning reports whether a refusal is about a replayed reasoning item,
// and not about something else in the request.
func (f failure) namesReasoning() bool {
	text := strings.ToLower(f.code + " " + f.message)
	return strings.Contains(text, "reasoning") || strings.Contains(text, "encrypted_content") ||
		strings.Contains(text, "'rs_")
}

// How long, and of how many models, a refusal is remembered.
const (
	refusalTTL  = 10 * time.Minute
	maxRefusals = 1000
)

// lesson returns the key of what is learned of a model: each upstream may behave
// differently.
func (p *Proxy) lesson(model string) string { return p.cfg.UpstreamName + " " + model }

// lessons tell for a while which models' upstreams refused something. Their zero
// value is empty. They are safe for concurrent use.
type lessons struct {
	mu    sync.Mutex
	until map[string]time.Time // by model; guarded by mu
}

func (m *lessons) remember(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if len(m.until) >= maxRefusals {
		maps.DeleteFunc(m.until, func(_ string, t time.Time) bool { return now.After(t) })
	}
	if m.until == nil {
		m.until = make(map[string]time.Time)
	}
	if len(m.until) < maxRefusals && len(model) <= 256 {
		m.until[model] = now.Add(refusalTTL)
	}
}

func (m *lessons) known(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.until[model])
}
