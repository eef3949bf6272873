package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

const (
	groupName    = "Group"
	groupCalls   = 10_000 // calls of a group
	groupWorkers = 50     // workers of a group
)

// A maker makes all calls of a tool and returns their outputs.
type maker func(ctx context.Context, tool *core.Definition[int, int], inputs []int) ([]int, error)

// startGroup makes all calls in a new run each time.
func startGroup(makeAll maker) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		tool := newTool(func(_ context.Context, in int) (int, error) { return in, nil }, immediateRetry, 0)
		inputs := inputsOf(groupCalls)
		return instance{call: func() (int, error) {
			st := state.New()
			outputs, err := makeAll(st.Context(ctx), tool, inputs)
			if err != nil {
				return 0, err
			}
			for i, out := range outputs {
				if out != inputs[i] {
					return 0, fmt.Errorf("call %d returned %d", i, out)
				}
			}
			w.calls += len(outputs)
			return answer, st.Close()
		}}
	}
}

func inputsOf(n int) []int {
	inputs := make([]int, n)
	for i := range inputs {
		inputs[i] = i
	}
	return inputs
}

func makeGroup(g actors.Group) maker {
	return func(ctx context.Context, tool *core.Definition[int, int], inputs []int) ([]int, error) {
		return actors.Map(ctx, g, tool, inputs)
	}
}

// makeErrgroup makes each call in a function of an errgroup. Each call is
// prepared beforehand; otherwise, the program could not be resumed.
func makeErrgroup(ctx context.Context, tool *core.Definition[int, int], inputs []int) ([]int, error) {
	var all errgroup.Group
	all.SetLimit(groupWorkers)
	calls, outputs := make([]*core.PreparedCall[int, int], len(inputs)), make([]int, len(inputs))
	for i, in := range inputs {
		calls[i] = tool.Event().Prepare(ctx, in)
	}
	for i := range inputs {
		all.Go(func() (err error) {
			outputs[i], err = calls[i].Execute(ctx)
			return err
		})
	}
	return outputs, all.Wait()
}

// makeErrgroupDirect is like makeErrgroup, but for a program that is never resumed.
func makeErrgroupDirect(ctx context.Context, tool *core.Definition[int, int], inputs []int) ([]int, error) {
	var all errgroup.Group
	all.SetLimit(groupWorkers)
	outputs := make([]int, len(inputs))
	for i, in := range inputs {
		all.Go(func() (err error) {
			outputs[i], err = tool.Event().Execute(ctx, in)
			return err
		})
	}
	return outputs, all.Wait()
}

func makeInALoop(ctx context.Context, tool *core.Definition[int, int], inputs []int) ([]int, error) {
	outputs := make([]int, len(inputs))
	for i, in := range inputs {
		var err error
		if outputs[i], err = tool.Event().Execute(ctx, in); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}

var groups = []contestant{
	{"reprise", startGroup(makeGroup(actors.Group{Name: "all", Workers: groupWorkers}))},
	{"reprise-yield", startGroup(makeGroup(actors.Group{Name: "all", Workers: groupWorkers, YieldWaits: true}))},
	{"errgroup", startGroup(makeErrgroupDirect)},
	{"errgroup-prepared", startGroup(makeErrgroup)},
	{"loop", startGroup(makeInALoop)},
}
