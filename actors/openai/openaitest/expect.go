package openaitest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Check says why a request is not the one a step expects; nil if it is. It
// runs on the goroutine of its request and must not change it.
type Check func(Request) error

// HasModel expects the request to be for that model.
func HasModel(model string) Check {
	return func(r Request) error {
		if r.Model != model {
			return fmt.Errorf("model %q expected, got %q", model, r.Model)
		}
		return nil
	}
}

// HasAPIKey expects the request to carry that key as its bearer token. The
// error does not show the key that came.
func HasAPIKey(key string) Check {
	return func(r Request) error {
		switch r.Header.Get("Authorization") {
		case "Bearer " + key:
			return nil
		case "":
			return errors.New("an API key expected, got no Authorization header")
		default:
			return errors.New("another Authorization header expected")
		}
	}
}

// LastMessageContains expects text in the last message.
func LastMessageContains(text string) Check {
	return func(r Request) error {
		if last := r.LastMessage(); !strings.Contains(last.Content, text) {
			return fmt.Errorf("%q expected in the last message, got %s: %q", text, last.Role, short(last.Content))
		}
		return nil
	}
}

// HasMessage expects a message from role with text in it.
func HasMessage(role, text string) Check {
	return func(r Request) error {
		for _, m := range r.Messages {
			if m.Role == role && strings.Contains(m.Content, text) {
				return nil
			}
		}
		return fmt.Errorf("a message from %s with %q expected", role, text)
	}
}

// HasTool expects the model to be offered a tool called name.
func HasTool(name string) Check {
	return func(r Request) error {
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Contains(names, name) {
			return fmt.Errorf("tool %q expected, got %q", name, names)
		}
		return nil
	}
}

// HasToolResult expects text in a result of call, which is the ID of a tool
// call or the name of a tool.
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
		return fmt.Errorf("%q expected in a result of %q, got %q", text, call, got)
	}
}
