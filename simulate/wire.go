package simulate

import (
	"bytes"
	"encoding/json"
)

// The shapes of the Responses API, their keys in the order in which the real
// one sends them. See https://platform.openai.com/docs/api-reference/responses.

// event is one streaming event; which fields are set depends on its type.
type event struct {
	Type         string     `json:"type"`
	Sequence     *int       `json:"sequence_number,omitempty"`
	Response     *response  `json:"response,omitempty"`
	ItemID       string     `json:"item_id,omitempty"`
	OutputIndex  *int       `json:"output_index,omitempty"`
	SummaryIndex *int       `json:"summary_index,omitempty"`
	ContentIndex *int       `json:"content_index,omitempty"`
	Item         any        `json:"item,omitempty"`
	Part         any        `json:"part,omitempty"`
	Delta        *string    `json:"delta,omitempty"`
	Text         *string    `json:"text,omitempty"`
	Name         string     `json:"name,omitempty"`
	Arguments    *string    `json:"arguments,omitempty"`
	Logprobs     *[]float64 `json:"logprobs,omitempty"`
}

// response is the object that lifecycle and terminal events carry. What is
// taken from the request is kept as it was there.
type response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	Error              *responseError     `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       json.RawMessage    `json:"instructions"`
	MaxOutputTokens    json.RawMessage    `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []any              `json:"output"`
	ParallelToolCalls  json.RawMessage    `json:"parallel_tool_calls"`
	PreviousResponseID json.RawMessage    `json:"previous_response_id"`
	Reasoning          json.RawMessage    `json:"reasoning"`
	Store              json.RawMessage    `json:"store"`
	Temperature        json.RawMessage    `json:"temperature"`
	Text               json.RawMessage    `json:"text"`
	ToolChoice         json.RawMessage    `json:"tool_choice"`
	Tools              json.RawMessage    `json:"tools"`
	TopP               json.RawMessage    `json:"top_p"`
	Truncation         json.RawMessage    `json:"truncation"`
	Usage              *usage             `json:"usage"`
	User               json.RawMessage    `json:"user"`
	Metadata           json.RawMessage    `json:"metadata"`
	DoomLoopCheck      *doomLoopCheck     `json:"doom_loop_check,omitempty"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
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

// checkEvent is the report in mid-stream. Its keys come in another order than
// those of all other events.
type checkEvent struct {
	Sequence *int          `json:"sequence_number,omitempty"`
	Type     string        `json:"type"`
	Check    doomLoopCheck `json:"doom_loop_check"`
}

type doomLoopCheck struct {
	Triggers []string `json:"triggers"`
}

// errorEvent is an error in mid-stream, in the flat form.
type errorEvent struct {
	Type     string  `json:"type"`
	Sequence *int    `json:"sequence_number,omitempty"`
	Code     string  `json:"code"`
	Message  string  `json:"message"`
	Param    *string `json:"param"`
}

// nestedErrorEvent is an error in mid-stream, in the other form.
type nestedErrorEvent struct {
	Type     string   `json:"type"`
	Sequence *int     `json:"sequence_number,omitempty"`
	Error    apiError `json:"error"`
}

// apiError is the object "error" of a plain answer.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type reasoningItem struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"`
	Status    string     `json:"status,omitempty"`
	Summary   []textPart `json:"summary"`
	Content   []textPart `json:"content,omitempty"`
	Encrypted string     `json:"encrypted_content,omitempty"`
}

type messageItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Content []outputPart `json:"content"`
	Role    string       `json:"role"`
}

type callItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	Arguments string `json:"arguments"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
}

// textPart is a part of a reasoning item.
type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// outputPart is a part of a message.
type outputPart struct {
	Type        string    `json:"type"`
	Annotations []any     `json:"annotations"`
	Logprobs    []float64 `json:"logprobs"`
	Text        string    `json:"text"`
}

// encode is json.Marshal without the escapes meant for HTML, which the API does
// not use.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // the types above always encode; raw parts come from valid JSON
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
