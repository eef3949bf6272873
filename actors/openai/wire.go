package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/actors"
)

// A wire is the wire format of one of the two APIs.
type wire interface {
	// source identifies the API and the service that opaque data comes from and is sent back to.
	source() string

	// path returns the URL path of the API.
	path() string

	// body returns the encoded request. It returns an error for options that the API
	// does not support.
	body(model string, req actors.Request, stream bool) ([]byte, error)

	// read processes a complete reply. It reports whether the answer is complete.
	read(a *answer, data []byte) (complete bool, err error)

	// event processes one event of a stream. It returns errDone for the last event.
	event(a *answer, data []byte) (complete bool, err error)
}

// A functionTool describes a function, in both APIs.
type functionTool struct {
	Type        string          `json:"type,omitempty"` // only in the Responses API
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

func functionToolOf(spec actors.FunctionSpec) functionTool {
	parameters := spec.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	tool := functionTool{Name: spec.Name, Description: spec.Description, Parameters: parameters}
	if spec.Strict {
		tool.Strict = &spec.Strict
	}
	return tool
}

// toolChoice returns the tool choice in the form that the API uses, or nil for the service's
// default.
func toolChoice(choice string, named func(string) any) any {
	switch choice {
	case "":
		return nil
	case "auto", "none", "required":
		return choice
	}
	return named(choice)
}

// hasTools reports whether the request has tools, including tools that the service runs itself.
func hasTools(req *actors.Request) bool {
	return len(req.Tools) > 0 || req.Options.ExtraBody["tools"] != nil
}

// withExtra encodes a body with additional fields. A nil value removes a field. Additional tools
// are appended to those in the body.
func withExtra(body any, extra map[string]any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for key, value := range extra {
		if value == nil {
			delete(fields, key)
			continue
		}
		field, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("openai: ModelOptions.ExtraBody[%q]: %w", key, err)
		}
		if own := fields[key]; key == "tools" && isSet(own) {
			if field, err = concatArrays(own, field); err != nil {
				return nil, fmt.Errorf("openai: ModelOptions.ExtraBody[%q]: %w", key, err)
			}
		}
		fields[key] = field
	}
	return json.Marshal(fields)
}

// concatArrays concatenates two JSON arrays.
func concatArrays(a, b json.RawMessage) (json.RawMessage, error) {
	var all, more []json.RawMessage
	if err := errors.Join(json.Unmarshal(a, &all), json.Unmarshal(b, &more)); err != nil {
		return nil, err
	}
	return json.Marshal(append(all, more...))
}

// pairResults returns messages in which each tool result has the ID of a call. Results with unknown
// IDs are assigned, in order, to the calls that have no result.
func pairResults(messages []actors.Message) []actors.Message {
	changed := false
	for i := range messages {
		calls := messages[i].ToolCalls
		if len(calls) == 0 {
			continue
		}
		end := i + 1
		for end < len(messages) && messages[end].Role == actors.RoleTool {
			end++
		}
		results := messages[i+1 : end]
		if !slices.ContainsFunc(results, func(m actors.Message) bool { return !hasCall(calls, m.ToolCallID) }) {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(calls), func(c actors.ToolCall) bool {
			return slices.ContainsFunc(results, func(m actors.Message) bool { return m.ToolCallID == c.ID })
		})
		for n := range results {
			if hasCall(calls, results[n].ToolCallID) || len(open) == 0 {
				continue
			}
			if !changed {
				messages, changed = slices.Clone(messages), true
			}
			messages[i+1+n].ToolCallID, open = open[0].ID, open[1:]
		}
	}
	return messages
}

func hasCall(calls []actors.ToolCall, id string) bool {
	return slices.ContainsFunc(calls, func(c actors.ToolCall) bool { return c.ID == id })
}

// extraFor returns the extra fields for a service.
func extraFor(extra actors.Extra, host string) map[string]any {
	if len(extra) == 0 {
		return nil
	}
	fields := make(map[string]any)
	for domain, more := range extra {
		if domain == "" || domain == host || strings.HasSuffix(host, "."+domain) {
			maps.Copy(fields, more)
		}
	}
	return fields
}

// noText replaces empty text, since some services refuse messages without content.
const noText = "(empty)"

// errorText returns the text of a message. Tool errors get a prefix, since the APIs have no other
// way to mark them.
func errorText(msg actors.Message) string {
	if msg.IsError && !strings.HasPrefix(msg.Text, "error: ") {
		return "error: " + msg.Text
	}
	return msg.Text
}

// arguments returns the arguments of a call in a form that services accept: an object.
func arguments(text string) string {
	if !isObject(text) {
		return "{}"
	}
	return text
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// validName returns a function name in a form that services accept. A model may have called a
// function by an invalid name; sending that name back would make the conversation unusable.
func validName(name string) string {
	if actors.CheckFunctionName(name) == nil {
		return name
	}
	name = notInNames.ReplaceAllString(name, "_")
	return cmp.Or(name[:min(len(name), 64)], "_")
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// mustMarshal encodes values whose encoding cannot fail: raw JSON, strings and numbers.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
