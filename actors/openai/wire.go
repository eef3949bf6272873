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

// wire is one of the two APIs.
type wire interface {
	// from names the API and the service, for opaque data: where it came from
	// and goes back to.
	from() string

	// path is that of the API at the service.
	path() string

	// body is the request in the API's form. Its error names what cannot be
	// said in it.
	body(model string, req actors.Request, stream bool) ([]byte, error)

	// read takes a whole reply. complete says that the answer is all there.
	read(a *answer, data []byte) (complete bool, err error)

	// event takes one event of a stream; errDone says that it was the last.
	event(a *answer, data []byte) (complete bool, err error)
}

// functionTool describes a function on either wire.
type functionTool struct {
	Type        string          `json:"type,omitempty"` // on the Responses wire
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

// toolChoice is that of the options in the service's form; nil leaves it to
// the service.
func toolChoice(choice string, named func(string) any) any {
	switch choice {
	case "":
		return nil
	case "auto", "none", "required":
		return choice
	}
	return named(choice)
}

// hasTools reports whether the request has tools, of its own or of the service.
func hasTools(req *actors.Request) bool {
	return len(req.Tools) > 0 || req.Options.Extra["tools"] != nil
}

// withExtra marshals a body with more fields in it. A field that is nil is
// taken out. Tools are added to those of the body.
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
			return nil, fmt.Errorf("openai: Options.Extra[%q]: %w", key, err)
		}
		if own := fields[key]; key == "tools" && isSet(own) {
			if field, err = joined(own, field); err != nil {
				return nil, fmt.Errorf("openai: Options.Extra[%q]: %w", key, err)
			}
		}
		fields[key] = field
	}
	return json.Marshal(fields)
}

// joined returns the items of two arrays in one.
func joined(a, b json.RawMessage) (json.RawMessage, error) {
	var all, more []json.RawMessage
	if err := errors.Join(json.Unmarshal(a, &all), json.Unmarshal(b, &more)); err != nil {
		return nil, err
	}
	return json.Marshal(append(all, more...))
}

// paired returns messages in which each result of a tool has the ID of a call. Results
// whose IDs no call before them has answer the calls that have no result, in their order.
func paired(messages []actors.Message) []actors.Message {
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
		if !slices.ContainsFunc(results, func(m actors.Message) bool { return !isOf(calls, m.ToolCallID) }) {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(calls), func(c actors.ToolCall) bool {
			return slices.ContainsFunc(results, func(m actors.Message) bool { return m.ToolCallID == c.ID })
		})
		for n := range results {
			if isOf(calls, results[n].ToolCallID) || len(open) == 0 {
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

func isOf(calls []actors.ToolCall, id string) bool {
	return slices.ContainsFunc(calls, func(c actors.ToolCall) bool { return c.ID == id })
}

// extraFor returns the fields that are for a service.
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

// noText stands for an empty text: some services refuse a message without
// content.
const noText = "(empty)"

// errorText is the text of a message. The APIs have no other mark for the
// error of a tool.
func errorText(msg actors.Message) string {
	if msg.IsError && !strings.HasPrefix(msg.Text, "error: ") {
		return "error: " + msg.Text
	}
	return msg.Text
}

// arguments is what goes back of a call's arguments: services refuse what is
// not an object.
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

// sentName is the name of a function as it goes back. A model may have called
// one that no service takes the name of, and would take no more of the
// conversation then.
func sentName(name string) string {
	if actors.CheckFunctionName(name) == nil {
		return name
	}
	name = notInNames.ReplaceAllString(name, "_")
	return cmp.Or(name[:min(len(name), 64)], "_")
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// mustMarshal is for what was read as JSON, or is made of texts and numbers.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
