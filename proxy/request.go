package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/recovery"
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
)

// request is what the proxy knows of a client request before it is sent on.
type request struct {
	protection protection
	reason     string // why protection is neither protected nor observed
	read       bool   // body holds the client's body; else it was left unread
	body       string // scrubbed
	scrubbed   int    // items dropped from it
	model      string
	turnStart  bool // the last input item is a user message
	responses  bool // a well-formed request to make a response
	previous   bool // it has a previous_response_id
}

var errBodyTooLarge = errors.New("request body too large")

// readRequest reads r's body, where it may have to be changed, and decides how
// the request is protected.
func (p *Proxy) readRequest(r *http.Request) (*request, error) {
	req := &request{protection: passthrough, reason: reasonPath}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method != http.MethodPost || !slices.Contains(segments, "responses") && !slices.Contains(segments, "conversations") {
		return req, nil
	}
	makesResponse := segments[len(segments)-1] == "responses"
	if makesResponse {
		req.reason = reasonBody
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return req, nil
	}
	body, err := readBody(r, p.cfg.MaxBody)
	if err != nil {
		return nil, err
	}
	req.read = true
	req.body, req.scrubbed = recovery.Scrub(body)
	if makesResponse {
		p.classify(r, req)
	}
	return req, nil
}

// readBody returns the whole body. It reads up to the end of it, for only then
// net/http notices that the client goes away.
func readBody(r *http.Request, limit int64) (string, error) {
	if r.ContentLength > limit {
		return "", errBodyTooLarge
	}
	var b strings.Builder
	b.Grow(int(min(max(r.ContentLength, 0), 1<<20))) // what a client promises is not what it sends
	n, err := io.Copy(&b, io.LimitReader(r.Body, limit+1))
	if err != nil {
		return "", fmt.Errorf("read client: %w", err)
	}
	if n > limit {
		return "", errBodyTooLarge
	}
	return b.String(), nil
}

// classify decides from the body of a request to make a response.
func (p *Proxy) classify(r *http.Request, req *request) {
	f, ok := parseFields(req.body)
	if !ok {
		return
	}
	req.responses = true
	req.model = f.model
	req.turnStart = f.turnStart
	req.previous = f.previous
	switch {
	case p.cfg.Mode == ModeOff || strings.EqualFold(r.Header.Get("X-Doomproxy-Recovery"), "off"):
		req.reason = reasonOff
	case !f.stream:
		req.reason = reasonBody
	case f.background:
		req.reason = reasonBackground
	case f.conversation:
		req.reason = reasonConversation
	case p.cfg.ClientOptIn == OptInDefer && r.Header.Get(headerLoopCheck) != "":
		req.protection, req.reason = deferred, reasonDeferred
	case p.cfg.Mode == ModeObserve:
		req.protection, req.reason = observed, ""
	default:
		req.protection, req.reason = protected, ""
	}
}

// fields are the members of a request body that decide.
type fields struct {
	stream, background, conversation, previous, turnStart bool
	model                                                 string
}

// parseFields reads the deciding members of a body. ok is false if it is no
// JSON object, or if a deciding key is there twice or written with escapes:
// then the upstream may read the body differently than this proxy does.
func parseFields(body string) (f fields, ok bool) {
	if !recovery.ValidJSON(body) || !gjson.Parse(body).IsObject() {
		return f, false
	}
	var seen []string
	ok = true
	gjson.Parse(body).ForEach(func(key, value gjson.Result) bool {
		set := value.Type != gjson.Null
		switch key.Str {
		case "stream":
			f.stream = value.Type == gjson.True
		case "background":
			f.background = value.Type == gjson.True
		case "conversation":
			f.conversation = set
		case "previous_response_id":
			f.previous = set
		case "model":
			f.model = strings.Clone(value.Str)
		case "input":
			f.turnStart = endsWithUserMessage(value)
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
