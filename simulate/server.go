// Package simulate is a stand-in for an inference API that speaks the Responses
// protocol. On the wire it behaves like the real one: full event sequences with
// ids, indices and sequence numbers, plain JSON answers, errors in the API's
// shape, and the doom-loop reports of the one API that has them. A [Scenario]
// says what one answer looks like; a script says which request gets which.
//
// Nothing here depends on the time or on chance, so that two runs of the same
// script send the same bytes.
package simulate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// HeaderDoomLoopCheck is the request header by which a client asks for
// doom-loop reports. Without it a [Loop] repeats itself but is not reported.
const HeaderDoomLoopCheck = "x-grok-doom-loop-check"

// defaultMaxBody is the limit the proxy itself has by default, so that whatever
// it lets through is accepted here.
const defaultMaxBody = 64 << 20

// Server is the simulated upstream, an [http.Handler]. The zero value works and
// gives a healthy answer to everything. The fields are read by every request
// and must not change once the first one has come in; the methods are safe for
// concurrent use.
//
// It serves POST …/responses (streamed, or plain JSON where the body does not
// hold "stream": true) and GET …/models, whatever comes before these in the
// path. All else is answered with 404.
type Server struct {
	// Script chooses the answer. The ordinal counts POSTs to …/responses from
	// 0, in the order of [Server.Requests]. nil gives Scenario{} each time.
	//
	// It is called from the goroutine of its request, so several calls may run
	// at once. It may block, which looks like an upstream that is slow to send
	// its headers, but has to return when req.Gone is closed.
	//
	// It must not return a scenario that [Scenario.Validate] objects to: the
	// handler panics with that error.
	Script func(ordinal int, req *Request) Scenario

	// Strict turns on refusals of the real API, before the script is asked:
	// a body that is no JSON object, a reasoning item in the input whose
	// encrypted_content is a tombstone of the proxy, and one whose
	// encrypted_content this package made for an item with another id. Each
	// gets 400 and uses up an ordinal. Off by default.
	Strict bool

	// MaxBody is the largest request body that is accepted, in bytes; past it
	// the answer is 413, and the record holds the beginning. 0 means 64 MiB.
	MaxBody int64

	// Keep is how many requests are remembered, the newest ones. 0 means
	// 10,000; a negative value remembers none.
	Keep int

	// KeepBytes is how many bytes of headers, bodies and replies the remembered
	// requests may hold in all. Past it the oldest are forgotten. 0 means
	// 64 MiB.
	KeepBytes int64

	records records
}

var (
	// errGone: the client went away before it had the whole reply.
	errGone = errors.New("client gone")
	// errDrop: the scenario wants the connection dropped.
	errDrop = errors.New("scenario drops the connection")
)

// ServeHTTP answers one request. It returns as soon as the client has gone, and
// panics with [http.ErrAbortHandler] to drop a connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maxBody := s.MaxBody
	if maxBody <= 0 {
		maxBody = defaultMaxBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		panic(http.ErrAbortHandler) // no whole request, so nothing to record
	}

	create := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses")
	req := s.records.add(s.Keep, s.KeepBytes, r, body, create)
	stop := context.AfterFunc(r.Context(), req.leave)
	defer func() {
		stop() // the context also ends when this function has returned
		close(req.done)
	}()
	w.Header().Set("X-Request-Id", requestID(req.arrival))

	switch {
	case tooLarge != nil:
		err = writeError(w, req, http.StatusRequestEntityTooLarge, apiError{
			Message: "The request body is larger than this server accepts.",
			Type:    "invalid_request_error",
		})
	case create:
		err = s.create(r.Context(), w, req)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		err = writeJSON(w, req, http.StatusOK, modelList())
	default:
		err = writeError(w, req, http.StatusNotFound, apiError{
			Message: "There is nothing at " + r.Method + " " + r.URL.Path + ".",
			Type:    "invalid_request_error",
			Code:    new("unknown_url"),
		})
	}
	if err == nil {
		return
	}
	if !errors.Is(err, errDrop) {
		req.lose()
	}
	panic(http.ErrAbortHandler)
}

// Requests gives what has been received, oldest first, as far as it is still
// remembered (see Keep and KeepBytes). The slice is the caller's; the requests
// in it are shared and must not be changed.
func (s *Server) Requests() []*Request {
	return s.records.snapshot()
}

// create answers a POST to …/responses.
func (s *Server) create(ctx context.Context, w http.ResponseWriter, req *Request) error {
	if s.Strict {
		if refusal := refuse(req); refusal != nil {
			return writeError(w, req, http.StatusBadRequest, *refusal)
		}
	}
	var sc Scenario
	if s.Script != nil {
		sc = s.Script(req.Ordinal, req)
	}
	if err := sc.Validate(); err != nil {
		panic(err)
	}
	if sc.End == EndRefuse {
		return errDrop
	}
	for name, value := range sc.Header {
		w.Header().Set(name, value)
	}
	if sc.Status != 0 && sc.Status != http.StatusOK {
		if sc.Body != "" {
			return writeBody(w, req, sc.Status, []byte(sc.Body))
		}
		return writeError(w, req, sc.Status, defaultError(sc.Status))
	}

	rep := &reply{
		w: w, rc: http.NewResponseController(w), req: req, sc: &sc,
		gen: newGenerator(&sc, req.Ordinal, req.Body, req.optedIn()),
	}
	if req.wantsStream() {
		return rep.stream(ctx)
	}
	return rep.plain(ctx)
}
