package actors

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// An Agent is an actor that calls other actors. It is immutable and safe for
// concurrent use. Make one with [NewAgent], decorators.Agent or [DefineAgent];
// calling the zero Agent is an error.
//
// By default, only the calls of an agent are retried, not the agent itself. If an
// agent is retried, it makes its calls again.
type Agent[In, Out any] struct {
	definition *core.Definition[In, Out]
	schema     Schema
	calls      []compensable // the actors that the agent is known to call: those passed to NewAgent or NewTypedAgent
}

// DefineAgent returns an agent with the given handler. The schema is sent to a model if the agent
// is a tool of another agent; otherwise it may be nil. DefineAgent panics if LLM services would not
// accept the name, if the handler is nil, or if an option is invalid.
func DefineAgent[In, Out any](name, description string, schema Schema, handler core.Handler[In, Out], opts ...Option) Agent[In, Out] {
	if err := CheckFunctionName(name); err != nil {
		panic(err)
	}
	spec := core.Spec{Kind: record.KindAgent, Name: name, Description: description}
	return Agent[In, Out]{definition: define(applyTyped(spec, opts), handler), schema: schema}
}

// Call executes the agent; see [core.ExecutionEvent.Execute].
func (a Agent[In, Out]) Call(ctx context.Context, in In) (Out, error) {
	return a.definition.Event().Execute(ctx, in)
}

// Event returns a call that can be given its own tag and retry configuration.
func (a Agent[In, Out]) Event() core.ExecutionEvent[In, Out] { return a.definition.Event() }

// Require returns a copy of the agent with one more precondition.
func (a Agent[In, Out]) Require(condition func(context.Context, In) error) Agent[In, Out] {
	a.definition = a.definition.Require(condition)
	return a
}

// Ensure returns a copy of the agent with one more postcondition.
func (a Agent[In, Out]) Ensure(condition func(context.Context, In, Out) error) Agent[In, Out] {
	a.definition = a.definition.Ensure(condition)
	return a
}

// Compensate returns a copy of the agent whose completed calls are undone by f; see
// [Tool.Compensate]. f must also undo the calls that the agent made.
func (a Agent[In, Out]) Compensate(f func(context.Context, In, Out) error) Agent[In, Out] {
	a.definition = a.definition.Compensate(f)
	return a
}

// Compensations returns the agent's own compensations and, at any depth, those of the model and the
// functions that were passed to its constructor. For an agent made by DefineAgent or
// decorators.Agent, the calls in its handler are not known, so their compensations are not
// included.
func (a Agent[In, Out]) Compensations() []*core.Compensation {
	all := a.definition.Compensations()
	for _, actor := range a.calls {
		all = append(all, actor.Compensations()...)
	}
	return all
}

// Name returns the agent's name, or "" for the zero Agent.
func (a Agent[In, Out]) Name() string { return a.definition.Spec().Name }

// Describe implements [Function].
func (a Agent[In, Out]) Describe() FunctionSpec { return describe(a.definition, a.schema) }

// Prepare implements [Function].
func (a Agent[In, Out]) Prepare(ctx context.Context, arguments string) (PreparedFunction, error) {
	return prepare(ctx, a.Name(), a.definition, a.schema, arguments)
}

// NewAgent returns an agent that answers a prompt: it asks llm and makes the tool calls that the
// model requests, until the model answers without requesting any. NewAgent panics for the same
// reasons as DefineAgent, and also if two tools have the same name or if an option is only for
// [NewTypedAgent].
//
// The returned answer is always complete: if the model was cut off, or the service withheld the
// answer or failed partway, the agent fails with an *[UnfinishedError]. If the answer is empty, the
// model is asked again, as it is when a postcondition of the LLM fails.
//
// The agent can be a tool of another agent, whose model then sends {"text": …} and receives the
// text of the answer.
func NewAgent(name string, llm LLM, opts ...Option) Agent[Prompt, Answer] {
	l, o := newLoop(name, llm, opts)
	for option, used := range map[string]bool{"WithStrict": o.strict, "WithAnswerByTool": o.answerByTool, "WithMaxCorrections": o.maxCorrections > 0} {
		if used {
			panic(fmt.Sprintf("actors: %q: %s is not an option of NewAgent, whose answer is text; see NewTypedAgent", name, option))
		}
	}
	return Agent[Prompt, Answer]{withIdentity(must(core.NewDefinition(o.spec, withVoidDeltas(l.run))), o.identity), promptSchema, calledBy(llm, o.functions)}
}

// withVoidDeltas wraps the handler of an agent or a tool: each attempt after the first begins by
// reporting that the deltas from earlier attempts are void. This is necessary because the calls of
// the new attempt have different addresses, so their deltas would not replace the earlier ones. If
// the handler itself emits text, it ends by reporting that the text is complete.
func withVoidDeltas[In, Out any](handler core.Handler[In, Out]) core.Handler[In, Out] {
	return func(ctx context.Context, in In) (Out, error) {
		emit := live.Emitter(ctx)
		if emit == nil {
			return handler(ctx, in)
		}
		voidDeltas(ctx)
		own := core.ScopeOf(ctx)
		var isOpen atomic.Bool // whether text was emitted since the last PartEnd
		defer func() {
			if isOpen.Load() {
				emit(live.Delta{Part: live.PartEnd})
			}
		}()
		return handler(live.Watch(ctx, func(d live.Delta) {
			switch {
			case d.Address != own.Address():
			case d.Part == live.PartText || d.Part == live.PartReasoning || d.Part == live.PartToolCall:
				isOpen.Store(true)
			case d.Part == live.PartEnd:
				isOpen.Store(false)
			}
		}), in)
	}
}

// voidDeltas reports that the deltas from earlier attempts of the call, if any, are void.
func voidDeltas(ctx context.Context) {
	if core.ScopeOf(ctx).Attempt() > 0 {
		live.Emit(ctx, live.Delta{Part: live.PartBegin})
		live.Emit(ctx, live.Delta{Part: live.PartEnd})
	}
}

// compensable is an actor whose calls may have compensations.
type compensable interface{ Compensations() []*core.Compensation }

// calledBy returns the actors that an agent calls. A Function that is neither a Tool nor an Agent
// need not implement compensable.
func calledBy(llm LLM, functions []Function) []compensable {
	all := []compensable{llm}
	for _, f := range functions {
		if c, ok := f.(compensable); ok {
			all = append(all, c)
		}
	}
	return all
}

// newLoop returns an agent's loop and options.
func newLoop(name string, llm LLM, opts []Option) (*loop, *options) {
	if err := CheckFunctionName(name); err != nil {
		panic(err)
	}
	if llm.definition == nil {
		panic(fmt.Sprintf("actors: agent %q has the zero LLM; make one with openai.New, decorators.LLM or NewLLM", name))
	}
	o := apply(core.Spec{Kind: record.KindAgent, Name: name}, opts)
	if o.approval != nil {
		panic(fmt.Sprintf("actors: %q: WithApproval applies only to tools", name))
	}
	l := &loop{
		name:           name,
		llm:            llm.Ensure(checkNotEmpty),
		tools:          must(NewToolSet(o.functions...)),
		toolsFuncs:     o.toolsFuncs,
		instructions:   o.instructions,
		options:        o.model,
		maxTurns:       o.maxTurns,
		maxCorrections: o.maxCorrections,
		workers:        o.workers,
		stopOnError:    o.stopOnError,
	}
	if err := l.checkOptions(o.model, false); err != nil {
		panic(fmt.Errorf("actors: %q: WithModelOptions: %w", name, err))
	}
	if l.maxTurns == 0 {
		l.maxTurns = defaultMaxTurns
	}
	if l.workers == 0 {
		l.workers = defaultToolWorkers
	}
	return l, o
}

// checkNotEmpty is a postcondition that fails if the answer is empty. Whether an answer was
// truncated is checked later.
func checkNotEmpty(_ context.Context, _ Request, resp Response) error {
	switch resp.finish() {
	case FinishStop, FinishOther:
		if strings.TrimSpace(resp.Message.Text) == "" && len(resp.Message.Parts) == 0 {
			return errors.New("the answer is empty")
		}
	}
	return nil
}

// WithTools gives an agent tools, which may be other agents. The tools are sent to the model in the
// given order.
func WithTools(functions ...Function) Option {
	return agentOption("WithTools", func(o *options) { o.functions = append(o.functions, functions...) })
}

// WithToolsFunc gives an agent tools that are determined during each of its calls, such as the
// tools that a server lists. They come after the tools from [WithTools] and from any earlier
// WithToolsFunc.
//
// take is called whenever the agent's handler is entered, including when its run is resumed. If
// take reads data from outside the run, it must do so in a [core.Step]: the list is then recorded,
// the model sees the same tools after a resume, and a replay needs no server. The call fails if
// take returns an error, if two tools have the same name, or if a tool of a typed agent is named
// answer. [Agent.Compensations] does not include the compensations of these tools.
func WithToolsFunc(take func(context.Context) ([]Function, error)) Option {
	return agentOption("WithToolsFunc", func(o *options) {
		if take == nil {
			panic(fmt.Sprintf("actors: %q: WithToolsFunc got nil", o.spec.Name))
		}
		o.toolsFuncs = append(o.toolsFuncs, take)
	})
}

// WithInstructions sets the system message of an agent.
func WithInstructions(text string) Option {
	return agentOption("WithInstructions", func(o *options) { o.instructions = instructions{text: text} })
}

// WithInstructionParts sets the parts of an agent's system message, which must all be text. A part
// may have fields for particular services, such as a marker for the end of the prompt prefix that
// is to be cached; see [Extra]. If several options set the agent's instructions, the last one
// applies.
func WithInstructionParts(parts ...Part) Option {
	return agentOption("WithInstructionParts", func(o *options) {
		for i, p := range parts {
			if p.Text == "" || len(p.Data) > 0 || p.URL != "" {
				panic(fmt.Sprintf("actors: WithInstructionParts: part %d is not text; a system message can contain only text", i+1))
			}
		}
		o.instructions = instructions{parts: slices.Clone(parts)}
	})
}

// WithInstructionsFunc sets a function that builds the system message for each call of the agent,
// for example to include the date. If the returned text is empty, no system message is sent. build
// is called once for each call: its text is recorded as the step "instructions" and stays the same
// when the call is resumed. If build returns an error, the call fails.
func WithInstructionsFunc(build func(context.Context, Prompt) (string, error)) Option {
	return agentOption("WithInstructionsFunc", func(o *options) { o.instructions = instructions{build: build} })
}

// WithModelOptions sets the options of the agent's model. The options of a [Prompt]
// take precedence.
func WithModelOptions(model ModelOptions) Option {
	return agentOption("WithModelOptions", func(o *options) { o.model = model })
}

// WithDescription describes the agent to the models of other agents.
func WithDescription(text string) Option {
	return agentOption("WithDescription", func(o *options) { o.spec.Description = text })
}

// WithMaxTurns limits how often an agent asks its LLM before the agent fails with [ErrTurnLimit].
// Requests that follow tool calls count, and so do a typed agent's requests for a corrected answer.
// If a service refuses a request because of its format and the request is repeated with a tool
// instead, the two count as one. Defaults to 10.
func WithMaxTurns(n int) Option {
	return agentOption("WithMaxTurns", func(o *options) {
		if n < 1 {
			panic(fmt.Sprintf("actors: WithMaxTurns(%d): want 1 or more", n))
		}
		o.maxTurns = n
	})
}

// WithToolWorkers limits how many tool calls of one turn run at once. Defaults
// to 8.
func WithToolWorkers(n int) Option {
	return agentOption("WithToolWorkers", func(o *options) {
		if n < 1 {
			panic(fmt.Sprintf("actors: WithToolWorkers(%d): want 1 or more", n))
		}
		o.workers = n
	})
}

// WithStopOnToolError makes an agent fail when a tool call fails permanently. Without this option,
// the failure is sent to the model, and the agent continues.
func WithStopOnToolError() Option {
	return agentOption("WithStopOnToolError", func(o *options) { o.stopOnError = true })
}

const (
	defaultMaxTurns    = 10
	defaultToolWorkers = 8
)

func agentOption(name string, set func(*options)) Option {
	return func(o *options) {
		if o.agentOnly == "" {
			o.agentOnly = name
		}
		set(o)
	}
}

// promptSchema is the input schema of the agents that NewAgent makes: the text
// alone, without history.
var promptSchema = must(schema.ForArguments(reflect.TypeFor[struct {
	Text string `json:"text" jsonschema:"what the agent is asked, with everything it needs to know"`
}]()))
