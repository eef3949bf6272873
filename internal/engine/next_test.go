package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

func TestNext(t *testing.T) {
	type progress = record.Progress
	tool := engine.Rules{Kind: record.KindTool, MaxAttempts: 3, MaxLosses: 2}
	with := func(change func(*engine.Rules)) engine.Rules {
		r := tool
		change(&r)
		return r
	}
	agent := with(func(r *engine.Rules) { r.Kind = record.KindAgent })
	group := with(func(r *engine.Rules) { r.Kind = record.KindGroup })
	branch := with(func(r *engine.Rules) { r.Kind = record.KindBranch })
	strict := with(func(r *engine.Rules) { r.Strict, r.Replays = true, true })
	asks := with(func(r *engine.Rules) { r.InDoubt = engine.InDoubtAsk })
	fails := with(func(r *engine.Rules) { r.InDoubt = engine.InDoubtFail })
	losing := with(func(r *engine.Rules) { r.LossesCount = true })

	begin, set := engine.Step{}, func(do engine.Action, attempt int32) engine.Step { return engine.Step{Do: do, Attempt: attempt} }
	for name, c := range map[string]struct {
		p     progress
		rules engine.Rules
		want  engine.Step
	}{
		"new":                         {progress{}, tool, begin},
		"waits for a retry":           {progress{Phase: record.StateWaiting, Attempt: 1}, tool, set(engine.Make, 1)},
		"asks inside":                 {progress{Phase: record.StateAsking}, agent, set(engine.Make, 0)},
		"held before its handler":     {progress{Phase: record.StateHeld, Attempt: 1}, asks, set(engine.Make, 1)},
		"completed":                   {progress{Phase: record.StateCompleted, Attempt: 2, HasOutput: true}, tool, set(engine.Return, 2)},
		"failed":                      {progress{Phase: record.StateFailed, Attempt: 2}, tool, set(engine.Return, 2)},
		"group completed":             {progress{Phase: record.StateCompleted}, group, set(engine.Retrace, 0)},
		"group failed":                {progress{Phase: record.StateFailed}, group, set(engine.Retrace, 0)},
		"branch with its output":      {progress{Phase: record.StateCompleted, HasOutput: true}, branch, set(engine.Return, 0)},
		"branch without":              {progress{Phase: record.StateCompleted}, branch, set(engine.Retrace, 0)},
		"output not kept":             {progress{Phase: record.StateCompleted, NoStore: true, Attempt: 1}, tool, set(engine.Make, 0)},
		"output of an agent not kept": {progress{Phase: record.StateCompleted, NoStore: true, Attempt: 1}, agent, set(engine.Make, 1)},
		"lost":                        {progress{Phase: record.StateRunning, Attempt: 1, Entries: 1}, tool, set(engine.Make, 1)},
		"lost too often":              {progress{Phase: record.StateRunning, Attempt: 1, Entries: 2}, tool, set(engine.StopLoop, 1)},
		"agent lost too often":        {progress{Phase: record.StateRunning, Entries: 2}, agent, set(engine.StopLoop, 0)},
		"group lost too often":        {progress{Phase: record.StateRunning, Entries: 2}, group, set(engine.Make, 0)},
		"lost, and it counts":         {progress{Phase: record.StateRunning, Attempt: 1, Entries: 2}, losing, set(engine.Make, 2)},
		"interrupted":                 {progress{Phase: record.StateStopped, Attempt: 1, Entries: 2}, losing, set(engine.Make, 1)},
		"interrupted, asks":           {progress{Phase: record.StateStopped, Attempt: 1}, asks, set(engine.Ask, 1)},
		"lost, asks":                  {progress{Phase: record.StateRunning, Attempt: 1}, asks, set(engine.Ask, 1)},
		"agent never asks":            {progress{Phase: record.StateRunning}, with(func(r *engine.Rules) { r.Kind, r.InDoubt = record.KindAgent, engine.InDoubtAsk }), set(engine.Make, 0)},
		"replayed agent":              {progress{Phase: record.StateRunning, Entries: 9}, with(func(r *engine.Rules) { *r = strict; r.Kind = record.KindAgent }), set(engine.Make, 0)},
	} {
		got := engine.Next(&c.p, c.rules)
		assert.Equal(t, c.want, got, name)
	}

	for name, c := range map[string]struct {
		p     progress
		rules engine.Rules
		do    engine.Action
		text  string
	}{
		"lost for the last time":   {progress{Phase: record.StateRunning, Attempt: 2}, losing, engine.Fail, "the process ended during the last attempt"},
		"lost, fails":              {progress{Phase: record.StateRunning}, fails, engine.Fail, "asks not to run it again"},
		"replayed, not recorded":   {progress{}, strict, engine.Refuse, "has no recorded outcome"},
		"replayed, lost":           {progress{Phase: record.StateRunning}, strict, engine.Refuse, "has no recorded outcome"},
		"replayed, without output": {progress{Phase: record.StateCompleted, NoStore: true}, strict, engine.Refuse, "its output was not stored"},
	} {
		got := engine.Next(&c.p, c.rules)
		assert.Equal(t, c.do, got.Do, name)
		assert.ErrorContains(t, got.Err, c.text, name)
	}
}
