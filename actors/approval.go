package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// ErrNotApproved is found by errors.Is in the failure of a tool call that
// was not approved.
var ErrNotApproved = errors.New("not approved")

func init() { record.RegisterError("actors.ErrNotApproved", ErrNotApproved) }

// WithApproval makes every call of a tool wait for the approval of a human: the
// run is paused with a question that shows the tool and the arguments, and
// continues when it is answered with an [Approval] (see state.Answer).
// Preconditions are checked before the question is asked.
//
// The question is asked by a call around that of the tool, whose name is
// approve_ and the name of the tool. An approved call runs with the tool's
// retries and time limits, and its conditions are checked, with the arguments
// that were approved. It is approved once: a retry, or a resumed run, does not
// ask again. [WithInDoubt] sets, as for any tool, whether an approved call may
// be made twice if its process ended while it ran.
//
// A call outside a run fails with core.ErrNoRun, since it cannot ask a
// question.
func WithApproval() Option { return func(o *options) { o.approval = true } }

// An Approval is the answer to whether a tool may be called.
type Approval struct {
	Approved  bool            `json:"approved"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // instead of those of the model; checked in the same way
	Reason    string          `json:"reason,omitempty"`    // of a refusal, for the model to see
}

// Approve allows the call as it is.
func Approve() Approval { return Approval{Approved: true} }

// ApproveWith allows the call with other arguments, which are encoded as JSON.
func ApproveWith(arguments any) (Approval, error) {
	data, err := json.Marshal(arguments)
	if err != nil {
		return Approval{}, fmt.Errorf("actors: the arguments as JSON: %w", err)
	}
	return Approval{Approved: true, Arguments: data}, nil
}

// Disapprove refuses the call. The model sees the reason.
func Disapprove(reason string) Approval { return Approval{Reason: reason} }

// approved returns the definition around that of a tool that needs approval.
func (t Tool[In, Out]) approved() *core.Definition[In, Out] {
	spec := t.definition.Spec()
	around := core.Spec{Kind: record.KindAgent, Name: "approve_" + spec.Name, Description: spec.Description, NoStore: spec.NoStore}
	d := must(core.NewDefinition(around, func(ctx context.Context, in In) (Out, error) {
		in, err := ask(ctx, spec.Name, t.schema, in)
		if err != nil {
			var zero Out
			return zero, err
		}
		return t.definition.Event().Execute(ctx, in)
	}))
	for _, condition := range t.requires {
		d = d.Require(condition)
	}
	return identified(d, t.identity)
}

// ask returns the arguments that were approved. An approval with arguments that
// do not fit is discarded: the question is asked again, with the problem.
func ask[In any](ctx context.Context, name string, schema Schema, in In) (In, error) {
	arguments, err := json.Marshal(in)
	if err != nil {
		return in, core.Permanent(fmt.Errorf("actors: the arguments of %q as JSON: %w", name, err))
	}
	question := fmt.Sprintf("Approve %s %s", name, arguments)
	for {
		approval, err := core.Await[Approval](ctx, question)
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
		var changed In
		err = schema.Validate(approval.Arguments)
		if err == nil {
			err = json.Unmarshal(approval.Arguments, &changed)
		}
		if err == nil {
			return changed, nil
		}
		question = fmt.Sprintf("Approve %s %s (the changed arguments do not fit: %v)", name, arguments, err)
	}
}
