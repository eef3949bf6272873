package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// noText stands for an empty text: go-openai leaves an empty content out, and
// a message without content is refused.
const noText = "(empty)"

// request is what goes to the service.
func (m Model) request(req actors.Request) goopenai.ChatCompletionRequest {
	out := m.Params
	out.Model = m.Name
	out.Messages = make([]goopenai.ChatCompletionMessage, len(req.Messages))
	for i, msg := range req.Messages {
		out.Messages[i] = outgoing(msg)
	}
	if len(req.Tools) == 0 {
		out.ToolChoice, out.ParallelToolCalls = nil, nil // refused without tools
		return out
	}
	out.Tools = make([]goopenai.Tool, len(req.Tools))
	for i, spec := range req.Tools {
		out.Tools[i] = tool(spec)
	}
	return out
}

func outgoing(msg actors.Message) goopenai.ChatCompletionMessage {
	out := goopenai.ChatCompletionMessage{
		Role:       string(msg.Role),
		Content:    msg.Text,
		ToolCallID: msg.ToolCallID,
	}
	for _, call := range msg.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, goopenai.ToolCall{
			ID:       call.ID,
			Type:     goopenai.ToolTypeFunction,
			Function: goopenai.FunctionCall{Name: call.Name, Arguments: call.Arguments},
		})
	}
	if out.Content == "" && len(out.ToolCalls) == 0 {
		out.Content = noText
	}
	if msg.IsError && !strings.HasPrefix(out.Content, "error: ") {
		out.Content = "error: " + out.Content // the API has no other mark for it
	}
	return out
}

func tool(spec actors.FunctionSpec) goopenai.Tool {
	parameters := spec.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return goopenai.Tool{
		Type: goopenai.ToolTypeFunction,
		Function: &goopenai.FunctionDefinition{
			Name:        spec.Name,
			Description: spec.Description,
			Parameters:  parameters,
		},
	}
}

var errNoChoices = errors.New("openai: the reply has no choices")

// response is what the service answered to req. Its usage counts also where
// there is no answer in it.
func response(req actors.Request, reply goopenai.ChatCompletionResponse) (actors.Response, error) {
	resp := actors.Response{
		Model: reply.Model,
		Usage: core.Usage{InputTokens: reply.Usage.PromptTokens, OutputTokens: reply.Usage.CompletionTokens},
	}
	if len(reply.Choices) == 0 {
		return resp, core.Retryable(errNoChoices)
	}
	choice := reply.Choices[0]
	resp.FinishReason = string(choice.FinishReason)
	resp.Message = actors.Assistant(text(choice.Message))
	if len(choice.Message.ToolCalls) > 0 {
		resp.Message.ToolCalls = toolCalls(req, choice.Message.ToolCalls)
	}
	return resp, nil
}

// text is what the message says: its content, in one piece or in parts, or
// else its refusal.
func text(msg goopenai.ChatCompletionMessage) string {
	var b strings.Builder
	b.WriteString(msg.Content)
	for _, part := range msg.MultiContent {
		b.WriteString(part.Text)
	}
	if b.Len() == 0 {
		return msg.Refusal
	}
	return b.String()
}

// toolCalls gives an ID to calls that have none, as some services send them:
// their results could not be told apart. No ID is given that the conversation
// has already.
func toolCalls(req actors.Request, calls []goopenai.ToolCall) []actors.ToolCall {
	taken := make(map[string]bool)
	for _, call := range calls {
		taken[call.ID] = true
	}
	for _, msg := range req.Messages {
		for _, call := range msg.ToolCalls {
			taken[call.ID] = true
		}
	}
	n := 0
	free := func() (id string) {
		for id == "" || taken[id] {
			n++
			id = fmt.Sprintf("call_%d", n)
		}
		taken[id] = true
		return id
	}
	out := make([]actors.ToolCall, len(calls))
	for i, call := range calls {
		out[i] = actors.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments}
		if call.ID == "" {
			out[i].ID = free()
		}
	}
	return out
}
