package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

const (
	askedRun = "run-1"
	question = "ask?1"
)

// asking returns a tool that waits for an answer.
func asking(t testing.TB) *testkit.Definition {
	return testkit.Tool(t, "ask", once, func(ctx context.Context, _ string) (string, error) {
		return core.Await[string](ctx, "what?")
	})
}

func openRun(t testing.TB, store snapshot.Store, options ...state.Option) *state.ExecutionState {
	t.Helper()
	st, err := state.Open(t.Context(), store, askedRun, options...)
	require.NoError(t, err)
	return st
}

// paused returns a store with a run that waits for an answer.
func paused(t testing.TB) *memstore.Store {
	t.Helper()
	s := memstore.New()
	_, err := resume(t, s)
	require.ErrorIs(t, err, core.ErrAwaiting)
	return s
}

// resume opens the run, makes its call and closes it.
func resume(t testing.TB, s snapshot.Store) (string, error) {
	t.Helper()
	st := openRun(t, s)
	out, err := testkit.Call(st.Context(t.Context()), asking(t))
	require.NoError(t, st.Close())
	return out, err
}

func answer(t testing.TB, s snapshot.Store, value string) error {
	t.Helper()
	return state.Answer(t.Context(), s, askedRun, question, "", value)
}

// recordedAnswers returns the answers that are recorded in the store, and the number of waiting
// messages.
func recordedAnswers(t testing.TB, s snapshot.Store) (values []string, waiting int) {
	t.Helper()
	found := testkit.LoadRun(t, s, askedRun)
	for i := range found.Records {
		if r := &found.Records[i]; r.Kind == record.KindAnswer {
			var value string
			require.NoError(t, record.Decode(r.Encoded(), &value))
			values = append(values, value)
		}
	}
	all, err := s.(snapshot.Inbox).Messages(t.Context(), askedRun)
	require.NoError(t, err)
	return values, len(all)
}

func TestAnswerReachesARunThatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		st := openRun(t, s)
		ctx := st.Context(t.Context())
		slow := testkit.Tool(t, "slow", once, testkit.Listening(time.Hour))
		program := func(ctx context.Context) ([]string, error) {
			return actors.Parallel(ctx, actors.Group{Name: "g"}, calling(slow), calling(asking(t)))
		}
		var wait sync.WaitGroup
		wait.Go(func() { // another call is still running
			_, err := program(ctx)
			assert.ErrorIs(t, err, core.ErrAwaiting)
		})
		synctest.Wait()
		const id = "group:g/2/ask?1"
		require.NoError(t, state.Answer(t.Context(), s, askedRun, id, "ann", "this"))
		synctest.Wait()
		assert.Empty(t, testkit.Questions(t, st), "the owner has recorded the answer")
		require.ErrorIs(t, state.Answer(t.Context(), s, askedRun, id, "", "that"), state.ErrAnswered)
		require.ErrorIs(t, state.Answer(t.Context(), s, askedRun, "ask?9", "", "that"), state.ErrNotAsked)
		wait.Wait()
		require.NoError(t, st.Close())
		values, waiting := recordedAnswers(t, s)
		assert.Equal(t, []string{"this"}, values)
		assert.Zero(t, waiting)
		given := testkit.LoadRun(t, s, askedRun).Records
		assert.Equal(t, "ann", given[slices.IndexFunc(given, func(r record.Record) bool { return r.Kind == record.KindAnswer })].AnsweredBy())

		st = openRun(t, s)
		defer st.Close()
		out, err := program(st.Context(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []string{"out", "this"}, out)
	})
}

func TestWaitingAnswersAreRecordedBeforeAnythingRuns(t *testing.T) {
	s := paused(t)
	owner := openRun(t, s)
	require.NoError(t, answer(t, s, "this"))
	after := afterCrash(t, s) // the owner may or may not have recorded the answer
	require.NoError(t, owner.Close())

	open, err := state.Questions(t.Context(), after, askedRun)
	require.NoError(t, err)
	assert.Empty(t, open, "a question with a waiting answer is not open")
	require.ErrorIs(t, answer(t, after, "that"), state.ErrAnswered)
	out, err := resume(t, after)
	require.NoError(t, err)
	assert.Equal(t, "this", out)
	values, waiting := recordedAnswers(t, after)
	assert.Equal(t, []string{"this"}, values)
	assert.Zero(t, waiting)
}

// A crash between recording an answer and removing its message leaves both.
func TestAnswerThatACrashHasLeftInTheInboxIsRecordedOnce(t *testing.T) {
	for _, again := range []func(*memstore.Store){
		func(s *memstore.Store) { resume(t, s) },
		func(s *memstore.Store) {
			require.ErrorIs(t, answer(t, s, "that"), state.ErrAnswered)
			resume(t, s)
		},
	} {
		s := paused(t)
		require.NoError(t, answer(t, s, "this"))
		require.NoError(t, openRun(t, s).Close()) // the opening records the answer
		found := testkit.LoadRun(t, s, askedRun).Records
		at := slices.IndexFunc(found, func(r record.Record) bool { return r.Kind == record.KindAnswer })
		require.Positive(t, at)
		last := found[at]
		last.Seq, last.RunID, last.Generation = 0, "", 0
		require.NoError(t, s.Post(t.Context(), askedRun, snapshot.Message{Record: last}))
		again(s)
		values, waiting := recordedAnswers(t, s)
		assert.Equal(t, []string{"this"}, values)
		assert.Zero(t, waiting)
	}
}

func TestAnswerToAQuestionThatIsNotAskedYetWaits(t *testing.T) {
	s := memstore.New()
	require.NoError(t, openRun(t, s).Close())
	value, err := record.Encode("this")
	require.NoError(t, err)
	require.NoError(t, s.Post(t.Context(), askedRun, snapshot.Message{Record: record.Record{
		Time: time.Now(), Name: question, Kind: record.KindAnswer, Status: record.StatusRecorded, Detail: &record.Detail{Output: value},
	}}))
	_, err = resume(t, s)
	require.ErrorIs(t, err, core.ErrAwaiting)
	out, err := resume(t, s)
	require.NoError(t, err)
	assert.Equal(t, "this", out)
}

func TestOneOfManyAnswersWins(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint("open: ", open), func(t *testing.T) {
			s := paused(t)
			var owner *state.ExecutionState
			if open {
				owner = openRun(t, s)
			}
			won := race(t, s, 20)
			if open {
				require.NoError(t, owner.Close())
			}
			out, err := resume(t, s)
			require.NoError(t, err)
			assert.Equal(t, []string{out}, won, "the only sender whose answer was accepted")
			values, waiting := recordedAnswers(t, s)
			assert.Equal(t, values, won)
			assert.Zero(t, waiting)
		})
	}
}

// race lets n goroutines answer, and returns the answers that were accepted.
func race(t *testing.T, s snapshot.Store, n int) (won []string) {
	t.Helper()
	var wait sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		wait.Go(func() {
			value := fmt.Sprint("answer ", i)
			err := answer(t, s, value)
			if err == nil {
				mu.Lock()
				won = append(won, value)
				mu.Unlock()
			} else if !errors.Is(err, state.ErrAnswered) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	return won
}

func TestOneAnswerWinsWhileTheRunIsOpenedAndClosed(t *testing.T) {
	for range 50 {
		s := paused(t)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					st, err := state.Open(t.Context(), s, askedRun, state.WithWait())
					if err != nil {
						t.Error(err)
						return
					}
					st.Close()
				}
			}
		}()
		won := race(t, s, 4)
		close(stop)
		<-stopped
		out, err := resume(t, s)
		require.NoError(t, err)
		require.Equal(t, []string{out}, won)
	}
}

// deafStore is a store with an inbox that cannot be read.
type deafStore struct{ *memstore.Store }

var errDeaf = errors.New("the inbox is gone")

func (deafStore) Messages(context.Context, string) ([]snapshot.Message, error) { return nil, errDeaf }

func TestRunContinuesIfItsInboxFails(t *testing.T) {
	s := deafStore{memstore.New()}
	st := openRun(t, s)
	out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "t", once, testkit.Succeed))
	testkit.Completed(t, out, err)
	require.NoError(t, st.Close())
	logs := kinds(t, st, record.KindLog)
	require.Len(t, logs, 1, "the failure is logged once")
	require.ErrorContains(t, errors.New(logs[0].Message()), errDeaf.Error())
}

// afterCrash returns the store as another process would find it if this process ended now.
func afterCrash(t *testing.T, s snapshot.Store) *memstore.Store {
	t.Helper()
	// The owner records an answer before it removes the message. So the messages are read first:
	// otherwise an answer that is recorded in between would be in neither the messages nor the run.
	messages, err := s.Messages(t.Context(), askedRun)
	require.NoError(t, err)
	run, err := s.Load(t.Context(), askedRun)
	require.NoError(t, err)
	after := memstore.New()
	_, err = after.Create(t.Context(), run)
	require.NoError(t, err)
	for _, m := range messages {
		require.NoError(t, after.Post(t.Context(), askedRun, m))
	}
	return after
}

// A failingInbox cannot be read while fails is set.
type failingInbox struct {
	snapshot.Store
	fails atomic.Bool
	reads atomic.Int64 // that failed
}

func (s *failingInbox) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	if s.fails.Load() {
		s.reads.Add(1)
		return nil, snapshot.ErrUnavailable
	}
	return s.Store.Messages(ctx, runID)
}

func TestTheInboxIsReadAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failingInbox{Store: memstore.New()}
		st := openRun(t, s)
		returned := make(chan error, 1)
		go func() {
			_, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Listening(24*time.Hour)))
			returned <- err
		}()
		synctest.Wait()
		s.fails.Store(true)
		require.NoError(t, state.Interrupt(t.Context(), s, askedRun, snapshot.Stop{By: "ops"}))
		time.Sleep(time.Hour) //nolint:forbidigo // in the bubble's time
		assert.Equal(t, int64(65), s.reads.Load(), "once a minute, after six shorter delays")
		s.fails.Store(false)
		passed := testkit.Stopwatch()
		require.ErrorIs(t, <-returned, core.ErrInterrupted)
		assert.LessOrEqual(t, passed(), time.Minute)
		require.NoError(t, st.Close())
	})
}
