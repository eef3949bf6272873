package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// outcome returns the tool result for a run that has stopped.
func (s *server) outcome(ctx context.Context, info *snapshot.Info) (*callResult, error) {
	switch info.Status {
	case snapshot.StatusCancelled:
		return errorResult("the run was cancelled" + afterColon(info.Stop.Message)), nil
	case snapshot.StatusInterrupted:
		return errorResult(fmt.Sprintf("the run %s was interrupted%s; when it is resumed, call %s with {\"run\": %q}", info.RunID, afterColon(info.Stop.Message), toolWait, info.RunID)), nil
	}
	out, err := s.runner.Result(ctx, info.RunID)
	if err != nil {
		switch {
		case errors.Is(err, core.ErrPanic): // this is not a failure that a tool reports
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: record.Truncate(err.Error(), record.MessageLimit)}
		case info.Status == snapshot.StatusFailed:
			return errorResult(err.Error()), nil
		}
		return nil, err
	}
	return resultOf(out)
}

// resultOf returns a program's output as a tool result.
func resultOf(out any) (*callResult, error) {
	r := &callResult{ResultType: "complete"}
	switch out := out.(type) {
	case string:
		return textResult("%s", out), nil
	case actors.ToolOutput:
		r.Content = contentOf(out.Text, out.Parts)
		return r, nil
	case interface{ ToolResult() string }:
		return textResult("%s", out.ToolResult()), nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("mcp: encode the run's output: %w", err)
	}
	r.Content = []sdk.Content{&sdk.TextContent{Text: string(raw)}}
	if len(raw) > 0 && raw[0] == '{' {
		r.Structured = raw
	}
	return r, nil
}

func contentOf(text string, parts []actors.Part) []sdk.Content {
	content := []sdk.Content{}
	if text != "" {
		content = append(content, &sdk.TextContent{Text: text})
	}
	for _, p := range parts {
		switch {
		case p.Text != "":
			content = append(content, &sdk.TextContent{Text: p.Text})
		case p.URL != "":
			content = append(content, &sdk.ResourceLink{URI: p.URL, Name: p.Name, MIMEType: p.MIME})
		case strings.HasPrefix(p.MIME, "image/"):
			content = append(content, &sdk.ImageContent{MIMEType: p.MIME, Data: p.Data})
		case strings.HasPrefix(p.MIME, "audio/"):
			content = append(content, &sdk.AudioContent{MIMEType: p.MIME, Data: p.Data})
		default:
			content = append(content, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///" + p.Name, MIMEType: p.MIME, Blob: p.Data}})
		}
	}
	return content
}

func textResult(format string, args ...any) *callResult {
	return &callResult{ResultType: "complete", Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func errorResult(message string) *callResult {
	r := textResult("%s", record.Truncate(message, record.MessageLimit))
	r.IsError = true
	return r
}

// openQuestions returns the tool result for a call whose run waits for an answer. It is used if the
// client cannot ask its user or the user has declined. The result explains how to answer.
func (s *server) openQuestions(ctx context.Context, runID string) (sdk.Result, error) {
	open, err := s.questions(ctx, runID)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The run %s waits for an answer. Do not make one up: ask the user. Then call %s with {\"run\": %q, \"question\": …, \"answer\": …}, where the answer matches its JSON schema.\n", runID, toolAnswer, runID)
	for _, q := range open {
		fmt.Fprintf(&b, "question %q: %s\n", q.ID, q.Text)
		if q.Refused != "" {
			fmt.Fprintf(&b, "  %s\n", q.Refused)
		}
		if q.Awaits == record.AwaitDecision {
			takeOver := ""
			if canTakeOver(&q) {
				takeOver = `{"decision": "take_over"}, `
			}
			fmt.Fprintf(&b, "  answer: %s{\"decision\": \"completed\", \"output\": …}, {\"decision\": \"run_again\"} or {\"decision\": \"failed\", \"message\": \"…\"}\n", takeOver)
		}
		if len(q.Schema) > 0 {
			fmt.Fprintf(&b, "  schema: %s\n", q.Schema)
		}
	}
	return textResult("%s", strings.TrimSpace(b.String())), nil
}
