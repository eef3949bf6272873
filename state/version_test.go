package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// bookkeeper returns an agent that calls tools by name, in order. The name "stop" interrupts the
// run. The name "tax" calls core.Version with n, unless n is 0, and then calls the tool for that
// version.
func bookkeeper(t *testing.T, n int, does ...string) *testkit.Definition {
	return testkit.Agent(t, "bookkeeper", once, func(ctx context.Context, _ string) (string, error) {
		all := ""
		for _, what := range does {
			switch {
			case what == "stop":
				state.From(ctx).Interrupt(snapshot.Stop{})
				return "", ctx.Err()
			case what == "tax" && n > 0:
				what += [...]string{"", "-one", "-two", "-three"}[core.Version(ctx, "tax rules", n)]
			}
			out, err := testkit.Call(ctx, testkit.Tool(t, what, once, func(context.Context, string) (string, error) { return what, nil }))
			if err != nil {
				return "", err
			}
			all += out + ";"
		}
		return all, nil
	})
}

func TestVersionIsThatOfTheProgramThatPassedItFirst(t *testing.T) {
	whole := []string{"open", "tax", "close"}
	for name, tc := range map[string]struct {
		before []string // what the agent did before the run was stopped
		n      int      // the version of the program that began the run; 0 if it does not call Version
		want   string
	}{
		"new run":                         {nil, 0, "open;tax-two;close;"},
		"not there yet":                   {[]string{"open", "stop"}, 0, "open;tax-two;close;"},
		"passed before the first version": {[]string{"open", "tax", "stop"}, 0, "open;tax;close;"},
		"ended before the first version":  {whole, 0, "open;tax;close;"},
		"passed with an older version":    {[]string{"open", "tax", "stop"}, 1, "open;tax-one;close;"},
		"not there with an older version": {[]string{"open", "stop"}, 1, "open;tax-two;close;"},
	} {
		s := memstore.New()
		if tc.before != nil {
			_, _ = opened(t, s, bookkeeper(t, tc.n, tc.before...))
		}
		for opening := range 2 { // the second opening gets the same version
			out, err := opened(t, s, bookkeeper(t, 2+opening, whole...))
			require.NoError(t, err, name)
			assert.Equal(t, tc.want, out, name)
		}
	}
}

func TestVersionStaysTheSameInALoopAndAfterAMove(t *testing.T) {
	s := memstore.New()
	_, err := opened(t, s, bookkeeper(t, 0, "open", "tax", "stop"))
	require.ErrorIs(t, err, core.ErrInterrupted)
	out, err := opened(t, s, bookkeeper(t, 2, "open", "tax", "tax", "stop"))
	require.ErrorIs(t, err, core.ErrInterrupted, out)
	out, err = opened(t, s, bookkeeper(t, 3, "open", "tax", "tax", "tax"))
	require.NoError(t, err)
	assert.Equal(t, "open;tax;tax;tax;", out)

	found, err := s.Load(t.Context(), "run-1")
	require.NoError(t, err)
	var versions []record.Record
	for r, err := range found.Records() {
		require.NoError(t, err)
		if r.Kind == record.KindVersion {
			versions = append(versions, r)
		}
	}
	require.Len(t, versions, 1)
	assert.Equal(t, "tax rules", versions[0].Name)
	assert.Equal(t, "bookkeeper", versions[0].Address.String())
}

// The run itself, and each attempt, branch and precondition, has its own version.
func TestVersionHoldsInItsScope(t *testing.T) {
	s := memstore.New()
	seen := make(map[string][]int)
	attempts := 0
	program := func(n int, stop bool) func(context.Context) error {
		ask := func(ctx context.Context, where string) {
			if n > 0 {
				seen[where] = append(seen[where], core.Version(ctx, "v", n))
			}
		}
		tool := testkit.Tool(t, "tool", once, testkit.Succeed)
		retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}
		agent := testkit.Agent(t, "agent", retry, func(ctx context.Context, _ string) (string, error) {
			attempt := core.ScopeOf(ctx).Attempt()
			ask(ctx, "attempt")
			if _, err := testkit.Call(ctx, tool); err != nil {
				return "", err
			}
			if attempts++; attempt == 0 {
				return "", core.Retryable(errFatal)
			}
			branch := func(ctx context.Context) (string, error) {
				ask(ctx, "branch")
				return testkit.Call(ctx, tool)
			}
			stops := func(ctx context.Context) (string, error) {
				out, err := branch(ctx)
				if stop {
					state.From(ctx).Interrupt(snapshot.Stop{})
					return "", ctx.Err()
				}
				return out, err
			}
			_, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 1}, branch, stops)
			return "out", err
		}).Require(func(ctx context.Context, _ string) error {
			ask(ctx, "precondition")
			_, err := testkit.Call(ctx, tool)
			return err
		})
		return func(ctx context.Context) error {
			ask(ctx, "root")
			if _, err := testkit.Call(ctx, tool); err != nil {
				return err
			}
			_, err := testkit.Call(ctx, agent)
			return err
		}
	}
	run := func(p func(context.Context) error) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		return p(st.Context(t.Context()))
	}
	require.ErrorIs(t, run(program(1, true)), core.ErrInterrupted)
	require.NoError(t, run(program(2, false)))
	assert.Equal(t, map[string][]int{
		"root": {1, 1}, "precondition": {1}, "attempt": {1, 1, 1}, "branch": {1, 1, 1}, // one branch had completed
	}, seen)
	clear(seen)
	s = memstore.New()
	require.ErrorIs(t, run(program(0, true)), core.ErrInterrupted)
	require.NoError(t, run(program(2, false)))
	assert.Equal(t, map[string][]int{"root": {0}, "attempt": {0}, "branch": {0}}, seen)
}

func TestVersionThatTheProgramLacksStopsTheRun(t *testing.T) {
	s := memstore.New()
	_, err := opened(t, s, bookkeeper(t, 3, "open", "tax", "stop"))
	require.ErrorIs(t, err, core.ErrInterrupted)
	for _, policy := range []state.DivergencePolicy{state.DivergenceFail, state.DivergenceTrust, state.DivergenceRerun} {
		st, err := state.Open(t.Context(), s, "run-1", state.WithDivergence(policy))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), bookkeeper(t, 2, "open", "tax", "close"))
		require.ErrorIs(t, err, core.ErrDivergence)
		assert.ErrorContains(t, err, `bookkeeper has recorded version 3 of "tax rules", the program has 2 at most. The program was stopped there. Run`)
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())
	}
	differences, err := state.Validate(t.Context(), s, "run-1", func(ctx context.Context) error {
		_, err := testkit.Call(ctx, bookkeeper(t, 2, "open", "tax", "stop"))
		return err
	})
	require.NoError(t, err)
	require.Len(t, differences, 1)
	assert.Equal(t, `bookkeeper: version: recorded 3 of "tax rules", now 2 at most`, differences[0].String())
	out, err := opened(t, s, bookkeeper(t, 3, "open", "tax", "close"))
	require.NoError(t, err)
	assert.Equal(t, "open;tax-three;close;", out)
}

func TestInvalidVersionStopsTheRunAndLosesNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		n    int
		want string
	}{
		{"tax rules", 0, `core: Version("tax rules", 0): versions are numbered from 1; 0 is the code before the first version`},
		{"tax rules", -1, `core: Version("tax rules", -1): versions are numbered from 1; 0 is the code before the first version`},
		{"", 1, `core: Version("", 1): core: the name is empty`},
	} {
		s, ran := memstore.New(), 0
		tool := testkit.Tool(t, "tool", once, testkit.Counted(&ran, testkit.Succeed))
		agent := func(ask bool) *testkit.Definition {
			return testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				if ask {
					core.Version(ctx, tc.name, tc.n)
				}
				return testkit.Call(ctx, tool)
			})
		}
		_, err := opened(t, s, agent(true))
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.ErrorContains(t, err, tc.want)
		assert.Zero(t, ran)
		_, err = testkit.Call(t.Context(), agent(true))
		require.ErrorContains(t, err, tc.want, "outside a run")
		out, err := opened(t, s, agent(false))
		testkit.Completed(t, out, err)
	}
	assert.Equal(t, 5, core.Version(t.Context(), "v", 5), "outside every call")
}

// A refused opening called Version. The original program, which then continued, did not.
func TestVersionOfARefusedOpeningDoesNotCountOnceTheOriginalContinued(t *testing.T) {
	for _, wentOn := range []bool{false, true} {
		s := memstore.New()
		_, err := opened(t, s, bookkeeper(t, 0, "open", "stop"))
		require.ErrorIs(t, err, core.ErrInterrupted)
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		ctx := st.Context(t.Context())
		changed := testkit.Agent(t, "bookkeeper", once, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, testkit.Tool(t, "open", once, testkit.Succeed)); err != nil {
				return "", err
			}
			assert.Equal(t, 2, core.Version(ctx, "tax rules", 2))
			core.Version(ctx, "", 0) // refuses the opening
			return "", ctx.Err()
		})
		_, err = testkit.Call(ctx, changed)
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.NoError(t, st.Close())

		want := "open;tax-two;close;"
		if wentOn {
			_, err = opened(t, s, bookkeeper(t, 0, "open", "tax", "stop"))
			require.ErrorIs(t, err, core.ErrInterrupted)
			want = "open;tax;close;"
		} else {
			_, err = opened(t, s, bookkeeper(t, 2, "open", "tax", "stop"))
			require.ErrorIs(t, err, core.ErrInterrupted)
		}
		out, err := opened(t, s, bookkeeper(t, 3, "open", "tax", "close"))
		require.NoError(t, err)
		assert.Equal(t, want, out, "the old program continued: %v", wentOn)
	}
}

// payroll returns a program with a loop, a group and a retried agent. It calls Version with the
// given version, or does not call it if version is 0. It counts the tools that ran, by address.
func payroll(t *testing.T, version int, ran map[string]int) func(context.Context) error {
	do := func(ctx context.Context, name string) error {
		_, err := testkit.Call(ctx, testkit.Tool(t, name, core.RetryConfig{MaxAttempts: 5}, func(ctx context.Context, _ string) (string, error) {
			ran[core.ScopeOf(ctx).Address().String()]++
			return "out", nil
		}))
		return err
	}
	all := func(ctx context.Context, names ...string) error {
		for _, name := range names {
			if name == "tax" {
				v := 0
				if version > 0 {
					v = core.Version(ctx, "tax rules", version)
				}
				if v == 1 {
					if err := do(ctx, "declare"); err != nil { // the new version makes one more call
						return err
					}
				}
				name = fmt.Sprint("tax-", v)
			}
			if err := do(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
	branch := func(ctx context.Context) (string, error) { return "", all(ctx, "load", "tax", "pay") }
	retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}
	agent := testkit.Agent(t, "payroll", retry, func(ctx context.Context, _ string) (string, error) {
		for range 2 {
			if err := all(ctx, "load", "tax"); err != nil {
				return "", err
			}
		}
		if _, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 1}, branch, branch); err != nil {
			return "", err
		}
		if core.ScopeOf(ctx).Attempt() == 0 {
			return "", core.Retryable(errFatal)
		}
		return "out", all(ctx, "tax", "close")
	})
	return func(ctx context.Context) error {
		_, err := testkit.Call(ctx, agent)
		return err
	}
}

// TestVersionedProgramIsNeverRefused cuts a run of one version of a program at every record,
// resumes it with the next version, cuts it again, and resumes it with the version after that. No
// program is refused, nothing runs twice, and each scope has only the calls of a single version.
func TestVersionedProgramIsNeverRefused(t *testing.T) {
	runs := 0
	goOn := func(s *tape, version int, how string) {
		ran, done := make(map[string]int), completedLeaves(s.records)
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err, how)
		require.NoError(t, payroll(t, version, ran)(st.Context(t.Context())), how)
		require.NoError(t, st.Close(), how)
		for address, n := range ran {
			require.Equal(t, 1, n, "%s: %s", how, address)
			require.False(t, done[address], "%s: %s ran twice", how, address)
		}
		versions := make(map[string]map[string]bool) // by scope path
		for i := range s.records {
			if r := &s.records[i]; r.Kind == record.KindTool && strings.HasPrefix(r.Name, "tax-") {
				if versions[r.Address.Scope()] == nil {
					versions[r.Address.Scope()] = make(map[string]bool)
				}
				versions[r.Address.Scope()][r.Name] = true
			}
		}
		require.Len(t, versions, 6, how)
		for scope, names := range versions {
			require.Len(t, names, 1, "%s: %s has the calls of more than one version", how, scope)
		}
		runs++
	}
	for first := range 2 {
		whole := new(tape)
		goOn(whole, first, "whole")
		for n := 1; n < len(whole.records); n++ {
			if whole.records[n-1].WillRetry || !testkit.Sampled(n) {
				continue // a failed record and its retrying record are written together
			}
			again := whole.cut(n)
			goOn(again, first+1, fmt.Sprintf("of version %d, cut after record %d", first, n))
			for m := n; m < len(again.records); m += 3 {
				if !again.records[m-1].WillRetry {
					goOn(again.cut(m), first+2, fmt.Sprintf("of version %d, cut after record %d, and then after %d", first, n, m))
				}
			}
		}
	}
	t.Logf("%d runs continued", runs)
}
