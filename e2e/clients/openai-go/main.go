// Command openai-go is a session with the official library for Go: two prompts,
// a tool, and the history sent again each time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	var prompts []string
	if err := json.Unmarshal([]byte(os.Getenv("E2E_PROMPTS")), &prompts); err != nil {
		return fmt.Errorf("E2E_PROMPTS: %w", err)
	}
	var headers map[string]string
	if err := json.Unmarshal([]byte(os.Getenv("E2E_HEADERS")), &headers); err != nil {
		return fmt.Errorf("E2E_HEADERS: %w", err)
	}
	options := []option.RequestOption{option.WithBaseURL(os.Getenv("E2E_BASE_URL")), option.WithAPIKey("e2e")}
	for name, value := range headers {
		options = append(options, option.WithHeader(name, value))
	}
	s := session{client: openai.NewClient(options...)}
	answers := []string{}
	for _, prompt := range prompts {
		answer, err := s.turn(ctx, prompt)
		if err != nil {
			return err
		}
		answers = append(answers, answer)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string][]string{"answers": answers})
}

type session struct {
	client  openai.Client
	history responses.ResponseInputParam
}

// turn asks one thing, and calls the tool as long as the model wants it.
func (s *session) turn(ctx context.Context, prompt string) (answer string, err error) {
	s.history = append(s.history, responses.ResponseInputItemParamOfMessage(prompt, responses.EasyInputMessageRoleUser))
	for {
		items, err := s.ask(ctx)
		if err != nil {
			return "", err
		}
		called := false
		for _, item := range items {
			s.history = append(s.history, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
			switch item.Type {
			case "function_call":
				var arguments struct {
					Thing string `json:"thing"`
				}
				if err := json.Unmarshal([]byte(item.AsFunctionCall().Arguments), &arguments); err != nil {
					return "", fmt.Errorf("arguments: %w", err)
				}
				output := responses.ResponseInputItemParamOfFunctionCallOutput("on shelf 7: " + arguments.Thing)
				output.OfFunctionCallOutput.CallID = openai.String(item.CallID)
				s.history = append(s.history, output)
				called = true
			case "message":
				answer = item.AsMessage().Content[0].Text
			}
		}
		if !called {
			return answer, nil
		}
	}
}

// ask makes one request and takes the items as they are done.
func (s *session) ask(ctx context.Context) (items []responses.ResponseOutputItemUnion, err error) {
	stream := s.client.Responses.NewStreaming(ctx, responses.ResponseNewParams{
		Model:   "sim-1",
		Store:   openai.Bool(false),
		Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Input:   responses.ResponseNewParamsInputUnion{OfInputItemList: s.history},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name:        "lookup",
			Description: openai.String("Tells where a thing is."),
			Strict:      openai.Bool(true),
			Parameters: map[string]any{
				"type":                 "object",
				"properties":           map[string]any{"thing": map[string]any{"type": "string"}},
				"required":             []string{"thing"},
				"additionalProperties": false,
			},
		}}},
	})
	defer stream.Close() //nolint:errcheck // it was only read
	completed := false
	for stream.Next() {
		switch event := stream.Current(); event.Type {
		case "response.output_item.done":
			items = append(items, event.Item)
		case "response.completed":
			completed = true
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if !completed {
		return nil, errors.New("the stream ended without response.completed")
	}
	return items, nil
}
