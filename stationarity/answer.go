package stationarity

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Answer is a response that ends a turn in the place of the upstream's: one
// message of the assistant's, completed, that used no tokens.
type Answer struct {
	ResponseID string // resp_…
	ItemID     string // msg_…, of the message
	Model      string // as in the request
	CreatedAt  int64  // in Unix seconds
	Text       string // of the message; see StopText
}

// StopText returns what the message of a stopped turn says.
func StopText(f Finding) string {
	verb := "was"
	if f.plural() {
		verb = "were"
	}
	return fmt.Sprintf("This turn was ended automatically, because %s %s made %d times in a row. "+
		"If that was to wait for something, please look whether it has happened, and say how to go on.",
		f.what(), verb, f.Count)
}

// The shapes of the Responses API, their keys in the order of the real ones.

type response struct {
	ID                 string         `json:"id"`
	Object             string         `json:"object"`
	CreatedAt          int64          `json:"created_at"`
	Status             string         `json:"status"`
	Background         bool           `json:"background"`
	Error              *struct{}      `json:"error"`
	IncompleteDetails  *struct{}      `json:"incomplete_details"`
	Instructions       *string        `json:"instructions"`
	MaxOutputTokens    *int           `json:"max_output_tokens"`
	Model              string         `json:"model"`
	Output             []message      `json:"output"`
	ParallelToolCalls  bool           `json:"parallel_tool_calls"`
	PreviousResponseID *string        `json:"previous_response_id"`
	Reasoning          reasoning      `json:"reasoning"`
	Store              bool           `json:"store"` // no response that can be asked for later
	Temperature        float64        `json:"temperature"`
	Text               textFormat     `json:"text"`
	ToolChoice         string         `json:"tool_choice"`
	Tools              []struct{}     `json:"tools"`
	TopP               float64        `json:"top_p"`
	Truncation         string         `json:"truncation"`
	Usage              *usage         `json:"usage"`
	User               *string        `json:"user"`
	Metadata           map[string]any `json:"metadata"`
}

type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type textFormat struct {
	Format struct {
		Type string `json:"type"`
	} `json:"format"`
}

type usage struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

type message struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Content []part `json:"content"`
	Role    string `json:"role"`
}

type part struct {
	Type        string     `json:"type"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
	Text        string     `json:"text"`
}

// event is one streaming event; which fields are set depends on its type.
type event struct {
	Type         string     `json:"type"`
	Sequence     int        `json:"sequence_number"`
	Response     *response  `json:"response,omitempty"`
	ItemID       string     `json:"item_id,omitempty"`
	OutputIndex  *int       `json:"output_index,omitempty"`
	ContentIndex *int       `json:"content_index,omitempty"`
	Item         *message   `json:"item,omitempty"`
	Part         *part      `json:"part,omitempty"`
	Delta        string     `json:"delta,omitempty"`
	Text         string     `json:"text,omitempty"`
	Logprobs     []struct{} `json:"logprobs,omitzero"`
}

// JSON returns the whole response, as for a client that asked for no stream.
func (a Answer) JSON() string { return encode(a.response("completed")) }

// Frames returns the stream, one event after the other, as frames with an LF at
// each line's end.
func (a Answer) Frames() []string {
	zero, empty := 0, []struct{}{}
	open, whole := a.message("in_progress"), a.message("completed")
	blank, full := newPart(""), newPart(a.Text)
	events := []event{
		{Type: "response.created", Response: a.response("in_progress")},
		{Type: "response.in_progress", Response: a.response("in_progress")},
		{Type: "response.output_item.added", OutputIndex: &zero, Item: &open},
		{Type: "response.content_part.added", ItemID: a.ItemID, OutputIndex: &zero, ContentIndex: &zero, Part: &blank},
		{Type: "response.output_text.delta", ItemID: a.ItemID, OutputIndex: &zero, ContentIndex: &zero, Delta: a.Text, Logprobs: empty},
		{Type: "response.output_text.done", ItemID: a.ItemID, OutputIndex: &zero, ContentIndex: &zero, Text: a.Text, Logprobs: empty},
		{Type: "response.content_part.done", ItemID: a.ItemID, OutputIndex: &zero, ContentIndex: &zero, Part: &full},
		{Type: "response.output_item.done", OutputIndex: &zero, Item: &whole},
		{Type: "response.completed", Response: a.response("completed")},
	}
	frames := make([]string, len(events))
	for i := range events {
		events[i].Sequence = i
		frames[i] = "event: " + events[i].Type + "\ndata: " + encode(events[i]) + "\n\n"
	}
	return frames
}

func (a Answer) response(status string) *response {
	r := &response{
		ID: a.ResponseID, Object: "response", CreatedAt: a.CreatedAt, Status: status, Model: a.Model,
		Output: []message{}, ParallelToolCalls: true, Temperature: 1, ToolChoice: "auto",
		Tools: []struct{}{}, TopP: 1, Truncation: "disabled", Metadata: map[string]any{},
	}
	r.Text.Format.Type = "text"
	if status == "completed" {
		r.Output = append(r.Output, a.message(status))
		r.Usage = &usage{}
	}
	return r
}

func (a Answer) message(status string) message {
	m := message{ID: a.ItemID, Type: "message", Status: status, Content: []part{}, Role: "assistant"}
	if status == "completed" {
		m.Content = append(m.Content, newPart(a.Text))
	}
	return m
}

func newPart(text string) part {
	return part{Type: "output_text", Annotations: []struct{}{}, Logprobs: []struct{}{}, Text: text}
}

// encode is json.Marshal without the escapes meant for HTML, which the API does
// not use.
func encode(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // the types above always encode
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}
