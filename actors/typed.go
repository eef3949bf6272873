package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/misfit"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// NewTypedAgent returns an agent like that of [NewAgent], but with an answer of type Out. The model
// receives the JSON schema of Out as the format of its answer if the service supports formats;
// otherwise it receives the schema as a tool. In both cases, the answer is checked against the
// schema. In the answer, the JSON document may be in a code fence, or follow other text or <think>
// tags. If an answer does not fit, the model is told about the problem and asked again, as often as
// [WithMaxCorrections] allows; after that, the agent fails with an *[AnswerError]. Each request to
// the model is a recorded call.
//
// Services are asked to enforce the schema if it allows this; see [WithStrict]. Otherwise,
// Format.Loose in the requests names the part of the schema that prevents enforcement.
//
// Out is a struct, or a map with string keys. In is the question: a [Prompt], a string, a type with
// a method Prompt() Prompt, or any other type that can be encoded as JSON, which is then sent to
// the model. An agent whose In is a struct can be a tool of another agent.
//
// NewTypedAgent panics for the same reasons as NewAgent, and also if Out has no JSON schema or if a
// tool is named answer, which is the name of the tool for the answer.
func NewTypedAgent[In, Out any](name string, llm LLM, opts ...Option) Agent[In, Out] {
	l, o := newLoop(name, llm, opts)
	out := must(outSchema[Out](name))
	l.check = func(text string) error { return out.Validate(json.RawMessage(text)) }
	if err := l.checkToolNames(); err != nil {
		panic(err.Error())
	}
	format := &Format{Name: formatName, ByTool: o.answerByTool}
	switch strict, err := strictOf(out); {
	case err == nil:
		out, format.Strict = strict, true
	case o.strict:
		panic(fmt.Sprintf("actors: %q: WithStrict: %v", name, err))
	default:
		format.Loose = err.Error()
	}
	format.Schema = out.JSON()
	l.options.Format = format
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
		if err := json.Unmarshal(fromStrict(out, json.RawMessage(answer.Text)), &typed); err != nil {
			return typed, core.Permanent(&AnswerError{Text: answer.Text, Asked: 1, Problem: misfit.Explain(err).Error()})
		}
		return typed, nil
	}
	return Agent[In, Out]{withIdentity(must(core.NewDefinition(o.spec, withVoidDeltas(handler))), o.identity), inSchema[In](), calledBy(llm, o.functions)}
}

// WithMaxCorrections limits how often a typed agent asks again for an answer
// that does not fit its type. Defaults to 2.
func WithMaxCorrections(n int) Option {
	return agentOption("WithMaxCorrections", func(o *options) {
		if n < 1 {
			panic(fmt.Sprintf("actors: WithMaxCorrections(%d): want 1 or more", n))
		}
		o.maxCorrections = n
	})
}

// WithAnswerByTool makes a typed agent request its answer as the arguments of a tool from the
// beginning. It is for services that accept a format but ignore it. Without this option, the agent
// does so only after the service has refused the format.
func WithAnswerByTool() Option {
	return agentOption("WithAnswerByTool", func(o *options) { o.answerByTool = true })
}

const (
	defaultMaxCorrections = 2
	formatName            = "answer"
)

// An AnswerError is the error of a typed agent whose model did not give an
// answer that fits the type.
type AnswerError struct {
	Text    string // the last answer
	Asked   int    // how often the model was asked for an answer
	Problem string // what is wrong with Text
}

// Error describes what is wrong with the last answer.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("the answer does not fit after %d tries: %s; the last answer: %s", e.Asked, e.Problem, record.Truncate(e.Text, 200))
}

func init() { record.RegisterErrorType[*AnswerError]("actors.AnswerError") }

func outSchema[Out any](name string) (Schema, error) {
	s, err := schema.ForArguments(reflect.TypeFor[Out]())
	if err != nil {
		return nil, fmt.Errorf("actors: the answer of %q: %w", name, err)
	}
	return s, nil
}

// inSchema returns the input schema of an agent that is used as a tool, or nil
// if the agent cannot be a tool.
func inSchema[In any]() Schema {
	if reflect.TypeFor[In]() == reflect.TypeFor[Prompt]() {
		return promptSchema
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
	text, err := jsonText(in)
	if err != nil {
		return Prompt{}, fmt.Errorf("actors: encode the input as JSON: %w", err)
	}
	return Ask(text), nil
}
