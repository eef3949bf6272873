package state_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// desk returns an agent that makes a step, logs, and asks two questions at the same time in a
// group: one in a tool, and one in a branch. A third branch completes.
func desk(t testing.TB, made map[string]int) *testkit.Definition {
	refund := testkit.Tool(t, "refund", once, func(ctx context.Context, _ string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "asking", nil)
		return core.Await[string](ctx, "refund it?")
	})
	note := testkit.Tool(t, "note", once, func(context.Context, string) (string, error) {
		made["note"]++
		return "noted", nil
	})
	return testkit.Agent(t, "desk", once, func(ctx context.Context, _ string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "at work", nil)
		if err := state.Put(ctx, "office", "open"); err != nil {
			return "", err
		}
		if core.Version(ctx, "office", 1) != 1 {
			return "", errBoom
		}
		if _, err := core.Step(ctx, "prepare", func(context.Context) (int, error) { made["prepare"]++; return 1, nil }); err != nil {
			return "", err
		}
		out, err := group(ctx, "both", calling(note), calling(refund), func(ctx context.Context) (string, error) {
			return core.Await[string](ctx, "how much?")
		})
		if err != nil {
			return "", err
		}
		return out[0] + " " + out[1] + " " + out[2], nil
	})
}

// journals returns the size in bytes of the files of the run.
func journals(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	for _, pattern := range []string{"*.journal", "*.snapshot"} {
		names, err := filepath.Glob(filepath.Join(dir, "runs", "run-1", pattern))
		require.NoError(t, err)
		for _, name := range names {
			info, err := os.Stat(name)
			require.NoError(t, err)
			bytes += info.Size()
		}
	}
	require.Positive(t, bytes)
	return bytes
}

func TestOpeningAPausedRunWithoutAnAnswerAddsNoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store, made := fileStore(t, dir), map[string]int{}
		open := func(options ...state.Option) (string, *state.ExecutionState, error) {
			st, err := state.Open(t.Context(), store, "run-1", options...)
			require.NoError(t, err)
			out, err := testkit.Call(st.Context(t.Context()), desk(t, made))
			require.NoError(t, st.Close())
			return out, st, err
		}
		_, _, err := open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		_, _, _ = open() // from now on the layout of the files does not change
		records, size := testkit.LoadRun(t, store, "run-1").Records, journals(t, dir)

		unanswered := func(options ...state.Option) *state.ExecutionState {
			require.NoError(t, testkit.Pause(t.Context(), time.Hour))
			_, st, err := open(options...)
			require.ErrorIs(t, err, core.ErrAwaiting)
			assert.Equal(t, snapshot.StatusPaused, st.Status())
			assert.Len(t, testkit.Questions(t, st), 2)
			return st
		}
		for range 5 {
			shown := new(heard)
			st := unanswered(state.WithPublisher(shown), state.WithSync(state.SyncAlways))
			assert.Equal(t, facts(records), facts(testkit.LoadRun(t, store, "run-1").Records))
			now := journals(t, dir)
			assert.Less(t, now-size, int64(1100), "bytes added by opening and closing the run")
			size = now
			assert.NotEmpty(t, shown.records, "the opening is published")
			all, err := st.Records(t.Context())
			require.NoError(t, err)
			assert.Greater(t, len(all), len(records), "the opening itself returns its records")
		}

		// One answer is something new to record. Without the other, the run is paused again.
		require.NoError(t, state.Answer(t.Context(), store, "run-1", "desk/group:both/2/refund?1", "", "yes"))
		_, st, err := open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		assert.Len(t, testkit.Questions(t, st), 1)
		answered := testkit.LoadRun(t, store, "run-1").Records
		require.Greater(t, len(answered), len(records))
		assert.Equal(t, facts(records), facts(answered[:len(records)]))
		_, _, err = open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		assert.Equal(t, facts(answered), facts(testkit.LoadRun(t, store, "run-1").Records))

		require.NoError(t, state.Answer(t.Context(), store, "run-1", "desk/group:both/3?1", "", "all"))
		out, st, err := open()
		require.NoError(t, err)
		assert.Equal(t, "noted yes all", out)
		assert.Equal(t, snapshot.StatusCompleted, st.Status())
		assert.Equal(t, map[string]int{"prepare": 1, "note": 1}, made)
	})
}

func TestPausedRunThatIsOnlyOpenedAndClosedGetsNoRecords(t *testing.T) {
	s := paused(t)
	before := testkit.LoadRun(t, s, "run-1").Records
	st := openRun(t, s)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusPaused, st.Status())
	assert.Equal(t, facts(before), facts(testkit.LoadRun(t, s, "run-1").Records))
}

// Something new in an opening is recorded, together with all earlier records of the opening.
func TestNewsOfAPausedRunIsRecorded(t *testing.T) {
	for name, news := range map[string]struct {
		do   func(t *testing.T, st *state.ExecutionState)
		want snapshot.Status
	}{
		"a line that the program logs": {func(t *testing.T, st *state.ExecutionState) {
			st.Log(slog.LevelInfo, "still waiting", nil)
		}, snapshot.StatusPaused},
		"a value": {func(t *testing.T, st *state.ExecutionState) {
			require.NoError(t, state.Put(st.Context(t.Context()), "key", 1))
		}, snapshot.StatusPaused},
		"an interrupt": {func(t *testing.T, st *state.ExecutionState) {
			require.True(t, st.Interrupt(snapshot.Stop{By: "ann", Message: "enough"}))
		}, snapshot.StatusInterrupted},
		"a further call": {func(t *testing.T, st *state.ExecutionState) {
			note := testkit.Tool(t, "note", once, func(context.Context, string) (string, error) { return "noted", nil })
			_, err := testkit.Call(st.Context(t.Context()), note)
			require.NoError(t, err)
		}, snapshot.StatusPaused},
	} {
		t.Run(name, func(t *testing.T) {
			s := paused(t)
			before := testkit.LoadRun(t, s, "run-1").Records
			st := openRun(t, s)
			_, err := testkit.Call(st.Context(t.Context()), asking(t))
			require.ErrorIs(t, err, core.ErrAwaiting)
			news.do(t, st)
			require.NoError(t, st.Close())
			assert.Equal(t, news.want, st.Status())
			all, err := st.Records(t.Context())
			require.NoError(t, err)
			assert.Equal(t, facts(all), facts(testkit.LoadRun(t, s, "run-1").Records))
			assert.Equal(t, record.KindRun, all[len(before)].Kind, "the opening is recorded from its beginning")

			require.NoError(t, state.Answer(t.Context(), s, askedRun, question, "", "this"))
			out, err := resume(t, s)
			require.NoError(t, err)
			assert.Equal(t, "this", out)
		})
	}
}

// A tool that must not be repeated silently is recorded before its handler runs.
func TestPausedToolThatMustNotRepeatIsRecordedWhenItIsEntered(t *testing.T) {
	s := paused(t)
	before := testkit.LoadRun(t, s, "run-1").Records
	pay, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "ask", InDoubt: core.InDoubtFail}, func(ctx context.Context, _ string) (string, error) {
		assert.Greater(t, len(testkit.LoadRun(t, s, "run-1").Records), len(before))
		return core.Await[string](ctx, "what?")
	})
	require.NoError(t, err)
	st := openRun(t, s)
	_, err = pay.Event().Execute(st.Context(t.Context()), "in")
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
}

// Tokens that are used in an opening without an answer are counted.
func TestUsageOfAPausedRunIsRecorded(t *testing.T) {
	s := paused(t)
	spending := testkit.Tool(t, "ask", once, func(ctx context.Context, _ string) (string, error) {
		core.AddUsage(ctx, record.Usage{InputTokens: 3})
		return core.Await[string](ctx, "what?")
	})
	for range 2 {
		st := openRun(t, s)
		_, err := testkit.Call(st.Context(t.Context()), spending)
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
	}
	info, err := s.Info(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Equal(t, 6, info.Usage.InputTokens)
}

func TestOpeningAnEndedRunAgainAddsNoRecords(t *testing.T) {
	for name, fails := range map[string]error{"completed": nil, "failed": errBoom} {
		t.Run(name, func(t *testing.T) {
			s := fileStore(t, t.TempDir())
			calls := 0
			inner := testkit.Tool(t, "inner", once, func(context.Context, string) (string, error) {
				calls++
				return "result", fails
			})
			agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				state.From(ctx).Log(slog.LevelInfo, "at work", nil)
				return testkit.Call(ctx, inner)
			})
			open := func(further ...*testkit.Definition) error {
				st, err := state.Open(t.Context(), s, "run-1", state.WithFurtherCalls())
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), agent)
				for _, d := range further {
					_, err := testkit.Call(st.Context(t.Context()), d)
					require.NoError(t, err)
				}
				require.NoError(t, st.Close())
				return err
			}
			want := open()
			ended := testkit.LoadRun(t, s, "run-1")
			for range 3 {
				err := open()
				if fails == nil {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, want.Error())
				}
				again := testkit.LoadRun(t, s, "run-1")
				assert.Equal(t, ended.Records, again.Records)
				assert.Equal(t, ended.Status, again.Status)
			}
			assert.Equal(t, 1, calls)

			_ = open(testkit.Tool(t, "further", once, testkit.Succeed))
			assert.Greater(t, len(testkit.LoadRun(t, s, "run-1").Records), len(ended.Records)+2, "a new call is recorded")
		})
	}
}
