package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// overtaken is a store that completes a run just before this process opens it, as if another
// process had done so.
type overtaken struct {
	snapshot.Store
	complete func()
}

func (s *overtaken) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	s.complete()
	return s.Store.Open(ctx, runID, o)
}

// TestRunThatAnotherHasEndedIsNotOpened checks that this process does not open a run that another
// process has ended. If it opened the run and were then killed, the run would be interrupted,
// although lists show it as completed.
func TestRunThatAnotherHasEndedIsNotOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		complete := sync.OnceFunc(func() { // the queue may have the run twice: from Start, and from the sweep
			j, err := store.Open(t.Context(), "a", snapshot.OpenOptions{})
			require.NoError(t, err)
			require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
		})
		r := newRunner(t, &overtaken{store, complete}, runner.Options{Observe: func(e runner.Notice) {
			assert.NotEqual(t, runner.NoticeTrouble, e.Type, "%v", e)
		}})
		runner.Register(r, agent("never", func(context.Context, word) (string, error) {
			t.Error("the program must not run")
			return "", nil
		}))
		defer serve(t, r)()
		_, err := r.Start(t.Context(), "never", "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.EqualValues(t, 1, info.Generation, "this process must not open the run")
	})
}

// A wrappingError panics if its receiver is nil.
type wrappingError struct{ cause error }

func (e *wrappingError) Error() string { return e.cause.Error() }
func (e *wrappingError) Unwrap() error { return e.cause }

func TestErrorThatIsANilPointerFailsItsRunAndNotTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		program := runner.Register(r, agent("fail", func(context.Context, word) (string, error) { return "", (*wrappingError)(nil) }))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusFailed, info.Status)
	})
}

// The notice of a failed run says why the run failed, even if the text of the error cannot be read.
func TestNoticeOfAFailedRunHasItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed runner.Notice
		r := newRunner(t, memstore.New(), runner.Options{Observe: func(n runner.Notice) {
			if n.Type == runner.NoticeClosed {
				closed = n
			}
		}})
		outOfInk := errors.New("out of ink")
		runner.Register(r, agent("fail", func(_ context.Context, in word) (string, error) {
			if in.Text == "nil" {
				return "", (*wrappingError)(nil)
			}
			return "", outOfInk
		}))
		defer serve(t, r)()
		_, err := r.Start(t.Context(), "fail", "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, snapshot.StatusFailed, closed.Status)
		assert.ErrorIs(t, closed.Err, outOfInk)
		assert.Contains(t, closed.String(), "out of ink")
		_, err = r.Start(t.Context(), "fail", "b", word{"nil"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, "b", closed.RunID)
		assert.Equal(t, "closed run b of fail 1: failed: fail: permanent: <nil>", closed.String())
	})
}
