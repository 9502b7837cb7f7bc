package simulate

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
)

const (
	defaultModel = "sim-1"
	// epoch is the created_at of ordinal 0, in Unix seconds (2026-01-01). A
	// clock would make two runs differ.
	epoch = 1_767_225_600
)

// Where the generated sentences of one request are numbered from, so that its
// parts differ.
const (
	thinkingText = 0
	messageText  = 1 << 20
	earlierText  = 1 << 21
)

// Stream gives the frames of the scenario's stream for a request with that
// ordinal and body, as a server would send them to a client that asked for
// doom-loop reports. An endless loop is given with 100,000 repetitions. The
// same arguments always give the same frames. Status, Delay, Split and the
// like play no part. It panics if [Scenario.Validate] objects.
func (sc Scenario) Stream(ordinal int, body []byte) []string {
	if err := sc.Validate(); err != nil {
		panic(err)
	}
	g := newGenerator(&sc, ordinal, body, true)
	return slices.Collect(g.run)
}

// generator makes the frames of one stream, one at a time.
type generator struct {
	sc      *Scenario
	loop    *Loop // with defaults; nil if there is none
	ordinal int
	base    response // what all responses of the stream have in common
	report  bool     // loops are reported

	yield   func(frame string) bool
	stopped bool // no frame comes any more
	hang    bool // the stream stopped, and is to stay open
	failed  bool // the failure has been sent
	short   bool // what is open is closed, then comes response.incomplete

	sequence int
	frames   int
	labels   []string // triggers reported so far
	output   []any    // finished items
	items    int      // items opened

	reasoningBytes int
	outputBytes    int

	final *response // of the terminal event, once it has been sent
}

func newGenerator(sc *Scenario, ordinal int, body []byte, optedIn bool) *generator {
	g := &generator{sc: sc, ordinal: ordinal, base: newResponse(sc, ordinal, body)}
	if sc.Loop != nil {
		g.loop = new(sc.Loop.withDefaults())
		g.report = optedIn || g.loop.Always
	}
	return g
}

// newResponse makes the response object before anything has happened.
func newResponse(sc *Scenario, ordinal int, body []byte) response {
	var doc gjson.Result
	if json.Valid(body) { // not gjson's check, which lets a little more through
		doc = gjson.ParseBytes(body)
	}
	echo := func(key, absent string) json.RawMessage {
		if v := doc.Get(key); v.Exists() {
			return json.RawMessage(v.Raw)
		}
		return json.RawMessage(absent)
	}
	r := response{
		ID:                 sc.ResponseID,
		Object:             "response",
		CreatedAt:          epoch + int64(ordinal),
		Status:             "in_progress",
		Instructions:       echo("instructions", "null"),
		MaxOutputTokens:    echo("max_output_tokens", "null"),
		Model:              sc.Model,
		Output:             []any{},
		ParallelToolCalls:  echo("parallel_tool_calls", "true"),
		PreviousResponseID: echo("previous_response_id", "null"),
		Reasoning:          echo("reasoning", `{"effort":null,"summary":null}`),
		Store:              echo("store", "true"),
		Temperature:        echo("temperature", "1.0"),
		Text:               echo("text", `{"format":{"type":"text"}}`),
		ToolChoice:         echo("tool_choice", `"auto"`),
		Tools:              echo("tools", "[]"),
		TopP:               echo("top_p", "1.0"),
		Truncation:         echo("truncation", `"disabled"`),
		User:               echo("user", "null"),
		Metadata:           echo("metadata", "{}"),
	}
	if r.ID == "" {
		r.ID = "resp_" + digest("response", sc.Seed, ordinal, 0)[:48]
	}
	if r.Model == "" {
		r.Model = doc.Get("model").Str
	}
	if r.Model == "" {
		r.Model = defaultModel
	}
	// 4 bytes a token is the usual estimate; half of them cached, so that the
	// two numbers can be told apart.
	var u usage
	u.InputTokens = tokens(len(body))
	u.InputTokensDetails.CachedTokens = u.InputTokens / 2
	r.Usage = &u
	return r
}

func tokens(size int) int { return (size + 3) / 4 }

// run calls yield with each frame until there are no more, or it returns false.
func (g *generator) run(yield func(frame string) bool) {
	g.yield = yield
	if g.sc.Frames != nil {
		for _, frame := range g.sc.Frames {
			g.send(frame)
		}
		return
	}
	g.lifecycle("response.created")
	g.lifecycle("response.in_progress")
	g.reasoning()
	g.message()
	g.calls()
	g.terminal()
	if g.sc.DoneMarker {
		g.send(g.frame("", []byte("[DONE]")))
	}
}

// send gives out one frame, unless the stream has stopped.
func (g *generator) send(frame string) {
	if g.sc.Limit > 0 && g.frames == g.sc.Limit {
		g.stopped = true
	}
	if g.stopped {
		return
	}
	g.frames++
	if !g.yield(frame) {
		g.stopped = true
	}
}

// ready reports whether the stream goes on. When the failure's turn has come
// it goes out instead.
func (g *generator) ready() bool {
	if f := g.sc.Failure; !g.stopped && f != nil && g.frames >= f.After {
		g.fail(f)
	}
	return !g.stopped
}

// frame makes the bytes of a frame; an empty name leaves out the "event:" line.
func (g *generator) frame(name string, data []byte) string {
	end := g.sc.LineEnd
	if end == "" {
		end = "\n"
	}
	frame := "data: " + string(data) + end + end
	if name != "" && !g.sc.NoEventNames {
		frame = "event: " + name + end + frame
	}
	return frame
}

// next takes the next sequence number; nil if the stream has none.
func (g *generator) next() *int {
	if g.sc.NoSequence {
		return nil
	}
	n := g.sequence
	g.sequence++
	return &n
}

func (g *generator) emit(e event) {
	if !g.ready() {
		return
	}
	e.Sequence = g.next()
	g.send(g.frame(e.Type, encode(e)))
}

func (g *generator) lifecycle(name string) {
	r := g.base
	r.Usage = nil // known only at the end
	g.emit(event{Type: name, Response: &r})
}

// terminal sends the event that ends the response.
func (g *generator) terminal() {
	if f := g.sc.Failure; f != nil && !g.stopped {
		g.fail(f)
	}
	r, u := g.base, *g.base.Usage
	u.OutputTokensDetails.ReasoningTokens = tokens(g.reasoningBytes)
	u.OutputTokens = tokens(g.reasoningBytes) + tokens(g.outputBytes)
	u.TotalTokens = u.InputTokens + u.OutputTokens
	r.Usage = &u
	if !g.sc.EmptyOutput {
		r.Output = append(r.Output, g.output...)
	}
	if len(g.labels) > 0 {
		r.DoomLoopCheck = &doomLoopCheck{Triggers: g.labels}
	}
	r.Status = "completed"
	if reason := g.incomplete(); reason != "" {
		r.Status, r.IncompleteDetails = "incomplete", &incompleteDetails{Reason: reason}
	}
	g.finish(&r, event{Type: "response." + r.Status, Response: &r})
}

// finish sends a terminal event and keeps its response.
func (g *generator) finish(r *response, e event) {
	if g.stopped {
		return
	}
	before := g.frames
	e.Sequence = g.next()
	g.send(g.frame(e.Type, encode(e)))
	if g.frames > before {
		g.final = r
	}
}

// incomplete gives the reason why the response is incomplete, if it is.
func (g *generator) incomplete() string {
	if g.sc.Incomplete == "" && g.short {
		return "max_output_tokens"
	}
	return g.sc.Incomplete
}

// fail sends the scenario's failure and stops the stream.
func (g *generator) fail(f *Failure) {
	code, message := f.text()
	before := g.frames
	switch f.Event {
	case FailureError:
		g.send(g.frame("error", encode(errorEvent{
			Type: "error", Sequence: g.next(), Code: code, Message: message,
		})))
	case FailureErrorNested:
		g.send(g.frame("error", encode(nestedErrorEvent{
			Type: "error", Sequence: g.next(), Error: f.plain(),
		})))
	default:
		r := g.base
		r.Status, r.Usage = "failed", nil
		r.Error = &responseError{Code: code, Message: message}
		g.finish(&r, event{Type: "response.failed", Response: &r})
	}
	g.stopped, g.failed = true, g.frames > before
}

// text gives code and message, with defaults.
func (f *Failure) text() (code, message string) {
	code, message = f.Code, f.Message
	if code == "" {
		code = "server_error"
	}
	if message == "" {
		message = "The simulated upstream failed."
	}
	return code, message
}

// plain gives the failure in the shape of a plain answer's error.
func (f *Failure) plain() apiError {
	code, message := f.text()
	return apiError{Message: message, Type: "server_error", Code: &code}
}
