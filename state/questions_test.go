package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/internal/testkit"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// approval returns an agent that makes a step, which must not run twice, and then asks whether to
// grant a refund.
func approval(t testing.TB, prepared *int) *core.Definition[int, string] {
	t.Helper()
	ask, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "refund"}, func(ctx context.Context, amount int) (string, error) {
		approved, err := core.Await[bool](ctx, "refund it?")
		if err != nil {
			return "", err
		}
		if !approved {
			return "kept", nil
		}
		return "refunded", nil
	})
	require.NoError(t, err)
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, amount int) (string, error) {
		if _, err := core.Step(ctx, "prepare", func(context.Context) (int, error) { *prepared++; return 1, nil }); err != nil {
			return "", err
		}
		return ask.Event().Execute(ctx, amount)
	})
	require.NoError(t, err)
	return d
}

func TestQuestionOfARunInMemorySaysThatItNeedsAStore(t *testing.T) {
	st := state.New()
	defer st.Close()
	d := approval(t, new(int))
	_, err := d.Event().Execute(st.Context(t.Context()), 5)
	require.ErrorIs(t, err, core.ErrAwaiting)
	assert.EqualError(t, err, "interrupted (awaiting agent/refund?1): refund it?: a run in memory cannot be continued after an answer; keep it in a store, with state.Open")
}

func TestQuestionPausesTheRunUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prepared := 0
		d, tape := approval(t, &prepared), new(tape)
		run := func() (string, *state.ExecutionState, error) {
			st, err := state.Open(t.Context(), tape, "run-1")
			require.NoError(t, err)
			out, err := d.Event().Execute(st.Context(t.Context()), 5)
			require.NoError(t, st.Close())
			return out, st, err
		}
		_, st, err := run()
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, snapshot.StatusPaused, st.Status())
		want := []core.Question{{ID: "agent/refund?1", Awaits: record.AwaitAnswer, Text: "refund it?", Schema: json.RawMessage(`{"type":"boolean"}`)}}
		assert.Equal(t, want, testkit.Questions(t, st))

		_, st, err = run()
		require.ErrorIs(t, err, core.ErrAwaiting, "without an answer it asks again")
		require.EqualError(t, err, "interrupted (awaiting agent/refund?1): refund it?")
		assert.Equal(t, want, testkit.Questions(t, st), "the question is the same")
		stored, err := state.Questions(t.Context(), tape, "run-1")
		require.NoError(t, err)
		assert.Equal(t, want, stored)

		err = state.Answer(t.Context(), tape, "run-1", "agent/refund?2", "", true)
		require.ErrorIs(t, err, state.ErrNotAsked)
		require.ErrorContains(t, err, "agent/refund?2; open: agent/refund?1")
		require.NoError(t, state.Answer(t.Context(), tape, "run-1", "agent/refund?1", "", true))
		require.ErrorIs(t, state.Answer(t.Context(), tape, "run-1", "agent/refund?1", "", false), state.ErrAnswered)

		out, st, err := run()
		require.NoError(t, err)
		assert.Equal(t, "refunded", out)
		assert.Equal(t, snapshot.StatusCompleted, st.Status())
		assert.Empty(t, testkit.Questions(t, st))
		assert.Equal(t, 1, prepared)
	})
}

func TestAgentThatSwallowsAQuestionDoesNotComplete(t *testing.T) {
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (string, error) {
		_, _ = core.Await[bool](ctx, "may I?")
		return "done without asking", nil
	})
	require.NoError(t, err)
	st := state.New()
	_, err = d.Event().Execute(st.Context(t.Context()), 1)
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusPaused, st.Status())
}

func TestAnswerThatDoesNotFitIsDiscardedAndAskedForAgain(t *testing.T) {
	prepared := 0
	d, tape := approval(t, &prepared), new(tape)
	run := func() (string, error) {
		st, err := state.Open(t.Context(), tape, "run-1")
		require.NoError(t, err)
		out, err := d.Event().Execute(st.Context(t.Context()), 5)
		require.NoError(t, st.Close())
		if err != nil {
			assert.Equal(t, snapshot.StatusPaused, st.Status())
		}
		return out, err
	}
	_, err := run()
	require.ErrorIs(t, err, core.ErrAwaiting)
	const id = "agent/refund?1"
	for _, unfit := range []any{"perhaps", 7} {
		postAnswer(t, tape, "run-1", id, unfit)
		require.ErrorIs(t, state.Answer(t.Context(), tape, "run-1", id, "", true), state.ErrAnswered, "only the resumed run finds that the answer does not fit")
		for range 2 {
			_, err = run()
			require.ErrorIs(t, err, core.ErrAwaiting)
			assert.True(t, core.IsSuspension(err))
			open, err := state.Questions(t.Context(), tape, "run-1")
			require.NoError(t, err)
			require.Len(t, open, 1)
			assert.Equal(t, id, open[0].ID)
			assert.Equal(t, "refund it?", open[0].Text)
			assert.Contains(t, open[0].Refused, fmt.Sprintf("the answer %s does not fit", record.Preview(encode(t, unfit))))
		}
	}
	require.NoError(t, state.Answer(t.Context(), tape, "run-1", id, "", true))
	require.ErrorIs(t, state.Answer(t.Context(), tape, "run-1", id, "", false), state.ErrAnswered)
	out, err := run()
	require.NoError(t, err)
	assert.Equal(t, "refunded", out)
	assert.Equal(t, 1, prepared)
}

// postAnswer puts an answer into the inbox of a run without checking that the answer fits the
// question, as if the program had changed the question's type since.
func postAnswer(t testing.TB, s snapshot.Inbox, runID, id string, value any) {
	t.Helper()
	require.NoError(t, s.Post(t.Context(), runID, snapshot.Message{Record: record.Record{
		Time: time.Now(), Kind: record.KindAnswer, Status: record.StatusRecorded, Name: id, Detail: &record.Detail{Output: encode(t, value)},
	}}))
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := record.Encode(v)
	require.NoError(t, err)
	return data
}

func TestQuestionOutsideARunIsNoRun(t *testing.T) {
	_, err := core.Await[bool](t.Context(), "anybody?")
	require.ErrorIs(t, err, core.ErrNoRun)
}

func TestSeveralQuestionsAreOpenAtOnce(t *testing.T) {
	ask, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "ask"}, func(ctx context.Context, _ int) (string, error) {
		return core.Await[string](ctx, "who?")
	})
	require.NoError(t, err)
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (string, error) {
		out, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 1}, ask, []int{1, 2, 3})
		return strings.Join(out, ""), err
	})
	require.NoError(t, err)
	tape := new(tape)
	run := func() (string, error) {
		st, err := state.Open(t.Context(), tape, "run-1")
		require.NoError(t, err)
		defer st.Close()
		return d.Event().Execute(st.Context(t.Context()), 5)
	}
	_, err = run()
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err := state.Questions(t.Context(), tape, "run-1")
	require.NoError(t, err)
	require.Len(t, open, 3)
	for i, q := range open {
		require.NoError(t, state.Answer(t.Context(), tape, "run-1", q.ID, "", string(rune('a'+i))))
	}
	out, err := run()
	require.NoError(t, err)
	assert.Equal(t, "abc", out)
}

// A group fails while one of its branches is asking a question. The agent continues and asks
// something else. The branch's question is then no longer open.
func TestQuestionOfACallThatIsOverIsNotOpen(t *testing.T) {
	s := memstore.New()
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		_, err := actors.Parallel(ctx, actors.Group{Name: "both", Workers: 1},
			func(ctx context.Context) (bool, error) { return core.Await[bool](ctx, "in vain?") },
			func(context.Context) (bool, error) { return false, core.Permanent(errors.New("down")) })
		if err == nil || core.IsSuspension(err) {
			return "", err
		}
		_, err = core.Await[bool](ctx, "go on?")
		return "", err
	})
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), agent)
	require.ErrorIs(t, err, core.ErrAwaiting)
	open := testkit.Questions(t, st)
	require.Len(t, open, 1)
	assert.Equal(t, "go on?", open[0].Text)
	require.NoError(t, st.Close())

	open, err = state.Questions(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.Len(t, open, 1)
	err = state.Answer(t.Context(), s, "run-1", "agent/group:both/1?1", "", true)
	require.ErrorIs(t, err, state.ErrNotAsked)
	require.ErrorContains(t, err, "the call that asked it is over; open: agent?1")
}

// A betweenReads is a store that calls a function once, after the first read of a run or of its
// messages.
type betweenReads struct {
	snapshot.Store
	then func()
}

func (s *betweenReads) once() {
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
}

func (s *betweenReads) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	defer s.once()
	return s.Store.Load(ctx, runID)
}

func (s *betweenReads) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	defer s.once()
	return s.Store.Messages(ctx, runID)
}

func TestQuestionWhoseAnswerIsBeingRecordedIsNotOpen(t *testing.T) {
	store := memstore.New()
	agent := decorators.Agent("a", "", func(ctx context.Context, _ struct{}) (int, error) { return core.Await[int](ctx, "How many?") })
	call := func() error {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, st.Close())
		return err
	}
	require.ErrorIs(t, call(), core.ErrAwaiting)
	require.NoError(t, state.Answer(t.Context(), store, "r", "a?1", "ann", 3))
	open, err := state.Questions(t.Context(), &betweenReads{store, func() { require.NoError(t, call()) }}, "r")
	require.NoError(t, err)
	assert.Empty(t, open)
}
