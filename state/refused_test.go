package state_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// shop is a program with two branches, one that pays and one that books, and a call that follows
// the branches.
type shop struct {
	pay, book, amount string
	payKind           record.Kind

	paid *[]string // the payments made by all programs
}

// open runs the program to its end. If stop is set, the program is interrupted when it has booked
// but not yet paid.
func (p shop) open(t *testing.T, s snapshot.Store, runID string, stop bool) (string, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, runID)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	pay := testkit.Define(t, core.Spec{Kind: p.payKind, Name: p.pay, Retry: &once}, func(_ context.Context, amount string) (string, error) {
		*p.paid = append(*p.paid, p.pay+" "+amount)
		return p.pay + " " + amount, nil
	})
	booked, workers := make(chan struct{}), 1
	if stop {
		workers = 2
	}
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		results, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: workers}, func(ctx context.Context) (string, error) {
			if stop {
				<-booked
				<-ctx.Done()
				return "", ctx.Err()
			}
			return pay.Event().Execute(ctx, p.amount)
		}, func(ctx context.Context) (string, error) {
			out, err := testkit.Call(ctx, testkit.Tool(t, p.book, once, testkit.Succeed))
			if stop {
				close(booked)
				state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
				return "", ctx.Err()
			}
			return out, err
		})
		if err != nil {
			return "", err
		}
		shipped, err := testkit.Call(ctx, testkit.Tool(t, "ship", once, testkit.Succeed))
		return fmt.Sprint(results, shipped), err
	})
	return testkit.Call(st.Context(t.Context()), agent)
}

// A changed program may be refused because of one branch, after it has made a different call in the
// branch before that one. The original program, which does not make that call, must be able to
// continue, however often changed programs are refused. The same holds for a fork.
func TestOriginalProgramIgnoresCallsOfARefusedOne(t *testing.T) {
	for name, change := range map[string]func(*shop){
		"another input": func(p *shop) { p.amount = "200 EUR" },
		"another kind":  func(p *shop) { p.payKind = record.KindAgent },
		"another name":  func(p *shop) { p.pay = "charge" },
	} {
		t.Run(name, func(t *testing.T) {
			s := fileStore(t, t.TempDir())
			var paid []string
			old := shop{"pay", "book", "100 EUR", record.KindTool, &paid}
			_, err := old.open(t, s, "run-1", true)
			require.ErrorIs(t, err, core.ErrInterrupted)
			changed := old
			changed.book = "reserve" // this change is refused
			change(&changed)
			for range 2 {
				_, err = changed.open(t, s, "run-1", false)
				require.ErrorIs(t, err, core.ErrDivergence)
				require.Len(t, paid, 1, "the call is recalled for the program that made it")
			}
			out, err := old.open(t, s, "run-1", false)
			require.NoError(t, err)
			assert.Contains(t, out, "pay 100 EUR")
			assert.Equal(t, []string{changed.pay + " " + changed.amount, "pay 100 EUR"}, paid)

			require.NoError(t, state.Fork(t.Context(), s, "run-1", testkit.Address(t, "agent/ship"), "run-2", state.ForkOptions{}))
			again, err := old.open(t, s, "run-2", false)
			require.NoError(t, err)
			assert.Equal(t, out, again)
			assert.Len(t, paid, 2, "nothing is paid again")
		})
	}
}
