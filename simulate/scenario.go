package simulate

import "time"

// The ways a reply can end, for [Scenario.End].
const (
	EndEOF    = "eof"    // cleanly, the default
	EndHang   = "hang"   // not at all: the stream stays open until the client goes
	EndAbort  = "abort"  // the connection is dropped after the last frame
	EndRefuse = "refuse" // the connection is dropped before the status line
)

// The shapes of reasoning, for [Scenario.Reasoning].
const (
	ReasoningSummary = "summary" // reasoning_summary_text deltas, the default
	ReasoningRaw     = "raw"     // reasoning_text deltas
	ReasoningNone    = "none"    // no reasoning item
)

// Scenario says what one answer looks like. The zero value is a healthy one: a
// thinking item, a short message, response.completed. A scenario is plain data
// and is never written to, so one value may serve many requests.
//
// In JSON the keys are the field names in snake case; a Delay is a string such
// as "5ms"; an unknown key is an error.
type Scenario struct {
	// Status other than 0 and 200 makes the answer a plain one with Body.
	Status int `json:"status,omitempty"`
	// Header is set on the answer, whatever its status.
	Header map[string]string `json:"header,omitempty"`
	// Body is the JSON of a plain answer; empty means an error of the API's
	// shape that fits Status.
	Body string `json:"body,omitempty"`

	// Model is the model named in the response. Empty means the request's,
	// or "sim-1" if it names none.
	Model string `json:"model,omitempty"`
	// ResponseID is the response's id. Empty means one made from Seed and the
	// ordinal: "resp_" and 48 hexadecimal digits.
	ResponseID string `json:"response_id,omitempty"`
	// Seed goes into every id, encrypted content and generated text. With 0
	// they depend on the ordinal alone, and come again after a restart.
	Seed uint64 `json:"seed,omitempty"`

	// Reasoning is one of ReasoningSummary (also the meaning of empty),
	// ReasoningRaw and ReasoningNone.
	Reasoning string `json:"reasoning,omitempty"`
	// ReasoningItems is how many reasoning items there are. Thinking and Loop
	// go into the last; each before it gets generated text and is finished.
	// 0 means 1.
	ReasoningItems int `json:"reasoning_items,omitempty"`
	// Thinking are the deltas of the last reasoning item. An empty one closes
	// the part that is open and begins the next. nil means a few generated
	// sentences.
	Thinking []string `json:"thinking,omitzero"`
	// NoEncrypted leaves encrypted_content out of finished reasoning items.
	NoEncrypted bool `json:"no_encrypted,omitempty"`
	// ReasoningStatus gives reasoning items a status, as other items have one.
	// At least one API does so, and the AI SDK's client for it insists.
	ReasoningStatus bool `json:"reasoning_status,omitempty"`
	// Message is the text of the message item. Empty means a short generated
	// one, or none if there are calls.
	Message string `json:"message,omitempty"`
	// NoMessage leaves the message item out.
	NoMessage bool `json:"no_message,omitempty"`
	// Calls are function calls, one item each, after the message.
	Calls []Call `json:"calls,omitempty"`

	// Incomplete makes response.incomplete the terminal event, and is its
	// incomplete_details.reason, such as "max_output_tokens".
	Incomplete string `json:"incomplete,omitempty"`
	// Failure makes the response fail.
	Failure *Failure `json:"failure,omitempty"`
	// Loop makes the answer repeat itself.
	Loop *Loop `json:"loop,omitempty"`

	// EmptyOutput makes the output of the terminal event [], although items
	// were finished. One real backend does so.
	EmptyOutput bool `json:"empty_output,omitempty"`
	// NoAdded leaves out response.output_item.added.
	NoAdded bool `json:"no_added,omitempty"`
	// NoSequence leaves out sequence_number.
	NoSequence bool `json:"no_sequence,omitempty"`
	// NoEventNames leaves out the "event:" lines.
	NoEventNames bool `json:"no_event_names,omitempty"`
	// DoneMarker ends the stream with "data: [DONE]" after the terminal event.
	DoneMarker bool `json:"done_marker,omitempty"`
	// LineEnd is the line end of generated frames: "\n" (also the meaning of
	// empty), "\r\n" or "\r".
	LineEnd string `json:"line_end,omitempty"`

	// Frames, if not nil, are sent as they are instead of a generated stream.
	// A plain answer then is the response of the last frame with a terminal
	// event.
	Frames []string `json:"frames,omitzero"`
	// Limit is how many frames are sent before the stream ends the way End
	// says, though there would be more. 0 means all of them.
	Limit int `json:"limit,omitempty"`
	// End is one of EndEOF (also the meaning of empty), EndHang, EndAbort and
	// EndRefuse.
	End string `json:"end,omitempty"`

	// Delay is waited before each write but the first. A plain answer waits as
	// long as the same stream would have taken. 0 means no waiting.
	Delay time.Duration `json:"delay,omitzero"`
	// Split cuts the stream into the pieces that are written and flushed one
	// by one; it gets all of the stream at once, and may keep and reslice it.
	// nil makes each frame one write.
	Split func(stream []byte) [][]byte `json:"-"`
	// Before, if not nil, is called before each write of a stream, with the
	// number of the write from 0, in the goroutine of the request. It may
	// block, but has to return when the request's Gone is closed.
	Before func(write int) `json:"-"`
}

// Call is one function call.
type Call struct {
	// Name is the function's name, sent as it is.
	Name string `json:"name"`
	// Arguments is the call's JSON. Empty means {}.
	Arguments string `json:"arguments,omitempty"`
}

// The events that tell of a failure, for [Failure.Event].
const (
	FailureResponse    = "response.failed" // the default
	FailureError       = "error"           // an error event, its code at top level
	FailureErrorNested = "error_nested"    // an error event, its code in an object "error"
)

// Failure ends the response with an error inside the 200 stream.
type Failure struct {
	// Code is the error's code. Empty means "server_error".
	Code string `json:"code,omitempty"`
	// Message is the error's message. Empty means a short one.
	Message string `json:"message,omitempty"`
	// Event is one of FailureResponse (also the meaning of empty),
	// FailureError and FailureErrorNested.
	Event string `json:"event,omitempty"`
	// After is how many frames come first. With 0 the failure is the very
	// first event, with 2 it follows response.created and
	// response.in_progress. If the stream is shorter, the failure takes the
	// place of the terminal event.
	After int `json:"after,omitempty"`
}

// The channels of a loop, for [Loop.Channel].
const (
	ChannelThinking = "thinking" // the last reasoning item, the default
	ChannelResponse = "response" // the message
	ChannelTool     = "tool"     // the arguments of the first call
)

// What follows a loop, for [Loop.Then].
const (
	ThenHang       = "hang"       // silence until the client goes
	ThenFinish     = "finish"     // the rest of the scenario, as if nothing had been
	ThenIncomplete = "incomplete" // the item is closed, then response.incomplete
	ThenEOF        = "eof"        // the stream ends there, without a terminal event
)

// maxLoopDeltas bounds a loop that has no end of its own.
const maxLoopDeltas = 100_000

// Loop makes an answer repeat one phrase, and report it: in check frames
// between the deltas and in the terminal event. Reports go only to a request
// with the header [HeaderDoomLoopCheck].
type Loop struct {
	// Channel is where the repetition is generated: one of ChannelThinking
	// (also the meaning of empty), ChannelResponse and ChannelTool. A loop in
	// the tool channel without [Scenario.Calls] gets a call "write_file".
	Channel string `json:"channel,omitempty"`
	// After is how many healthy deltas the channel gets first. Those of the
	// scenario are used up first, then text is generated.
	After int `json:"after,omitempty"`
	// Phrase is the repeated text, one delta each time. Empty means
	// "Wait, let me check that again. ".
	Phrase string `json:"phrase,omitempty"`
	// Deltas is how often the phrase comes. 0 means, if Then is ThenHang, on
	// and on until the client leaves (100,000 times at most), else as often as
	// it takes to report all Triggers.
	Deltas int `json:"deltas,omitempty"`
	// Every is the number of phrases between check frames. 0 means 8.
	Every int `json:"every,omitempty"`
	// Triggers are the labels in the order in which they come up: check frame
	// k carries the first k of them. After the last one no more frames come.
	// nil means tail_repetition:64@thinking, then 32, 16, 8, 4 and 2, with the
	// channel's own name.
	Triggers []string `json:"triggers,omitzero"`
	// Raw, if not nil, are sent in place of the check frames, one for one, as
	// they are.
	Raw []string `json:"raw,omitzero"`
	// Unnamed leaves out the "event:" line of check frames.
	Unnamed bool `json:"unnamed,omitempty"`
	// TerminalOnly sends no check frames; the terminal event carries all
	// Triggers.
	TerminalOnly bool `json:"terminal_only,omitempty"`
	// Always reports to requests that did not ask for it, too.
	Always bool `json:"always,omitempty"`
	// Then is what follows the last phrase: one of ThenHang, ThenFinish,
	// ThenIncomplete and ThenEOF. With the middle two the terminal event
	// carries the labels reported so far. Empty means ThenFinish with
	// TerminalOnly, else ThenHang.
	Then string `json:"then,omitempty"`
}

// withDefaults fills in what the zero values mean.
func (l Loop) withDefaults() Loop {
	if l.Channel == "" {
		l.Channel = ChannelThinking
	}
	if l.Phrase == "" {
		l.Phrase = "Wait, let me check that again. "
	}
	if l.Every == 0 {
		l.Every = 8
	}
	if l.Triggers == nil {
		for _, threshold := range []string{"64", "32", "16", "8", "4", "2"} {
			l.Triggers = append(l.Triggers, "tail_repetition:"+threshold+"@"+l.Channel)
		}
	}
	if l.Then == "" {
		l.Then = ThenHang
		if l.TerminalOnly {
			l.Then = ThenFinish
		}
	}
	if l.Deltas == 0 {
		l.Deltas = maxLoopDeltas
		if l.Then != ThenHang {
			l.Deltas = l.Every * max(len(l.Triggers), len(l.Raw), 1)
		}
	}
	return l
}
