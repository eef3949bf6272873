package state_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestValidateListsDifferencesOfAChangedProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := func(name string) *node { return &node{name: name, kind: record.KindTool} }
		program := func(children ...*node) *node {
			return &node{name: "agent", kind: record.KindAgent, loops: 1, children: children}
		}
		whole := new(tape)
		old := program(leaf("a"), leaf("b"))
		resumed(t, whole, newEffects(), old)
		validate := func(n *node) ([]string, *effects) {
			e := newEffects()
			kept := len(whole.records)
			differences, err := state.Validate(t.Context(), whole, "run-1", func(ctx context.Context) error {
				_, err := e.call(t, ctx, n)
				return err
			})
			require.NoError(t, err)
			require.Len(t, whole.records, kept)
			assert.Empty(t, e.ran, "no leaf is executed")
			var lines []string
			for _, d := range differences {
				lines = append(lines, d.Address.String()+" "+d.Field)
			}
			return lines, e
		}
		lines, _ := validate(old)
		assert.Empty(t, lines)
		lines, _ = validate(program(leaf("a"), leaf("c")))
		assert.Equal(t, []string{"agent/c call", "agent output", "agent/b call"}, lines)
		lines, _ = validate(program(leaf("a")))
		assert.Equal(t, []string{"agent output", "agent/b call"}, lines)
	})
}

func TestValidateShowsThePartsOfAnInputThatDiffer(t *testing.T) {
	type trip struct {
		City string `json:"city"`
		Days int    `json:"days"`
		Note string `json:"note"`
	}
	store := memstore.New()
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "plan"}, func(context.Context, trip) (string, error) { return "planned", nil })
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "run-1")
	require.NoError(t, err)
	_, err = d.Event().Execute(st.Context(t.Context()), trip{"Oslo", 2, "by train"})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	differences, err := state.Validate(t.Context(), store, "run-1", func(ctx context.Context) error {
		_, err := d.Event().Execute(ctx, trip{"Rome", 3, "by train"})
		return err
	})
	require.NoError(t, err)
	require.Len(t, differences, 1)
	assert.Equal(t, `plan: input: recorded city: "Oslo"; days: 2, now city: "Rome"; days: 3`, differences[0].String())
}

func TestRoundTripReturnsTheOutputsOfAResumedRun(t *testing.T) {
	type out struct {
		Kept    string `json:"kept"`
		dropped string
	}
	special := errors.New("not registered")
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(_ context.Context, fail bool) (out, error) {
		if fail {
			return out{}, special
		}
		return out{"a", "b"}, nil
	})
	require.NoError(t, err)
	st := state.New(state.WithRoundTrip())
	defer st.Close()
	got, err := d.Event().Execute(st.Context(t.Context()), false)
	require.NoError(t, err)
	assert.Equal(t, out{Kept: "a"}, got, "a field that is not encoded is already missing in a test")
	_, err = d.Event().Execute(st.Context(t.Context()), true)
	require.ErrorContains(t, err, "not registered")
	require.NotErrorIs(t, err, special)
}

func TestCallThatMustNotRepeatFailsInDoubt(t *testing.T) {
	for _, stop := range []string{"crash", "interrupt"} {
		t.Run(stop, func(t *testing.T) {
			ran := 0
			var st *state.ExecutionState
			tape := new(tape)
			d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(ctx context.Context, _ int) (int, error) {
				if ran++; stop == "interrupt" && ran == 1 {
					st.Interrupt(snapshot.Stop{})
					return 0, ctx.Err()
				}
				return 1, nil
			})
			require.NoError(t, err)
			open := func() {
				st, err = state.Open(t.Context(), tape, "run-1")
				require.NoError(t, err)
			}
			open()
			_, _ = d.Event().Execute(st.Context(t.Context()), 1)
			require.NoError(t, st.Close())
			if stop == "crash" {
				tape = tape.cut(2) // run, started
			}
			open()
			_, err = d.Event().Execute(st.Context(t.Context()), 1)
			require.ErrorIs(t, err, core.ErrInDoubt)
			assert.Equal(t, 1, ran)
			require.NoError(t, st.Close())
		})
	}
}

// syncs is a store that collects the record numbers up to which its journals are synced.
type syncs struct {
	tape
	seqs []uint64
}

func (s *syncs) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.tape.Open(ctx, runID, o)
	return &syncJournal{j, s}, err
}

type syncJournal struct {
	snapshot.Journal
	s *syncs
}

func (j *syncJournal) Sync(_ context.Context, seq uint64) error {
	j.s.seqs = append(j.s.seqs, seq)
	return nil
}

func TestOutcomesAndPromisesAreSynced(t *testing.T) {
	for policy, want := range map[state.SyncPolicy][]uint64{
		state.SyncOutcomes: {4, 6}, state.SyncAlways: {2, 4, 5, 6}, state.SyncNever: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := new(syncs)
			st, err := state.Open(t.Context(), s, "run-1", state.WithSync(policy))
			require.NoError(t, err)
			_, err = newEffects().call(t, st.Context(t.Context()), &node{name: "tool", kind: record.KindTool, failures: 1})
			require.NoError(t, err)
			assert.Equal(t, want, s.seqs, "policy %d", policy)
			require.NoError(t, st.Close())
		})
	}
}

func TestBeginningOfACallThatMustNotSimplyRepeatIsSynced(t *testing.T) {
	for policy, want := range map[core.InDoubtPolicy][]uint64{
		core.InDoubtRetry: {3}, core.InDoubtFail: {2, 3}, core.InDoubtAsk: {2, 3},
	} {
		s := new(syncs)
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: policy}, testkit.Succeed)
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), d)
		require.NoError(t, err)
		assert.Equal(t, want, s.seqs, "policy %d", policy)
		require.NoError(t, st.Close())
	}
}

func TestRecalledCallsPublishAsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "agent", kind: record.KindAgent, loops: 1, children: []*node{{name: "a", kind: record.KindTool, failures: 1}}}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		heard := func(options ...state.Option) []string {
			var lines []string
			listen := state.WithPublisher(testkit.Publisher(func(r record.Record) {
				if r.Kind.IsCall() {
					assert.True(t, r.Replayed)
					lines = append(lines, r.Address.String()+" "+r.Status.String())
				}
			}))
			st, err := state.Open(t.Context(), whole.cut(len(whole.records)), "run-1", append(options, listen)...)
			require.NoError(t, err)
			_, err = newEffects().call(t, st.Context(t.Context()), program)
			require.NoError(t, err)
			require.NoError(t, st.Close())
			return lines
		}
		assert.Equal(t, []string{"agent recovered"}, heard())
		assert.Equal(t, []string{
			"agent started", "agent/a started", "agent/a failed", "agent/a retrying", "agent/a started", "agent/a completed", "agent completed",
		}, heard(state.WithRepublish()))
	})
}
