package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// tape is a store for one run. It consists only of records, so that a test can cut it anywhere.
type tape struct {
	snapshot.Store
	mu      sync.Mutex
	records []record.Record
	fail    error // of Append

	messages []snapshot.Message
	encoded  *snapshot.Run // the first records, as last encoded
}

func (s *tape) Open(_ context.Context, runID string, _ snapshot.OpenOptions) (snapshot.Journal, error) {
	found, err := s.run(runID)
	return &tapeJournal{s, found}, err
}

func (s *tape) Load(_ context.Context, runID string) (*snapshot.Run, error) { return s.run(runID) }

func (s *tape) Post(_ context.Context, _ string, m snapshot.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.messages, func(w snapshot.Message) bool { return w.ID() == m.ID() }) {
		return snapshot.ErrPosted
	}
	s.messages = append(s.messages, m)
	return nil
}

func (s *tape) Messages(context.Context, string) ([]snapshot.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages), nil
}

func (s *tape) Remove(_ context.Context, _ string, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = slices.DeleteFunc(s.messages, func(m snapshot.Message) bool { return slices.Contains(ids, m.ID()) })
	return nil
}

// run returns the records as a run. Most programs are opened many times, so run never encodes the
// same record twice.
func (s *tape) run(runID string) (*snapshot.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := snapshot.Info{RunID: runID, Generation: 1}
	if n := len(s.records); n > 0 {
		info.Generation = s.records[n-1].Generation + 1
	}
	if s.encoded == nil {
		s.encoded = new(snapshot.Run)
	}
	run := *s.encoded
	run.Info = info
	var added [][]byte
	for i := run.Len(); i < len(s.records); i++ {
		encoded, err := snapshot.AppendRecord(nil, &s.records[i])
		if err != nil {
			return nil, err
		}
		added = append(added, encoded)
	}
	extended, _, err := run.Extend(added...)
	if err != nil {
		return nil, err
	}
	s.encoded = extended
	return extended, nil
}

// shift shifts the times of all records by d.
func (s *tape) shift(d time.Duration) {
	s.encoded = nil
	for i := range s.records {
		s.records[i].Time = s.records[i].Time.Add(d)
	}
}

// cut returns a tape with the first n records.
func (s *tape) cut(n int) *tape { return &tape{records: slices.Clone(s.records[:n])} }

type tapeJournal struct {
	tape  *tape
	found *snapshot.Run
}

func (j *tapeJournal) Restored() *snapshot.Run                   { return j.found }
func (j *tapeJournal) Sync(context.Context, uint64) error        { return nil }
func (j *tapeJournal) Notify() <-chan struct{}                   { return nil }
func (j *tapeJournal) Lost() <-chan struct{}                     { return nil }
func (j *tapeJournal) Close(context.Context, snapshot.End) error { return nil }

func (j *tapeJournal) Append(records ...record.Record) error {
	j.tape.mu.Lock()
	defer j.tape.mu.Unlock()
	if j.tape.fail != nil {
		return j.tape.fail
	}
	for _, r := range records {
		if want := uint64(len(j.tape.records)) + 1; r.Seq != want {
			return fmt.Errorf("record %d comes as number %d", r.Seq, want)
		}
		if r.Err != nil && r.Interrupt() == nil {
			r.Err = record.ErrorOf(r.Err) // as if read from a file
		}
		j.tape.records = append(j.tape.records, r)
	}
	return nil
}

func resumed(t testing.TB, s *tape, e *effects, program *node) string {
	t.Helper()
	out, _ := resumedWithValues(t, s, e, program)
	return out
}

// resumedWithValues resumes the run. It returns the program's result and the values that the
// program left.
func resumedWithValues(t testing.TB, s *tape, e *effects, program *node, options ...state.Option) (string, map[string]string) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1", append(options, state.WithSeed(1))...)
	require.NoError(t, err)
	defer st.Close()
	ctx := st.Context(t.Context())
	out, err := e.call(t, ctx, program)
	require.NoError(t, err)
	return out, values(t, ctx, s.records)
}

func completedLeaves(records []record.Record) map[string]bool {
	done := make(map[string]bool)
	for i := range records {
		if r := &records[i]; r.IsOutcome() && r.Kind != record.KindAgent && (r.Detail == nil || !r.Detail.NoStore) {
			done[r.Address.String()] = true
		}
	}
	return done
}

// failedGroups returns the paths of the groups that fail fast and have a recorded
// failure.
func failedGroups(records []record.Record) []string {
	var paths []string
	for i := range records {
		r := &records[i]
		path, _, found := strings.Cut(r.Address.String(), "/group:fast")
		isBranch := strings.Count(strings.TrimPrefix(r.Address.String(), path+"/"), "/") == 1
		if found && isBranch && r.IsOutcome() && r.Status == record.StatusFailed {
			rest := strings.TrimPrefix(r.Address.String(), path+"/")
			name, _, _ := strings.Cut(rest, "/")
			paths = append(paths, path+"/"+name)
		}
	}
	return paths
}

func requireAttemptsWithin(t testing.TB, records []record.Record, most int) {
	t.Helper()
	for i := range records {
		require.Less(t, records[i].Attempt, most, "%s", records[i].Address)
	}
}

func TestReplayOfAFinishedRunExecutesNothingAndWaitsForNothing(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			program := randomTree(rand.New(rand.NewPCG(seed, 7)), 2)
			whole := new(tape)
			want := resumed(t, whole, newEffects(), program)
			begin, again := time.Now(), newEffects()
			kept := len(whole.records)

			st, err := state.Replay(t.Context(), whole, "run-1")
			require.NoError(t, err)
			got, err := again.call(t, st.Context(t.Context()), program)
			require.NoError(t, err)
			require.NoError(t, st.Close())
			assert.Equal(t, want, got)
			assert.Empty(t, again.ran)
			assert.Zero(t, time.Since(begin), "virtual time has not moved")
			assert.Len(t, whole.records, kept, "no record is written")
			assert.Equal(t, 1, st.Report().Restored, "only the root call counts as restored")
		})
	}
}

// TestStrictReplayStopsWhereTheRunStopped checks that the program does not treat the end of the
// records as a failure of the call.
func TestStrictReplayStopsWhereTheRunStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "agent", kind: record.KindAgent, loops: 1, children: []*node{{name: "a", kind: record.KindTool}, {name: "b", kind: record.KindTool}}}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		n := slices.IndexFunc(whole.records, func(r record.Record) bool { return r.Name == "b" })
		st, err := state.Replay(t.Context(), whole.cut(n), "run-1")
		require.NoError(t, err)
		defer st.Close()
		again := newEffects()
		_, err = again.call(t, st.Context(t.Context()), program)
		require.ErrorIs(t, err, core.ErrNotRecorded)
		assert.True(t, core.IsSuspension(err))
		assert.Empty(t, again.ran)
	})
}

func TestResumedRunWaitsForTheRestOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := &node{name: "tool", kind: record.KindTool, failures: 1}
		whole := new(tape)
		resumed(t, whole, newEffects(), program)
		n := slices.IndexFunc(whole.records, func(r record.Record) bool { return r.Status == record.StatusRetrying }) + 1
		delay := whole.records[n-1].Delay
		due := whole.records[n-1].NextAttemptAt()

		cut := whole.cut(n) // the process ended long ago, right after the retrying record
		begin := time.Now()
		resumed(t, cut, newEffects(), program)
		assert.Zero(t, time.Since(begin), "the time that the process was down counts")
		assert.True(t, due.Before(begin) || due.Equal(begin))

		fresh := whole.cut(n)
		fresh.shift(time.Since(due) + delay/2)
		begin = time.Now()
		resumed(t, fresh, newEffects(), program)
		assert.Equal(t, delay/2, time.Since(begin))
	})
}

func TestFailureIsRecalledAsTheSameError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := &node{name: "tool", kind: record.KindTool, fatal: true}
		whole := new(tape)
		run := func(options ...state.Option) (*effects, error) {
			st, err := state.Open(t.Context(), whole, "run-1", options...)
			require.NoError(t, err)
			defer st.Close()
			e := newEffects()
			_, err = e.call(t, st.Context(t.Context()), fatal)
			return e, err
		}
		_, live := run()
		e, again := run()
		assert.Empty(t, e.ran)
		assert.Equal(t, live.Error(), again.Error())
		require.ErrorIs(t, again, errFatal)
		require.ErrorIs(t, again, core.ErrPermanent)
		var failed *core.CallError
		require.ErrorAs(t, again, &failed)
		assert.Equal(t, 1, failed.Attempts)

		fatal.fatal = false // the cause of the failure has been removed
		e, mended := run(state.WithRerunFailed())
		require.NoError(t, mended)
		assert.Equal(t, map[string]int{"tool": 1}, e.ran)
	})
}

func TestRerunFailedKeepsFinishedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		good, bad := 0, 0
		agent := func(ctx context.Context, _ int) (string, error) {
			for name, f := range map[string]func() error{"good": func() error { good++; return nil }} {
				if _, err := core.Step(ctx, name, func(context.Context) (int, error) { return 1, f() }); err != nil {
					return "", err
				}
			}
			return core.Step(ctx, "bad", func(context.Context) (string, error) {
				if bad++; down {
					return "", errors.New("the service is down")
				}
				return "up", nil
			})
		}
		d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, agent)
		require.NoError(t, err)
		whole := new(tape)
		run := func(options ...state.Option) (string, error) {
			st, err := state.Open(t.Context(), whole, "run-1", options...)
			require.NoError(t, err)
			defer st.Close()
			return d.Event().Execute(st.Context(t.Context()), 1)
		}
		_, err = run()
		require.ErrorContains(t, err, "the service is down")
		down = false
		_, err = run()
		require.ErrorContains(t, err, "the service is down", "reopened, it fails again")
		out, err := run(state.WithRerunFailed())
		require.NoError(t, err)
		assert.Equal(t, "up", out)
		assert.Equal(t, 1, good, "no finished call ran twice")
		assert.Equal(t, 2, bad)
		out, err = run()
		require.NoError(t, err)
		assert.Equal(t, "up", out)
	})
}

func TestValuesComeBackWithTheOutcomeOfTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "writer"}, func(ctx context.Context, v string) (string, error) {
			return v, state.Put(ctx, "key", v)
		})
		require.NoError(t, err)
		var early []bool
		agent, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ int) (string, error) {
			_, ok, err := state.Get[string](ctx, "key")
			if err != nil {
				return "", err
			}
			early = append(early, ok)
			if _, err := writer.Event().Execute(ctx, "value"); err != nil {
				return "", err
			}
			got, _, err := state.Get[string](ctx, "key")
			return got, err
		})
		require.NoError(t, err)
		whole := new(tape)
		run := func(s *tape) string {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			defer st.Close()
			out, err := agent.Event().Execute(st.Context(t.Context()), 1)
			require.NoError(t, err)
			got, ok, err := state.Get[string](st.Context(t.Context()), "key")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "value", got)
			return out
		}
		assert.Equal(t, "value", run(whole))
		n := slices.IndexFunc(whole.records, func(r record.Record) bool { return r.Name == "writer" && r.Status == record.StatusCompleted }) + 1
		assert.Equal(t, "value", run(whole.cut(n)))
		assert.Equal(t, "value", run(whole))
		assert.Equal(t, []bool{false, false}, early, "the value is visible only once the call that wrote it was recalled")
	})
}

func TestOutcomeThatCannotBeStoredIsNotASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(tape)
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (int, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fail = errors.New("no space left")
			return 1, nil
		})
		require.NoError(t, err)
		_, err = d.Event().Execute(st.Context(t.Context()), 1)
		require.ErrorIs(t, err, state.ErrStore)
		require.ErrorContains(t, err, "no space left")
		require.ErrorIs(t, st.Close(), state.ErrStore)
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())
	})
}
