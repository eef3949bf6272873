package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/state"
)

// The tools for clients that do not support tasks.
const (
	toolWait   = "run_wait"
	toolAnswer = "run_answer"
)

func (s *server) runTools() []*sdk.Tool {
	yes := true
	return []*sdk.Tool{
		{
			Name: toolWait, Description: "Waits for a run that an earlier call started, and returns its result.",
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"run":{"type":"string","description":"the ID of the run"}},"required":["run"],"additionalProperties":false}`),
		},
		{
			Name: toolAnswer, Description: "Answers a question of a run that an earlier call started, in the words of the user, and returns the result of the run.",
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"run":{"type":"string","description":"the ID of the run"},"question":{"type":"string","description":"the ID of the question"},"answer":{"description":"the user's answer, in the form that the question asks for"}},"required":["run","question","answer"],"additionalProperties":false}`),
		},
	}
}

// callRunTool handles a call to one of the tools for clients that do not support tasks.
func (s *server) callRunTool(ctx context.Context, c caller, p *sdk.CallToolParamsRaw) (sdk.Result, error) {
	var in struct {
		Run      string          `json:"run"`
		Question string          `json:"question"`
		Answer   json.RawMessage `json:"answer"`
	}
	if len(p.Arguments) == 0 || json.Unmarshal(p.Arguments, &in) == nil && in.Run == "" {
		return errorResult(`invalid arguments: run is missing; want the ID of a run, such as {"run": "mcp-…"}`), nil
	}
	if err := json.Unmarshal(p.Arguments, &in); err != nil {
		return errorResult("invalid arguments: " + err.Error()), nil
	}
	info, err := s.find(ctx, c, in.Run)
	if err != nil {
		return errorResult(err.Error()), nil
	}
	if p.Name == toolAnswer {
		value, err := state.JSONAnswer(in.Answer)
		if err == nil {
			err = s.runner.Answer(ctx, info.RunID, in.Question, c.principal, value)
		}
		if errors.Is(err, state.ErrAnswered) { // perhaps by this client, which may have lost the result
			return errorResult(fmt.Sprintf("%v, and the first answer counts; call %s with {\"run\": %q} to wait for the result", err, toolWait, info.RunID)), nil
		} else if err != nil {
			return errorResult(err.Error()), nil
		}
	}
	return s.hold(ctx, c, info.RunID, info.LastSeq)
}
