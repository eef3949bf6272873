package decorators

import (
	"context"
	"fmt"
	"reflect"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/internal/schema"
)

// Tool makes a tool from f. The JSON schema of its arguments is inferred from In. Tool panics if no
// schema can be inferred from In (the message names the field), if LLM services do not accept the
// name, if f is nil, or if an option is invalid.
func Tool[In, Out any](name, description string, f func(context.Context, In) (Out, error), opts ...actors.Option) actors.Tool[In, Out] {
	s, err := schema.ForArguments(reflect.TypeFor[In]())
	if err != nil {
		panic(fmt.Errorf("decorators: tool %q: no schema for its input: %w", name, err))
	}
	return actors.NewTool(name, description, s, f, opts...)
}

// Agent makes an agent from f, which calls other actors with the context that it receives. The JSON
// schema of its arguments is inferred from In. If no schema can be inferred, the agent can be
// called, but cannot be given to a model. Agent panics if LLM services do not accept the name, if f
// is nil, or if an option is invalid.
func Agent[In, Out any](name, description string, f func(context.Context, In) (Out, error), opts ...actors.Option) actors.Agent[In, Out] {
	var arguments actors.Schema // avoid an interface that holds a nil *schema.Schema
	if s, err := schema.ForArguments(reflect.TypeFor[In]()); err == nil {
		arguments = s
	}
	return actors.DefineAgent(name, description, arguments, f, opts...)
}

// LLM makes a language model from f, such as a client for a service or a script for a test. It
// panics if the name or an option is invalid, or if f is nil.
func LLM(name string, f func(context.Context, actors.Request) (actors.Response, error), opts ...actors.Option) actors.LLM {
	return actors.NewLLM(name, f, opts...)
}
