package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
)

// protection is what is done for a request, named as in the metrics.
type protection string

const (
	protected   protection = "protected"   // inspected, loops are cut
	observed    protection = "observed"    // inspected, loops are counted
	deferred    protection = "deferred"    // the client recovers by itself
	passthrough protection = "passthrough" // not looked into
)

// Why a request is not protected, named as in the metrics.
const (
	reasonPath         = "path"
	reasonBody         = "body"
	reasonBackground   = "background"
	reasonConversation = "conversation"
	reasonDeferred     = "deferred"
	reasonOff          = "off"
	reasonOversized    = "oversized_frame"
	reasonMemory       = "memory"
)

// request is what the proxy knows of a client request before it is sent on.
type request struct {
	protection protection
	reason     string   // why protection is neither protected nor observed
	read       bool     // body holds the client's body; else it was left unread
	body       string   // decoded and scrubbed
	wire       string   // the client's own bytes, while body says the same in another encoding
	changed    bool     // body is not what the client sent
	url        *url.URL // what is asked for; differs from the client's by an alias at most
	model      string
	turnStart  bool // the last input item is a user message
	stream     bool // the client wants an event stream
	detector   Mode // what is done about loops that are found on this side
	responses  bool // a well-formed request to make a response
	previous   bool // it has a previous_response_id

	fingerprint uint64 // tells it apart; 0 if its body was not read

	repeated stationarity.Finding // by the agent, in its conversation
	action   stationarity.Action  // what is done about that

	memory *allowance
	taken  int // of memory, for body and wire
}

// take reports whether there is memory for n bytes more.
func (req *request) take(n int) bool {
	if !req.memory.take(n) {
		return false
	}
	req.taken += n
	return true
}

// release lets go of the body, once no attempt can need it any more.
func (req *request) release() {
	req.body, req.wire = "", ""
	req.memory.give(req.taken)
	req.taken = 0
}

// readRequest reads r's body, where it may have to be changed, and decides how
// the request is protected. The request is to be released.
func (p *Proxy) readRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	req := &request{protection: passthrough, reason: reasonPath, url: p.aliasPath(r), memory: &p.state.memory}
	if req.detector = ModeOff; p.mode(r) != ModeOff {
		req.detector = orDefault(p.state.Mode(GuardDetector), p.cfg.Detector.Mode)
	}
	path := segments(r)
	if r.Method != http.MethodPost || !slices.Contains(path, "responses") && !slices.Contains(path, "conversations") {
		return req, nil
	}
	if makesResponse(path) {
		req.reason = reasonBody
	}
	if r.ContentLength > p.cfg.MaxBody {
		return req, errBodyTooLarge
	}
	// To the end: only behind it net/http notices that the client goes away.
	wire, err := readAtMost(p.patient(w, r.Body), r.ContentLength, p.cfg.MaxBody, req.take)
	if errors.Is(err, errNoMemory) {
		req.reason = reasonMemory
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(wire), r.Body), r.Body}
		return req, nil
	}
	if err != nil {
		return req, fmt.Errorf("read client: %w", err)
	}
	req.read = true
	body := wire
	if encodings := r.Header.Values("Content-Encoding"); len(encodings) > 0 {
		body, err = decodeBody(wire, strings.Join(encodings, ","), p.cfg.MaxBody, req.take)
		if errors.Is(err, errBodyTooLarge) {
			return req, err
		}
		if errors.Is(err, errNoMemory) {
			req.reason = reasonMemory
		}
		if err != nil {
			// Nothing is known of it: the upstream is to judge it.
			req.wire = wire
			return req, nil
		}
	}
	req.body = body
	if recovery.ValidJSON(body) {
		p.scrub(r.Context(), req)
		if makesResponse(path) {
			p.classify(r, req)
		}
	}
	if !req.changed && body != wire {
		req.wire = wire
	}
	return req, nil
}

func segments(r *http.Request) []string {
	return strings.Split(strings.Trim(r.URL.Path, "/"), "/")
}

// makesResponse reports whether a path is that of requests for a response.
func makesResponse(path []string) bool { return path[len(path)-1] == "responses" }

// first returns the body to send on before any amendment, and whether it is
// still encoded as the client's headers say.
func (req *request) first() (body string, encoded bool) {
	if req.wire != "" {
		return req.wire, true
	}
	return req.body, false
}

// fingerprint tells requests apart by who asks for what. Of a request for a
// response that is what the model is given, for some agents write the rest in
// another order each time; of any other it is the body.
func (p *Proxy) fingerprint(r *http.Request, what ...string) uint64 {
	return p.state.fingerprint(append([]string{r.Header.Get("Authorization"), r.URL.Path}, what...)...)
}

// mode returns what is done about loops in the answer to r.
func (p *Proxy) mode(r *http.Request) Mode {
	if strings.EqualFold(r.Header.Get("X-Doomproxy-Recovery"), "off") {
		return ModeOff
	}
	return orDefault(p.state.Mode(GuardRecovery), p.cfg.Mode)
}

// classify decides from the body of a request to make a response.
func (p *Proxy) classify(r *http.Request, req *request) {
	f, ok := parseFields(req.body)
	if !ok {
		return
	}
	req.responses = true
	req.fingerprint = p.fingerprint(r, f.model, f.input, f.previousID)
	req.model = f.model
	req.turnStart = f.turnStart
	req.previous = f.previous
	req.stream = f.stream
	defer p.repeats(r, req, f.input)
	mode := p.mode(r)
	switch {
	case mode == ModeOff:
		req.reason = reasonOff
	case f.background:
		req.reason = reasonBackground
	case f.conversation:
		req.reason = reasonConversation
	case !f.stream && (p.cfg.NonStreaming == NonStreamingPassthrough || mode == ModeObserve):
		req.reason = reasonBody
	case p.cfg.ClientOptIn == OptInDefer && len(r.Header.Values(headerLoopCheck)) > 0:
		req.protection, req.reason = deferred, reasonDeferred
	case mode == ModeObserve:
		req.protection, req.reason = observed, ""
	default:
		req.protection, req.reason = protected, ""
	}
}

// fields are the members of a request body that decide.
type fields struct {
	stream, background, conversation, previous, turnStart bool
	model                                                 string
	input, previousID                                     string // as they are written; they alias the body
}

// parseFields reads the deciding members of a body of valid JSON. ok is false if it is no
// JSON object, or if a deciding key is there twice or written with escapes:
// then the upstream may read the body differently than this proxy does.
func parseFields(body string) (f fields, ok bool) {
	if !gjson.Parse(body).IsObject() {
		return f, false
	}
	var seen []string
	ok = true
	gjson.Parse(body).ForEach(func(key, value gjson.Result) bool {
		set := value.Type != gjson.Null
		switch key.Str {
		case "stream":
			f.stream = value.Type == gjson.True
			ok = ok && (value.IsBool() || !set)
		case "background":
			f.background = value.Type == gjson.True
		case "conversation":
			f.conversation = set
		case "previous_response_id":
			f.previous, f.previousID = set, value.Raw
		case "model":
			f.model = strings.Clone(value.Str)
		case "input":
			f.turnStart, f.input = endsWithUserMessage(value), value.Raw
		default:
			return true
		}
		ok = ok && !slices.Contains(seen, key.Str) && len(key.Raw) == len(key.Str)+2
		seen = append(seen, key.Str)
		return true
	})
	return f, ok
}

// endsWithUserMessage reports whether the last item of an input is a message of
// the user's, so that the request begins a turn.
func endsWithUserMessage(input gjson.Result) bool {
	if input.Type == gjson.String {
		return true
	}
	var last gjson.Result
	input.ForEach(func(_, item gjson.Result) bool {
		last = item
		return true
	})
	return last.Get("role").Str == "user"
}
