package actors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// ModelOptions sets how a model answers. The options of a [Prompt] take precedence over those of
// the agent ([WithModelOptions]), which take precedence over the model's own. A zero field takes
// its value from the next of these levels.
//
// ToolChoice is not sent if there are no tools. If it forces an agent to call a tool ("required",
// or a tool's name), the agent may answer after it has called one.
type ModelOptions struct {
	Model           string   `json:"model,omitempty"`       // name of another model of the same service
	MaxTokens       int      `json:"max_tokens,omitempty"`  // limit for one answer, including reasoning
	Temperature     *float64 `json:"temperature,omitempty"` // 0 to 2, for example new(0.5)
	TopP            *float64 `json:"top_p,omitempty"`       // 0 to 1
	Seed            *int64   `json:"seed,omitempty"`
	Stop            []string `json:"stop,omitempty"`             // strings that end the answer
	Effort          string   `json:"effort,omitempty"`           // how much to reason, in the service's words: "none", "low", "high", …
	ToolChoice      string   `json:"tool_choice,omitempty"`      // "auto", "none", "required", or the name of a tool
	SequentialTools bool     `json:"sequential_tools,omitempty"` // at most one tool call per answer
	Format          *Format  `json:"format,omitempty"`           // the form of the answer

	Raw bool `json:"raw,omitempty"` // Response.Raw contains the unchanged reply

	// ExtraBody contains additional fields for the request body, in the service's own form, for
	// settings that have no field above. A field in ExtraBody replaces the request's field of the
	// same name; nil removes it. The exception is "tools": the tools in it, such as those that the
	// service itself runs, are added to the request's tools.
	ExtraBody map[string]any `json:"extra_body,omitempty"`
}

// A Format makes the model answer with a JSON document.
type Format struct {
	Name   string          `json:"name"`             // a valid function name
	Schema json.RawMessage `json:"schema"`           // the JSON schema of an object
	Strict bool            `json:"strict,omitempty"` // the service enforces the schema, which must then have a restricted form

	// Loose is the reason why a typed agent does not set Strict: it names the part of the schema
	// that services do not enforce. Loose is not sent.
	Loose string `json:"loose,omitempty"`

	// ByTool makes the model give its answer as the arguments of a tool named Name. It is for
	// services that support tools but not formats.
	ByTool bool `json:"by_tool,omitempty"`
}

// Or returns o with its zero fields taken from next. ExtraBody is merged key by key.
func (o ModelOptions) Or(next ModelOptions) ModelOptions {
	o.Model = cmp.Or(o.Model, next.Model)
	o.MaxTokens = cmp.Or(o.MaxTokens, next.MaxTokens)
	o.Temperature = cmp.Or(o.Temperature, next.Temperature)
	o.TopP = cmp.Or(o.TopP, next.TopP)
	o.Seed = cmp.Or(o.Seed, next.Seed)
	o.Effort = cmp.Or(o.Effort, next.Effort)
	o.ToolChoice = cmp.Or(o.ToolChoice, next.ToolChoice)
	o.SequentialTools = o.SequentialTools || next.SequentialTools
	o.Format = cmp.Or(o.Format, next.Format)
	o.Raw = o.Raw || next.Raw
	if o.Stop == nil {
		o.Stop = next.Stop
	}
	switch {
	case len(o.ExtraBody) == 0:
		o.ExtraBody = next.ExtraBody
	case len(next.ExtraBody) > 0:
		merged := maps.Clone(next.ExtraBody)
		maps.Copy(merged, o.ExtraBody)
		o.ExtraBody = merged
	}
	return o
}

// IsZero reports whether nothing is set.
func (o ModelOptions) IsZero() bool {
	return o.Model == "" && o.MaxTokens == 0 && o.Temperature == nil && o.TopP == nil && o.Seed == nil && o.Stop == nil &&
		o.Effort == "" && o.ToolChoice == "" && !o.SequentialTools && o.Format == nil && !o.Raw && len(o.ExtraBody) == 0
}

// forcesTools reports whether the model must call a tool.
func (o ModelOptions) forcesTools() bool {
	return o.ToolChoice != "" && o.ToolChoice != "auto" && o.ToolChoice != "none"
}

// Check returns an error for the first field whose value no service accepts. The error states what
// is allowed.
func (o ModelOptions) Check() error {
	outside := func(v *float64, most float64) bool {
		return v != nil && (math.IsNaN(*v) || *v < 0 || *v > most)
	}
	switch {
	case o.MaxTokens < 0:
		return fmt.Errorf("actors: ModelOptions.MaxTokens is %d; it must be above 0, or 0 for the model's own limit", o.MaxTokens)
	case outside(o.Temperature, 2):
		return fmt.Errorf("actors: ModelOptions.Temperature is %v; it must be from 0 to 2", *o.Temperature)
	case outside(o.TopP, 1):
		return fmt.Errorf("actors: ModelOptions.TopP is %v; it must be from 0 to 1", *o.TopP)
	case slices.Contains(o.Stop, ""):
		return fmt.Errorf("actors: ModelOptions.Stop contains an empty string, which would end every answer before its first word")
	}
	for key, v := range o.ExtraBody {
		if _, err := json.Marshal(v); err != nil {
			return fmt.Errorf("actors: ModelOptions.ExtraBody[%q] is not JSON: %w", key, err)
		}
	}
	if o.Format != nil {
		return o.Format.check()
	}
	return nil
}

func (f *Format) check() error {
	if err := CheckFunctionName(f.Name); err != nil {
		return fmt.Errorf("actors: ModelOptions.Format: %w", err)
	}
	var schema struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(f.Schema, &schema); err != nil {
		return fmt.Errorf("actors: the schema of format %q is not a JSON object: %w", f.Name, err)
	}
	if schema.Type != "object" {
		return fmt.Errorf("actors: the schema of format %q has the type %v; services only accept an object: put the value into a struct", f.Name, schema.Type)
	}
	return nil
}
