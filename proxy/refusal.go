package proxy

import (
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

// refusal decides about an answer to a further attempt that is no event stream.
func (x *exchange) refusal(a *attempt) verdict {
	var body []byte
	err := x.await(func() (err error) {
		body, err = io.ReadAll(io.LimitReader(a.resp.Body, maxErrorBody))
		return err
	})
	a.bytes = int64(len(body))
	e := gjson.GetBytes(body, "error")
	code := e.Get("code").String()
	if code == "" {
		code = e.Get("type").Str
	}
	a.failure = failure{code, e.Get("message").Str, &statusError{a.resp.StatusCode}}
	if a.failure.code == "" {
		a.failure.code = "server_error"
	}
	if a.failure.message == "" {
		a.failure.message = "the upstream answered with status " + strconv.Itoa(a.resp.StatusCode)
	}
	switch status := a.resp.StatusCode; {
	case err != nil:
		return x.verdict(verdictFailed)
	case status == http.StatusConflict || status == http.StatusLocked || isLockedCode(a.failure.code):
		return x.verdict(verdictLocked)
	case refusesContent(status):
		return x.verdict(verdictRefused)
	}
	return x.verdict(verdictFailed)
}

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
	if !a.amended() || a.spoke || ev.Class != recovery.ClassError && ev.Type != "response.failed" {
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

// memory remembers for a while which models' upstreams refused something. Its
// zero value is empty. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	until map[string]time.Time // by model; guarded by mu
}

func (m *memory) remember(model string) {
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

func (m *memory) known(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.until[model])
}
