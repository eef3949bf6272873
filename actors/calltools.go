package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
)

// A CallResult is the result of one function call.
type CallResult struct {
	Call   ToolCall
	Output ToolOutput // zero if it failed
	Err    error      // nil if it succeeded
}

// CallResults are the results of several calls, in the order of the calls.
type CallResults []CallResult

// CallTools makes the calls in parallel, each as a branch of the group g, as [Parallel] does, and
// returns their results. All calls run to completion, regardless of g.CollectAll. If a call fails,
// or its function is not in tools, its result contains the error. CallTools itself returns an error
// only if the group did not run or did not finish.
func CallTools(ctx context.Context, g Group, tools ToolSet, calls []ToolCall) (CallResults, error) {
	g.CollectAll = true
	branches := make([]func(context.Context) (ToolOutput, error), len(calls))
	for i, call := range calls {
		branches[i] = func(ctx context.Context) (ToolOutput, error) {
			f, ok := tools.Lookup(call.Name)
			if !ok {
				return ToolOutput{}, core.Permanent(fmt.Errorf("actors: there is no function %q", call.Name))
			}
			prepared, err := f.Prepare(ctx, call.Arguments)
			if err != nil {
				return ToolOutput{}, core.Permanent(err)
			}
			return prepared(ctx)
		}
	}
	outputs, err := Parallel(ctx, g, branches...)
	var failed *GroupError
	switch {
	case err == nil:
	case core.IsSuspension(err) || !errors.As(err, &failed) || failed.Err != nil || len(failed.NotEnded) > 0:
		return nil, err
	}
	results := make(CallResults, len(calls))
	for i, call := range calls {
		results[i] = CallResult{Call: call, Output: outputs[i]}
	}
	if failed != nil {
		for _, f := range failed.Failed {
			results[f.Branch-1] = CallResult{Call: calls[f.Branch-1], Err: f.Err}
		}
	}
	return results, nil
}

// Err returns the joined errors of the failed calls, or nil if none failed.
func (r CallResults) Err() error {
	var errs []error
	for i := range r {
		if r[i].Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r[i].Call.Name, r[i].Err))
		}
	}
	return errors.Join(errs...)
}
