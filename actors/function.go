package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// A Function is a tool or an agent in the untyped form that a model can call.
type Function interface {
	// Describe returns what is sent to the model.
	Describe() FunctionSpec

	// Prepare checks the arguments, a JSON object from the model, and claims the address of the
	// call in the scope of ctx. If the arguments are not JSON, or the schema does not allow them,
	// the error is an *[ArgumentsError].
	Prepare(ctx context.Context, arguments string) (PreparedFunction, error)
}

// A PreparedFunction makes the prepared call, which can be made only once, and returns the output
// in the form that is sent to the model. A string, a json.RawMessage, a [ToolOutput], a [Part] or a
// []Part is sent unchanged. If a value has a method ToolResult() string, the result of that method
// is sent. Any other value is sent as JSON.
type PreparedFunction func(ctx context.Context) (ToolOutput, error)

// A ToolOutput is the output of a function as it is sent to a model: text,
// followed by images, audio and files.
type ToolOutput struct {
	Text  string `json:"text,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// FunctionSpec describes a function to a model.
type FunctionSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON schema
	Strict      bool            `json:"strict,omitempty"`     // the service enforces the schema; see WithStrict
}

// An ArgumentsError reports that the arguments of a function call are invalid.
type ArgumentsError struct {
	Function string
	Err      error // names each invalid field
}

// Error returns a message for the model that sent the arguments.
func (e *ArgumentsError) Error() string {
	return fmt.Sprintf("invalid arguments for %s: %v", e.Function, e.Err)
}

// Unwrap returns e.Err.
func (e *ArgumentsError) Unwrap() error { return e.Err }

// prepare implements Function.Prepare for a definition with a schema.
func prepare[In, Out any](ctx context.Context, name string, d *core.Definition[In, Out], schema Schema, arguments string) (PreparedFunction, error) {
	var in In
	if err := decodeArguments(&in, name, schema, arguments); err != nil {
		return nil, err
	}
	call := d.Event().Prepare(ctx, in)
	return func(ctx context.Context) (ToolOutput, error) {
		out, err := call.Execute(ctx)
		if err != nil {
			return ToolOutput{}, err
		}
		return toolOutput(name, out)
	}, nil
}

// decodeArguments decodes arguments from a model into the pointer in.
func decodeArguments(in any, name string, schema Schema, arguments string) error {
	if schema == nil {
		return fmt.Errorf("actors: %q has no schema for its arguments", name)
	}
	raw := json.RawMessage(arguments)
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}") // models send an empty string for a function with no parameters
	}
	return decodeInto(in, name, schema, raw)
}

func toolOutput(name string, out any) (ToolOutput, error) {
	switch out := out.(type) {
	case ToolOutput:
		return out, nil
	case Part:
		return ToolOutput{Parts: []Part{out}}, nil
	case []Part:
		return ToolOutput{Parts: out}, nil
	}
	text, err := resultText(name, out)
	return ToolOutput{Text: text}, err
}

// resultText converts an output to the text that is sent to a model.
func resultText(name string, out any) (text string, err error) {
	defer func() {
		if p := recover(); p != nil { // a method of the output type panicked
			err = fmt.Errorf("actors: converting the output of %s to text panicked: %v", name, p)
		}
	}()
	switch out := out.(type) {
	case string:
		return out, nil
	case interface{ ToolResult() string }:
		return out.ToolResult(), nil
	case json.RawMessage:
		return string(out), nil
	}
	if text, err = jsonText(out); err != nil {
		return "", fmt.Errorf("actors: convert the output of %s to text: %w", name, err)
	}
	return text, nil
}

// jsonText encodes a value as JSON for a model, without escaping <, > and &.
func jsonText(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// A ToolSet is an ordered set of functions with distinct names. It is immutable. The zero ToolSet
// is empty.
type ToolSet struct {
	functions []Function
	specs     []FunctionSpec
	byName    map[string]int
}

// NewToolSet returns a set of the functions. It returns an error if a function
// is nil or has no schema, if LLM services do not accept its name, or if two
// functions have the same name.
func NewToolSet(functions ...Function) (ToolSet, error) {
	return ToolSet{}.With(functions...)
}

// With returns a set that contains the functions of ts, followed by the given ones.
func (ts ToolSet) With(functions ...Function) (ToolSet, error) {
	all := append(slices.Clone(ts.functions), functions...)
	out := ToolSet{functions: all, byName: make(map[string]int, len(all))}
	var problems []error
	for i, f := range all {
		if f == nil {
			problems = append(problems, fmt.Errorf("actors: function %d of the tool set is nil", i+1))
			continue
		}
		spec := f.Describe()
		if spec.Name == "" {
			problems = append(problems, fmt.Errorf("actors: function %d of the tool set has no name: it is a zero value; make it with a constructor, such as decorators.Tool", i+1))
			continue
		}
		if err := CheckFunctionName(spec.Name); err != nil {
			problems = append(problems, err)
		}
		if len(spec.Parameters) == 0 {
			problems = append(problems, fmt.Errorf("actors: %q cannot be given to a model: its input type has no JSON schema; structs, and maps with string keys, have one if everything in them has one", spec.Name))
		}
		if _, taken := out.byName[spec.Name]; taken {
			problems = append(problems, fmt.Errorf("actors: two functions are named %q; a model could not tell them apart", spec.Name))
		}
		out.byName[spec.Name] = i
		out.specs = append(out.specs, spec)
	}
	if len(problems) > 0 {
		return ToolSet{}, errors.Join(problems...)
	}
	return out, nil
}

// Describe returns the descriptions of the functions, in the order of the set.
func (ts ToolSet) Describe() []FunctionSpec { return slices.Clone(ts.specs) }

// Lookup returns the function with the given name.
func (ts ToolSet) Lookup(name string) (Function, bool) {
	i, ok := ts.byName[name]
	if !ok {
		return nil, false
	}
	return ts.functions[i], true
}

// Len returns the number of functions.
func (ts ToolSet) Len() int { return len(ts.functions) }

// names lists the names of the functions. It is used to answer a model that asked for a function
// that does not exist.
func (ts ToolSet) names() string {
	names := make([]string, len(ts.specs))
	for i, spec := range ts.specs {
		names[i] = spec.Name
	}
	return strings.Join(names, ", ")
}
