package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// Tests of handlers that return an error marked by InDoubt.

var errCutOff = errors.New("the connection was lost")

// sender sends letters. lost is the number of letters, from the first one on, whose delivery is in
// doubt.
type sender struct{ lost, made int }

func (s *sender) send(_ context.Context, in string) (string, error) {
	if s.made++; s.made <= s.lost {
		return "", fmt.Errorf("send %s: %w", in, core.InDoubt(errCutOff))
	}
	return "sent " + in, nil
}

// run makes an agent call the sender in a stored run, and returns the outcome.
func (s *sender) run(t *testing.T, store snapshot.Store, spec core.Spec) (string, error) {
	t.Helper()
	spec.Kind, spec.Name = record.KindTool, "send"
	return s.runTool(t, store, testkit.Define(t, spec, s.send))
}

func (s *sender) runTool(t *testing.T, store snapshot.Store, tool *core.Definition[string, string]) (string, error) {
	t.Helper()
	agent := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, in string) (string, error) {
		return tool.Event().Execute(ctx, in)
	})
	st, err := state.Open(t.Context(), store, "letters")
	require.NoError(t, err)
	out, err := agent.Event().Execute(st.Context(t.Context()), "a letter")
	require.NoError(t, st.Close())
	return out, err
}

func TestAHandlerInDoubtIsRetriedByDefault(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		s := &sender{lost: 2}
		out, err := s.run(t, memstore.New(), core.Spec{})
		require.NoError(t, err)
		assert.Equal(t, "sent a letter", out)
		assert.Equal(t, 3, s.made)

		s = &sender{lost: 9}
		_, err = s.run(t, memstore.New(), core.Spec{})
		require.ErrorIs(t, err, core.ErrExhausted)
		require.ErrorIs(t, err, core.ErrInDoubt)
		require.ErrorIs(t, err, errCutOff)
		assert.Equal(t, 3, s.made)
	})
}

func TestAHandlerInDoubtFailsIfTheActorSaysSo(t *testing.T) {
	s, store := &sender{lost: 1}, memstore.New()
	_, err := s.run(t, store, core.Spec{InDoubt: core.InDoubtFail})
	require.ErrorIs(t, err, core.ErrInDoubt)
	require.ErrorIs(t, err, errCutOff)
	assert.EqualError(t, err, "agent/send: in doubt: send a letter: the connection was lost")
	assert.Equal(t, 1, s.made)
	_, err = s.run(t, store, core.Spec{InDoubt: core.InDoubtFail})
	require.ErrorIs(t, err, core.ErrInDoubt, "after a resume")
	assert.Equal(t, 1, s.made)
}

func TestAHandlerInDoubtAsksAndEachAnswerCounts(t *testing.T) {
	for name, c := range map[string]struct {
		answer state.InDoubtAnswer
		out    string
		made   int
	}{
		"completed": {state.InDoubtCompleted("seen in the mailbox"), "seen in the mailbox", 1},
		"run again": {state.InDoubtRunAgain(), "sent a letter", 2},
		"failed":    {state.InDoubtFailed("it is gone"), "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := &sender{lost: 1}, memstore.New()
			spec := core.Spec{Irreversible: true} // which asks by default
			for range 2 {                         // the second time, the question has already been asked
				_, err := s.run(t, store, spec)
				require.ErrorIs(t, err, core.ErrAwaiting)
				assert.Equal(t, 1, s.made)
			}
			open, err := state.Questions(t.Context(), store, "letters")
			require.NoError(t, err)
			require.Len(t, open, 1)
			assert.Equal(t, "agent/send?in-doubt1", open[0].ID)
			assert.Equal(t, record.AwaitDecision, open[0].Awaits)
			require.NoError(t, state.Answer(t.Context(), store, "letters", open[0].ID, "", c.answer))
			out, err := s.run(t, store, spec)
			if c.out == "" {
				require.ErrorIs(t, err, core.ErrInDoubt)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.out, out)
			assert.Equal(t, c.made, s.made)
		})
	}
}

// If a second attempt is in doubt, another question is asked.
func TestAHandlerInDoubtAgainAsksAgain(t *testing.T) {
	s, store := &sender{lost: 2}, memstore.New()
	spec := core.Spec{InDoubt: core.InDoubtAsk}
	for _, id := range []string{"agent/send?in-doubt1", "agent/send?in-doubt2"} {
		_, err := s.run(t, store, spec)
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, state.Answer(t.Context(), store, "letters", id, "", state.InDoubtRunAgain()))
	}
	out, err := s.run(t, store, spec)
	require.NoError(t, err)
	assert.Equal(t, "sent a letter", out)
	assert.Equal(t, 3, s.made)
}

// The process may end after any record of a call in doubt.
func TestAHandlerInDoubtAsksWhereverTheProcessEnds(t *testing.T) {
	whole := memstore.New()
	s := &sender{lost: 1}
	_, err := s.run(t, whole, core.Spec{InDoubt: core.InDoubtAsk})
	require.ErrorIs(t, err, core.ErrAwaiting)
	records := testkit.LoadRun(t, whole, "letters").Records
	began := 0
	for i, rec := range records {
		if rec.Name == "send" && rec.Status == record.StatusStarted {
			began = i
		}
	}
	require.NotZero(t, began)
	for kept := began + 1; kept <= len(records); kept++ {
		store := firstRecords(t, records[:kept])
		s := &sender{}
		_, err := s.run(t, store, core.Spec{InDoubt: core.InDoubtAsk})
		require.ErrorIs(t, err, core.ErrAwaiting, "after %d records", kept)
		assert.Zero(t, s.made, "after %d records", kept)
	}
}

// firstRecords returns a store with a run that has the given records, as a killed process would
// have left it.
func firstRecords(t *testing.T, records []record.Record) snapshot.Store {
	t.Helper()
	left := memstore.New()
	journal, err := left.Open(t.Context(), "letters", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, journal.Append(r))
	}
	require.NoError(t, journal.Close(t.Context(), snapshot.End{Status: snapshot.StatusInterrupted}))
	return left
}

func TestAHandlerInDoubtIsLookedUpFirst(t *testing.T) {
	for _, policy := range []core.InDoubtPolicy{core.InDoubtAsk, core.InDoubtFail} {
		s := &sender{lost: 1}
		tool := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "send", InDoubt: policy}, s.send).
			LookUp(func(context.Context, string) (string, bool, error) { return "found", true, nil })
		out, err := s.runTool(t, memstore.New(), tool)
		require.NoError(t, err)
		assert.Equal(t, "found", out)
		assert.Equal(t, 1, s.made)
	}
}

// Outside a run, nobody can be asked.
func TestAHandlerInDoubtOutsideARunFails(t *testing.T) {
	s := &sender{lost: 1}
	_, err := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "send", InDoubt: core.InDoubtAsk}, s.send).Event().Execute(t.Context(), "x")
	require.ErrorIs(t, err, core.ErrInDoubt)
	assert.Equal(t, 1, s.made)
}

// A call in doubt does not put the calls around it in doubt.
func TestACallAroundOneInDoubtIsNotAsked(t *testing.T) {
	s := &sender{lost: 1}
	inner := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "inner", InDoubt: core.InDoubtFail}, s.send)
	outer := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "outer", InDoubt: core.InDoubtAsk}, func(ctx context.Context, in string) (string, error) {
		return inner.Event().Execute(ctx, in)
	})
	_, ctx := testkit.Run(t)
	_, err := outer.Event().Execute(ctx, "x")
	require.ErrorIs(t, err, core.ErrInDoubt)
	assert.False(t, core.IsSuspension(err))
}

func TestInDoubtKeepsWhatItMarks(t *testing.T) {
	require.NoError(t, core.InDoubt(nil))
	err := core.InDoubt(errCutOff)
	require.ErrorIs(t, err, errCutOff)
	require.ErrorIs(t, err, core.ErrInDoubt)
	assert.EqualError(t, err, "the connection was lost")
}
