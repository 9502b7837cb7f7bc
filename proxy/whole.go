package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// NonStreaming says what is done for requests that ask for no event stream.
type NonStreaming string

// The choices. The zero value is NonStreamingProtect.
const (
	NonStreamingProtect     NonStreaming = "protect"     // ask for a stream, and answer with what it ends in
	NonStreamingPassthrough NonStreaming = "passthrough" // leave them alone
)

// maxWhole bounds the finished items that are kept in case the terminal event
// does not repeat them, in bytes.
const maxWhole = 16 << 20

// whole is the answer to a client that asked for no stream, made of one.
type whole struct {
	header   http.Header // of the attempt
	response string      // of the terminal event
	items    []string    // finished
	bytes    int         // of items and response
	memory   *allowance
	failed   bool // the attempt ended in an error
	code     string
	message  string
}

// reset forgets an attempt that is discarded, and gives back its memory.
func (w *whole) reset() {
	w.memory.give(w.bytes)
	*w = whole{memory: w.memory}
}

// keep returns text to be kept. The client cannot do without it.
func (w *whole) keep(text string) string {
	w.bytes += len(text)
	w.memory.need(len(text))
	return strings.Clone(text)
}

// add takes in an event of the attempt.
func (w *whole) add(ev *recovery.Event) {
	if item := ev.FinishedItem(); item != "" && w.bytes+len(item) <= maxWhole {
		w.items = append(w.items, w.keep(item))
	}
	if ev.Class == recovery.ClassError || ev.Type == "response.failed" {
		w.failed = true
		w.code, w.message = ev.Failure()
	}
	if ev.Class == recovery.ClassTerminal {
		w.failed = ev.Type == "response.failed"
		w.response = w.keep(ev.Response())
	}
}

// body returns the response object: the terminal event's, with the items that
// finished where it names none.
func (w *whole) body() string {
	if len(w.items) == 0 || gjson.Get(w.response, "output.0").Exists() {
		return w.response
	}
	body, err := sjson.SetRaw(w.response, "output", "["+strings.Join(w.items, ",")+"]")
	if err != nil {
		return w.response
	}
	return body
}

// answerWhole sends the client the object that a plain call gives, or the error.
func (x *exchange) answerWhole() {
	h := x.w.Header()
	copyHeader(h, x.whole.header)
	for _, name := range []string{"Content-Length", "Cache-Control", "X-Accel-Buffering"} {
		h.Del(name)
	}
	if x.whole.failed || !gjson.Parse(x.whole.response).IsObject() {
		x.rec.end(outcomeUpstreamError, nil)
		status, errorType := plainError(x.whole.code)
		x.rec.sendError(x.w, status, errorType, x.whole.code, x.whole.message)
		return
	}
	body := x.whole.body()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.rec.sent(http.StatusOK)
	x.w.WriteHeader(http.StatusOK)
	x.write([]byte(body))
	x.flush()
}

// plainError returns the status and the type that an error with the given code
// has as the answer to a plain call.
func plainError(code string) (status int, errorType string) {
	switch {
	case strings.Contains(code, "rate_limit") || code == "insufficient_quota":
		return http.StatusTooManyRequests, code
	case strings.HasSuffix(code, "_not_found"):
		return http.StatusNotFound, "invalid_request_error"
	case isClientCode(code):
		return http.StatusBadRequest, "invalid_request_error"
	case strings.Contains(code, "overloaded"):
		return http.StatusServiceUnavailable, "server_error"
	}
	return http.StatusInternalServerError, "server_error"
}

// askForStream returns a request body with its stream member set.
func askForStream(body string) string {
	streaming, err := sjson.SetRaw(body, "stream", "true")
	if err != nil {
		return body
	}
	return streaming
}

// refusesStream reports whether a status may be about the stream that the
// client did not ask for: then it gets to make its own request.
func refusesStream(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
