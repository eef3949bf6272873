package openaitest

import (
	"fmt"
	"slices"
	"strings"
)

// A Check returns an error if a request is not the one that a step expects. It is called on the
// goroutine that serves the request and must not modify the request.
type Check func(Request) error

// HasModel returns a check that a request asks for the given model.
func HasModel(model string) Check {
	return func(r Request) error {
		if r.Model != model {
			return fmt.Errorf("expected model %q, got %q", model, r.Model)
		}
		return nil
	}
}

// HasMessage returns a check that a request has a message with the given role that contains text.
func HasMessage(role, text string) Check {
	return func(r Request) error {
		for _, m := range r.Messages {
			if m.Role == role && strings.Contains(m.Content, text) {
				return nil
			}
		}
		return fmt.Errorf("expected a message from %s with %q", role, text)
	}
}

// HasTool returns a check that a request offers the model the tool called name.
func HasTool(name string) Check {
	return func(r Request) error {
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Contains(names, name) {
			return fmt.Errorf("expected tool %q, got %q", name, names)
		}
		return nil
	}
}

// HasToolResult returns a check that a request has a tool result that contains text. call is the ID
// of the tool call or the name of the tool.
func HasToolResult(call, text string) Check {
	return func(r Request) error {
		var got []string
		for _, result := range r.ToolResults() {
			if result.CallID != call && result.Name != call {
				continue
			}
			if strings.Contains(result.Content, text) {
				return nil
			}
			got = append(got, short(result.Content))
		}
		return fmt.Errorf("expected %q in a result of %q, got %q", text, call, got)
	}
}
