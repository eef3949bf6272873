package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// ErrTurnLimit is the error of an agent whose model still asked for tools in the last turn, or gave
// an answer that did not fit the type. Use errors.Is to test for it.
var ErrTurnLimit = errors.New("turn limit reached")

// loop is the handler of an agent made by NewAgent or NewTypedAgent.
type loop struct {
	name           string
	llm            LLM
	tools          ToolSet
	toolsFuncs     []func(context.Context) ([]Function, error)
	instructions   instructions
	options        ModelOptions
	check          func(text string) error // nil if any text is an answer
	maxTurns       int
	maxCorrections int
	workers        int
	stopOnError    bool
}

// instructions is a system message, or a function that builds one.
type instructions struct {
	text  string
	parts []Part
	build func(context.Context, Prompt) (string, error)
}

func (i instructions) of(ctx context.Context, prompt Prompt) (string, error) {
	if i.build == nil {
		return i.text, nil
	}
	return core.Step(ctx, "instructions", func(ctx context.Context) (string, error) { return i.build(ctx, prompt) })
}

// run is the handler: it determines the tools for this call and answers the prompt.
func (l *loop) run(ctx context.Context, prompt Prompt) (Answer, error) {
	own := *l
	for _, take := range l.toolsFuncs {
		functions, err := take(ctx)
		if err != nil {
			return Answer{}, err
		}
		if own.tools, err = own.tools.With(functions...); err != nil {
			return Answer{}, core.Permanent(err)
		}
	}
	if err := own.checkToolNames(); err != nil {
		return Answer{}, core.Permanent(err)
	}
	return own.answer(ctx, prompt)
}

// checkToolNames returns an error if a tool of a typed agent has the name that is reserved for the
// answer.
func (l *loop) checkToolNames() error {
	if _, taken := l.tools.Lookup(formatName); l.check != nil && taken {
		return fmt.Errorf("actors: the agent %q has a tool named %q; that name is reserved for the agent's answer", l.name, formatName)
	}
	return nil
}

func (l *loop) answer(ctx context.Context, prompt Prompt) (Answer, error) {
	options := prompt.Options.Or(l.options)
	if err := l.checkOptions(options, true); err != nil {
		return Answer{}, core.Permanent(err)
	}
	conversation, err := l.begin(ctx, prompt)
	if err != nil {
		return Answer{}, err
	}
	first := len(conversation) - len(prompt.History) - 1
	var answer Answer
	var problem error // what is wrong with the last answer
	corrections, turns := 0, l.maxTurns
	known := new(digests)
	// shown holds the messages of the last request. If the LLM's handler changed any of them, all
	// are copied again, since a resumed run would not have the changes.
	var shown []Message
	for answer.Turns < turns {
		if !areCopies(conversation[:len(shown)], shown) {
			shown = nil
		}
		shown = append(shown, conversation[len(shown):]...)
		resp, err := l.llm.Call(ctx, Request{Messages: slices.Clip(shown), Tools: l.tools.Describe(), Options: options, digests: known})
		answer.Turns++
		if err != nil && options.Format != nil && !options.Format.ByTool && errors.Is(err, ErrFormatUnsupported) {
			byTool := *options.Format
			byTool.ByTool, options.Format = true, &byTool
			turns++
			continue
		}
		if err != nil {
			return Answer{}, err
		}
		answer.Usage = core.UsageOfCalls(ctx)
		calls := resp.Message.ToolCalls
		conversation = append(conversation, presentable(resp.Message))
		answer.Finish = resp.finish()
		if err := l.checkFinish(resp); err != nil {
			return Answer{}, err
		}
		problem = nil
		if answer.Finish == FinishMalformedCall && len(calls) == 0 {
			conversation = append(conversation, User(fmt.Sprintf("Your last message asks for a tool in a way that cannot be read (%s). Call the tool again, with arguments that are one JSON object, or answer.", resp.FinishReason)))
			continue
		}
		if len(calls) > 0 {
			results, err := l.callTools(ctx, calls, answer.Finish == FinishLength)
			if err != nil {
				return Answer{}, err
			}
			conversation = append(conversation, results...)
			if options.forcesTools() {
				options.ToolChoice = "" // the model has called a tool; if it had to call one in every turn, it could never answer
			}
			continue
		}
		answer.Text, answer.Messages = resp.Message.Text, conversation[first:]
		if l.check == nil {
			return answer, nil
		}
		document, err := documentIn(answer.Text, l.check)
		if problem = err; problem == nil {
			answer.Text = document
			return answer, nil
		}
		if corrections++; corrections > l.maxCorrections {
			return Answer{}, core.Permanent(&AnswerError{Text: answer.Text, Asked: corrections, Problem: problem.Error()})
		}
		conversation = append(conversation, User(fmt.Sprintf("Your answer is not valid: %v\nAnswer again, with the JSON document alone.", problem)))
	}
	return Answer{}, core.Permanent(l.outOfTurns(&answer, problem))
}

// outOfTurns returns the failure of an agent that has used up its turns. problem says what is wrong
// with the last answer; it is nil if the last turn gave no answer.
func (l *loop) outOfTurns(answer *Answer, problem error) error {
	const format = "actors: %s after %d turns: %w; raise it with WithMaxTurns"
	switch {
	case problem != nil:
		return fmt.Errorf(format+": %w", "the model's answer does not fit", l.maxTurns, ErrTurnLimit,
			&AnswerError{Text: answer.Text, Asked: answer.Turns, Problem: problem.Error()})
	case answer.Finish == FinishMalformedCall:
		return fmt.Errorf(format, "the model's tool calls still cannot be read", l.maxTurns, ErrTurnLimit)
	}
	return fmt.Errorf(format, "the model still asks for tools", l.maxTurns, ErrTurnLimit)
}

// checkOptions checks the options of a call or, if inCall is false, the agent's own options. In the
// latter case, the tools may not be known yet.
func (l *loop) checkOptions(o ModelOptions, inCall bool) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.ToolChoice == "required" || !o.forcesTools() || l.tools.Len() == 0 || len(l.toolsFuncs) > 0 && !inCall {
		return nil
	}
	if _, ok := l.tools.Lookup(o.ToolChoice); !ok {
		return fmt.Errorf("actors: ModelOptions.ToolChoice is %q; it must be auto, none, required, or one of the tools: %s", o.ToolChoice, l.tools.names())
	}
	return nil
}

// checkFinish returns the agent's error if the response is neither an answer nor a request for
// tools. A response that was cut off may still ask for tools.
func (l *loop) checkFinish(resp Response) error {
	switch resp.finish() {
	case FinishFilter, FinishError:
	case FinishLength:
		if len(resp.Message.ToolCalls) > 0 {
			return nil
		}
	case FinishRefusal:
		if l.check == nil {
			return nil
		}
	default:
		return nil
	}
	return core.Permanent(&UnfinishedError{Finish: resp.finish(), Partial: resp.Message.Text})
}

func (l *loop) begin(ctx context.Context, prompt Prompt) ([]Message, error) {
	text, err := l.instructions.of(ctx, prompt)
	if err != nil {
		return nil, err
	}
	var conversation []Message
	if text != "" || len(l.instructions.parts) > 0 {
		conversation = append(conversation, Message{Role: RoleSystem, Text: text, Parts: l.instructions.parts})
	}
	conversation = append(append(conversation, prompt.Before...), prompt.History...)
	return append(conversation, User(prompt.Text, prompt.Parts...)), nil
}

// presentable returns a message from the model in a form that can be sent back: services refuse
// arguments that are not an object, even those that they sent themselves.
func presentable(msg Message) Message {
	if !slices.ContainsFunc(msg.ToolCalls, func(c ToolCall) bool { return !isObject(c.Arguments) }) {
		return msg
	}
	msg.ToolCalls = slices.Clone(msg.ToolCalls)
	for i := range msg.ToolCalls {
		if !isObject(msg.ToolCalls[i].Arguments) {
			msg.ToolCalls[i].Arguments = "{}"
		}
	}
	return msg
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

// callTools makes the tool calls of one turn and returns their results in the same order. The
// addresses are claimed in that order before anything runs, so they are the same in every run. If
// the turn was cut off, a call with incomplete arguments is answered with an error. Refused calls
// are also recorded.
func (l *loop) callTools(ctx context.Context, calls []ToolCall, cut bool) ([]Message, error) {
	results := make([]Message, len(calls))
	prepared, isRefused := make([]PreparedFunction, len(calls)), make([]bool, len(calls))
	for i, call := range calls {
		var err error
		if cut && !isObject(call.Arguments) {
			err = errors.New("the call was cut off by the token limit; call again with shorter arguments, or in several steps")
		} else {
			prepared[i], err = l.prepare(engine.WithToolCall(ctx, call.ID), call)
		}
		if err != nil {
			prepared[i], isRefused[i] = refusedCall(engine.WithToolCall(ctx, call.ID), call, err), true
		}
	}
	failures := make([]error, len(calls))
	failed := func(i int, err error) {
		results[i], failures[i] = errorResult(calls[i].ID, err), fatalError(err, l.stopOnError && !isRefused[i])
	}
	eachLimited(ctx, len(calls), l.workers, func(ctx context.Context, i int, _ engine.Slot) {
		out, err := prepared[i](ctx)
		if err != nil {
			failed(i, err)
			return
		}
		results[i] = ToolResult(calls[i].ID, out.Text, out.Parts...)
	}, failed)
	// A suspension takes precedence: it is not a failure of the agent.
	for _, err := range failures {
		if core.IsSuspension(err) {
			return nil, err
		}
	}
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (l *loop) prepare(ctx context.Context, call ToolCall) (PreparedFunction, error) {
	f, ok := l.tools.Lookup(call.Name)
	switch {
	case !ok && l.tools.Len() == 0:
		return nil, fmt.Errorf("there is no tool %q; there are no tools at all", record.Truncate(call.Name, 80))
	case !ok:
		return nil, fmt.Errorf("there is no tool %q; there are: %s", record.Truncate(call.Name, 80), l.tools.names())
	}
	prepared, err := f.Prepare(ctx, call.Arguments)
	if err == nil && prepared == nil {
		err = fmt.Errorf("the tool %q prepared nothing", call.Name)
	}
	return prepared, err
}

// refusedCall returns a call that fails with the given reason. Its record contains what the model
// requested and what it was told. The name of the call differs from the names of all tools, so that
// the calls to tools keep their addresses.
func refusedCall(ctx context.Context, call ToolCall, reason error) PreparedFunction {
	name := call.Name
	if CheckFunctionName(name) != nil {
		name = "tool"
	}
	d := must(core.NewDefinition(core.Spec{Kind: record.KindTool, Name: engine.Refused + name}, func(context.Context, string) (ToolOutput, error) {
		return ToolOutput{}, core.Permanent(reason)
	}))
	prepared := d.Event().Prepare(ctx, strings.ToValidUTF8(call.Arguments, "\uFFFD"))
	return func(ctx context.Context) (ToolOutput, error) { return prepared.Execute(ctx) }
}

// fatalError returns err if it must not be sent to the model: a suspension is not a result, and a
// call without a record did not take place. Otherwise it returns nil.
func fatalError(err error, stopOnError bool) error {
	var failed *core.CallError
	if stopOnError || core.IsSuspension(err) || errors.Is(err, core.ErrAttemptOver) ||
		errors.As(err, &failed) && failed.Stage == record.StageRecord {
		return err
	}
	return nil
}

// errorResult returns the answer to a failed tool call. If the call is in doubt, the answer
// mentions this, so that the model does not just make the call again.
func errorResult(callID string, err error) Message {
	text := "error: " + record.Truncate(plainText(err), record.MessageLimit)
	if mayHaveActed(err) {
		text += " (the call may have taken effect)"
	}
	m := ToolResult(callID, text)
	m.IsError = true
	return m
}

// mayHaveActed reports whether err comes from a call in doubt that has begun and that nobody has
// declared failed.
func mayHaveActed(err error) bool {
	var call *core.CallError
	begun := !errors.As(err, &call) || call.Stage != record.StageEntry
	return begun && errors.Is(err, core.ErrInDoubt) && !engine.IsAnsweredFailed(err)
}

// plainText returns the text of an error for a model, without addresses and attempts. For a group,
// the text lists the branches that failed. An error read from a record has the same text. If an
// error adds its own text to the error of a call, the whole text is returned.
func plainText(err error) string {
	text := fmt.Sprint(err)
	var call *core.CallError
	if errors.As(err, &call) && call.Err != nil && fmt.Sprint(call) == text {
		return plainText(call.Err)
	}
	var group *GroupError
	if errors.As(err, &group) && fmt.Sprint(group) == text {
		return group.text(func(b *BranchError) string { return fmt.Sprintf("branch %d: %s", b.Branch, plainText(b.Err)) })
	}
	return text
}
