package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// NewTypedAgent returns an agent like that of [NewAgent] whose answer is an
// Out. The model gets the JSON schema of Out, as the format of its answer if
// the service has such formats, and otherwise as a tool. Its answer is checked
// against the schema either way. An answer that does not fit is sent back to
// the model with what is wrong, and it is asked again, as often as
// [WithMaxCorrections] allows; after that the agent fails with an
// *[AnswerError]. Each question to the model is a recorded call.
//
// Out is a struct, or a map with string keys. In is the question: a [Prompt], a
// string, a type with a method Prompt() Prompt, or any other type that can be
// encoded as JSON, which is then sent to the model. An agent whose In is a
// struct can be a tool of another agent.
//
// It panics as NewAgent does, and if Out has no JSON schema.
func NewTypedAgent[In, Out any](name string, llm LLM, opts ...Option) Agent[In, Out] {
	l, o := newLoop(name, llm, opts)
	out := must(outSchema[Out](name))
	if _, taken := l.tools.Lookup(formatName); taken {
		panic(fmt.Sprintf("actors: %q has a tool named %q, which is the name of its answer", name, formatName))
	}
	l.check = func(text string) error { return out.Validate(json.RawMessage(text)) }
	l.options.Format = &Format{Name: formatName, Schema: out.JSON(), Strict: isStrict(out.JSON())}
	if l.maxCorrections == 0 {
		l.maxCorrections = defaultMaxCorrections
	}
	handler := func(ctx context.Context, in In) (Out, error) {
		var typed Out
		prompt, err := promptOf(in)
		if err != nil {
			return typed, core.Permanent(err)
		}
		answer, err := l.run(ctx, prompt)
		if err != nil {
			return typed, err
		}
		if err := json.Unmarshal([]byte(answer.Text), &typed); err != nil {
			return typed, core.Permanent(&AnswerError{Text: answer.Text, Asked: 1, Problem: decodeError(err).Error()})
		}
		return typed, nil
	}
	return Agent[In, Out]{identified(must(core.NewDefinition(o.spec, handler)), o.identity), inSchema[In](), calledBy(llm, o.functions)}
}

// WithMaxCorrections limits how often a typed agent asks again for an answer
// that does not fit its type. Defaults to 2.
func WithMaxCorrections(n int) Option {
	return agentOption("WithMaxCorrections", func(o *options) {
		if n < 1 {
			panic(fmt.Sprintf("actors: WithMaxCorrections(%d): it must be 1 or more", n))
		}
		o.maxCorrections = n
	})
}

const (
	defaultMaxCorrections = 2
	formatName            = "answer"
)

// An AnswerError is the failure of a typed agent whose model did not give an
// answer of the type.
type AnswerError struct {
	Text    string // the last answer
	Asked   int    // how often the model was asked
	Problem string // what is wrong with it
}

// Error says what is wrong with the last answer.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("the answer does not fit after %d tries: %s; it is: %s", e.Asked, e.Problem, record.Truncate(e.Text, 200))
}

func init() { record.RegisterErrorType[*AnswerError]("actors.AnswerError") }

func outSchema[Out any](name string) (Schema, error) {
	s, err := schema.ForArguments(reflect.TypeFor[Out]())
	if err != nil {
		return nil, fmt.Errorf("actors: the answer of %q: %w", name, err)
	}
	return s, nil
}

// inSchema returns the schema of the input of an agent as a tool; nil if it
// cannot be one.
func inSchema[In any]() Schema {
	if reflect.TypeFor[In]() == reflect.TypeFor[Prompt]() {
		return promptSchema{}
	}
	s, err := schema.ForArguments(reflect.TypeFor[In]())
	if err != nil {
		return nil
	}
	return s
}

// promptOf returns the prompt for an input.
func promptOf(in any) (Prompt, error) {
	switch in := in.(type) {
	case Prompt:
		return in, nil
	case string:
		return Ask(in), nil
	case interface{ Prompt() Prompt }:
		return in.Prompt(), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return Prompt{}, fmt.Errorf("actors: the input as JSON: %w", err)
	}
	return Ask(strings.TrimSuffix(b.String(), "\n")), nil
}

// isStrict reports whether services can enforce the schema: OpenAI requires
// that every property of every object is required, and no others are allowed.
func isStrict(document json.RawMessage) bool {
	return strictObject(document) == nil
}

var errNotStrict = errors.New("not strict")

func strictObject(document json.RawMessage) error {
	var s struct {
		Properties           map[string]json.RawMessage `json:"properties"`
		Required             []string                   `json:"required"`
		AdditionalProperties json.RawMessage            `json:"additionalProperties"`
		Items                json.RawMessage            `json:"items"`
		AnyOf                []json.RawMessage          `json:"anyOf"`
		Defs                 map[string]json.RawMessage `json:"$defs"`
		Type                 json.RawMessage            `json:"type"`
		Ref                  string                     `json:"$ref"`
	}
	if err := json.Unmarshal(document, &s); err != nil {
		return err
	}
	isObject := strings.Contains(string(s.Type), `"object"`)
	switch {
	case isObject && string(s.AdditionalProperties) != "false", isObject && len(s.Required) != len(s.Properties):
		return errNotStrict
	case len(s.Type) == 0 && s.Ref == "" && len(s.AnyOf) == 0:
		return errNotStrict
	}
	inner := append([]json.RawMessage{}, s.AnyOf...)
	for _, of := range []map[string]json.RawMessage{s.Properties, s.Defs} {
		for _, sub := range of {
			inner = append(inner, sub)
		}
	}
	if len(s.Items) > 0 {
		inner = append(inner, s.Items)
	}
	for _, sub := range inner {
		if err := strictObject(sub); err != nil {
			return err
		}
	}
	return nil
}
