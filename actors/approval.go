package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// ErrNotApproved is the error of a tool call that was not approved; use errors.Is to test for it.
var ErrNotApproved = errors.New("not approved")

func init() { record.RegisterError("actors.ErrNotApproved", ErrNotApproved) }

// WithApproval makes calls to a tool wait for a person's approval: the run is paused with a
// question that shows the tool and the arguments, and continues when the question is answered with
// an [Approval] (see state.Answer). Preconditions are checked before the question is asked. If the
// person changes the arguments and the new ones do not fit the tool, the answer is refused at once.
// If the tool's schema was not inferred from a type, or contains references, the new arguments are
// instead checked when the run continues; if they do not fit, the question is asked again and
// states the problem.
//
// The question is asked by another call, which surrounds the tool call. Its name is approve_
// followed by the tool's name. An approved call runs with the approved arguments and with the
// tool's retries, time limits and conditions. One approval is enough: neither a retry nor a resumed
// run asks again. As for any tool, [WithInDoubt] determines whether an approved call may be made
// twice if the process ended while the call was running.
//
// The options determine which calls need approval ([ApprovalIf]), what the question is
// ([ApprovalQuestion]), and which answer is used if nobody answers in time ([ApprovalDefault]):
//
//	actors.WithApproval(
//		actors.ApprovalIf(func(t Transfer) bool { return t.Euros > 100 }),
//		actors.ApprovalQuestion(func(t Transfer) string { return fmt.Sprintf("Send %d EUR to %s?", t.Euros, t.To) }),
//		actors.ApprovalDefault(24*time.Hour, actors.Disapprove("nobody has answered")))
//
// Outside a run, a call that needs approval fails with core.ErrNoRun, since it cannot ask a
// question.
func WithApproval(how ...ApprovalOption) Option {
	return func(o *options) {
		o.approval = new(approval)
		for _, option := range how {
			if option == nil {
				panic(fmt.Sprintf("actors: %q: an option of WithApproval is nil", o.spec.Name))
			}
			option(o.approval)
		}
	}
}

// An ApprovalOption configures [WithApproval].
type ApprovalOption func(*approval)

// approval holds the options of WithApproval.
type approval struct {
	needed   any // a func(In) bool; if nil, every call needs approval
	question any // a func(In) string; if nil, the default question is asked
	after    time.Duration
	answer   Approval // the answer used after that time
}

// ApprovalIf requires approval for a call only if needed returns true for its arguments, for
// example if an amount is above 100 EUR. In must be the tool's input type; otherwise the tool's
// constructor panics. The result must depend only on the arguments, since needed is called again
// when the run is resumed. If needed panics, the call fails. ApprovalIf panics if needed is nil.
func ApprovalIf[In any](needed func(In) bool) ApprovalOption {
	if needed == nil {
		panic("actors: ApprovalIf got nil")
	}
	return func(a *approval) { a.needed = needed }
}

// ApprovalQuestion sets the text of the question. The person who answers sees the arguments only if
// the text contains them. If the text is empty, the default question is asked, which contains the
// tool's name and the arguments. In must be the tool's input type; otherwise the tool's constructor
// panics. ApprovalQuestion panics if text is nil.
func ApprovalQuestion[In any](text func(In) string) ApprovalOption {
	if text == nil {
		panic("actors: ApprovalQuestion got nil")
	}
	return func(a *approval) { a.question = text }
}

// ApprovalDefault sets the answer that is used if nobody answers within the given time after the
// question was asked. A runner resumes the run at that time, as it does for [core.AwaitDefault].
// ApprovalDefault panics if after is not positive. The tool's constructor panics if the arguments
// in answer do not fit the tool.
func ApprovalDefault(after time.Duration, answer Approval) ApprovalOption {
	if after <= 0 {
		panic(fmt.Sprintf("actors: ApprovalDefault(%v, …): want a positive duration", after))
	}
	return func(a *approval) { a.after, a.answer = after, answer }
}

// typedApproval is an approval whose functions take In.
type typedApproval[In any] struct {
	needed   func(In) bool   // if nil, every call needs approval
	question func(In) string // if nil, the default question is asked
	answer   *schema.Schema
	byTime   engine.DefaultAnswer // zero if there is no default answer
}

// newApproval converts the functions in the approval a to functions that take an In. It panics if
// one of them takes another type.
func newApproval[In any](tool string, a *approval, arguments Schema) *typedApproval[In] {
	of := &typedApproval[In]{answer: answerSchema(arguments)}
	var ok bool
	of.needed, ok = a.needed.(func(In) bool)
	checkTaken(tool, "ApprovalIf", a.needed, ok, *new(In))
	of.question, ok = a.question.(func(In) string)
	checkTaken(tool, "ApprovalQuestion", a.question, ok, *new(In))
	if a.after > 0 {
		encoded, err := core.Question{Awaits: record.AwaitAnswer, Schema: of.answer.JSON()}.Encode(a.answer)
		if err == nil {
			err = readApproval(encoded, of.answer, arguments, new(Approval), new(In))
		}
		if err != nil {
			panic(fmt.Sprintf("actors: %q: ApprovalDefault: %v", tool, err))
		}
		of.byTime = engine.DefaultAnswer{After: a.after, Encoded: encoded}
	}
	return of
}

// answerSchema returns the schema for the [Approval] of a tool call. It includes the schema of the
// arguments if that schema was inferred from a type and has no references: they would be resolved
// relative to the wrong root. Otherwise, the arguments are checked when the run continues.
func answerSchema(arguments Schema) *schema.Schema {
	of := json.RawMessage(`{"description":"any JSON value"}`)
	if inferred, ok := arguments.(*schema.Schema); ok && !bytes.Contains(inferred.JSON(), []byte(`"$ref"`)) {
		of = inferred.JSON()
	}
	return must(schema.Restore(fmt.Appendf(nil, `{"type":"object","properties":{"approved":{"type":"boolean"},"arguments":%s,"reason":{"type":"string"}},"required":["approved"],"additionalProperties":false}`, of)))
}

// checkTaken panics if the function passed to the option does not take the tool's input.
func checkTaken(tool, option string, got any, ok bool, in any) {
	if got != nil && !ok {
		panic(fmt.Sprintf("actors: %q: %s got a %T, want a function that takes a %T, as the tool does", tool, option, got, in))
	}
}

// text returns the text of the question about a call.
func (a *typedApproval[In]) text(tool string, in In) (string, error) {
	if a.question != nil {
		if text := a.question(in); text != "" {
			return text, nil
		}
	}
	return defaultQuestion(tool, in)
}

func defaultQuestion(tool string, in any) (string, error) {
	arguments, err := json.Marshal(in)
	if err != nil {
		return "", core.Permanent(fmt.Errorf("actors: encode the arguments of %q as JSON: %w", tool, err))
	}
	return fmt.Sprintf("Approve %s %s", tool, arguments), nil
}

// An Approval is the answer to the question of whether a tool may be called.
type Approval struct {
	Approved  bool            `json:"approved"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // if set, replace all of the model's arguments; checked in the same way
	Reason    string          `json:"reason,omitempty"`    // why the call is refused; the model sees it
}

// Approve allows the call with the model's arguments.
func Approve() Approval { return Approval{Approved: true} }

// ApproveWith allows the call with other arguments, which are encoded as JSON.
func ApproveWith(arguments any) (Approval, error) {
	data, err := json.Marshal(arguments)
	if err != nil {
		return Approval{}, fmt.Errorf("actors: encode the arguments as JSON: %w", err)
	}
	return Approval{Approved: true, Arguments: data}, nil
}

// Disapprove refuses the call. The model sees the reason.
func Disapprove(reason string) Approval { return Approval{Reason: reason} }

// approvalDefinition returns the definition of the call that asks for approval and then calls the
// tool.
func (t Tool[In, Out]) approvalDefinition() *core.Definition[In, Out] {
	name := t.Name()
	d := must(core.NewDefinition(approvalSpec(t.definition.Spec()), func(ctx context.Context, in In) (Out, error) {
		if t.typedApproval.needed == nil || t.typedApproval.needed(in) {
			var err error
			if in, err = t.ask(ctx, name, in); err != nil {
				var zero Out
				return zero, err
			}
		}
		return t.definition.Event().Execute(ctx, in)
	}))
	for _, condition := range t.requires {
		d = d.Require(condition)
	}
	return withIdentity(d, t.identity)
}

// approvalSpec returns the spec of the call that asks for approval.
func approvalSpec(tool core.Spec) core.Spec {
	return core.Spec{Kind: record.KindAgent, Name: "approve_" + tool.Name, Description: tool.Description, NoStore: tool.NoStore}
}

// ask asks for approval and returns the approved arguments.
func (t Tool[In, Out]) ask(ctx context.Context, name string, in In) (In, error) {
	text, err := t.typedApproval.text(name, in)
	if err != nil {
		return in, err
	}
	if !engine.CanAsk(ctx) {
		return in, core.ErrNoRun
	}
	var approval Approval
	var changed In
	question := engine.Question{Awaits: record.AwaitAnswer, Text: text, Schema: t.typedApproval.answer.JSON()}
	err = engine.Await(ctx, question, t.typedApproval.byTime, func(encoded []byte) error {
		approval, changed = Approval{}, *new(In) // both may hold an answer that did not fit
		return readApproval(encoded, t.typedApproval.answer, t.schema, &approval, &changed)
	})
	switch {
	case err != nil:
		return in, err
	case !approval.Approved && approval.Reason == "":
		return in, core.Permanent(ErrNotApproved)
	case !approval.Approved:
		return in, core.Permanent(fmt.Errorf("%w: %s", ErrNotApproved, approval.Reason))
	case len(approval.Arguments) == 0:
		return in, nil
	}
	return changed, nil
}

// readApproval decodes an answer into approval. If the answer contains arguments, it also decodes
// them into the pointer changed. If it returns an error, the answer does not fit: the question is
// asked again and states the problem.
func readApproval(encoded []byte, answer *schema.Schema, arguments Schema, approval *Approval, changed any) error {
	text, err := codec.AppendJSON(nil, encoded, 0)
	var given Approval
	if record.Decode(encoded, &given) == nil && len(given.Arguments) > 0 { // encoded from a Go value, whose arguments are bytes
		text, err = json.Marshal(given)
	}
	if err == nil {
		err = answer.Validate(text)
	}
	if err == nil {
		err = json.Unmarshal(text, approval)
	}
	if err != nil || !approval.Approved || len(approval.Arguments) == 0 {
		return err
	}
	if err = arguments.Validate(approval.Arguments); err == nil {
		err = json.Unmarshal(approval.Arguments, changed)
	}
	if err != nil {
		return fmt.Errorf("the arguments: %w", err)
	}
	return nil
}
