package conversation_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// slowStore delays storing the end of a run until the test allows it.
type slowStore struct {
	snapshot.Store
	let chan struct{}
}

type slowJournal struct {
	snapshot.Journal
	let chan struct{}
}

func (s *slowStore) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	journal, err := s.Store.Open(ctx, runID, o)
	if err != nil {
		return nil, err
	}
	return &slowJournal{journal, s.let}, nil
}

func (j *slowJournal) Close(ctx context.Context, end snapshot.End) error {
	if end.Status != snapshot.StatusRunning && end.Status != "" {
		<-j.let
	}
	return j.Journal.Close(ctx, end)
}

// A client that has seen the end of a turn, such as run_cancelled in its stream, may
// send the next message before the end is stored. The next turn waits until it is
// stored.
func TestNextTurnWaitsUntilTheEndOfTheLastIsStored(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, r *runner.Runner) error{
		"cancelled": func(ctx context.Context, r *runner.Runner) error {
			return r.Cancel(ctx, "ann-0001", snapshot.Stop{By: "ann"})
		},
		"failed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowStore{memstore.New(), make(chan struct{})}
				r, err := runner.New(store, runner.Options{Grace: -1})
				require.NoError(t, err)
				runner.Register(r, conversation.NewProgram(store, setup(&model{}, func(ctx context.Context) (string, error) {
					if end == nil {
						return "", errors.New("broken")
					}
					<-ctx.Done()
					return "", ctx.Err()
				})))
				ctx, cancel := context.WithCancel(t.Context())
				var working sync.WaitGroup
				defer working.Wait()
				defer cancel()
				working.Go(func() { assert.NoError(t, r.Serve(ctx)) })
				start(t, r, "one")
				synctest.Wait()
				if end != nil {
					require.NoError(t, end(ctx, r))
					synctest.Wait()
				}
				returned := make(chan error, 1)
				working.Go(func() {
					turn, err := conversation.Next(ctx, store, "ann", actors.Ask("two"), 0)
					assert.Equal(t, 2, turn.Number)
					returned <- err
				})
				synctest.Wait()
				assert.Empty(t, returned, "it waits")
				close(store.let)
				require.NoError(t, <-returned)
			})
		})
	}
}

func start(t *testing.T, r *runner.Runner, text string) {
	t.Helper()
	turn, err := conversation.Next(t.Context(), r.Store(), "ann", actors.Ask(text), 0)
	require.NoError(t, err)
	_, err = r.Start(t.Context(), "assistant", turn.RunID, turn.Input, runner.StartOptions{Metadata: turn.Metadata})
	require.NoError(t, err)
}

// dieAtTheEnd runs a turn in a directory. It kills its own process after the completion of the turn
// is published and before it is stored.
func dieAtTheEnd(args ...string) error {
	dies := publisher(func(rec record.Record) {
		if rec.Kind == record.KindRun && rec.Status == record.StatusCompleted {
			os.Exit(3)
		}
	})
	r, err := newRunner(args[0], state.WithPublisher(dies))
	if err != nil {
		return err
	}
	ctx := context.Background()
	turn, err := conversation.Next(ctx, r.Store(), "ann", actors.Ask("one"), 0)
	if err != nil {
		return err
	}
	if _, err := r.Start(ctx, "assistant", turn.RunID, turn.Input, runner.StartOptions{Metadata: turn.Metadata}); err != nil {
		return err
	}
	return r.Serve(ctx)
}

func newRunner(dir string, options ...state.Option) (*runner.Runner, error) {
	store, err := filestore.New(dir)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(store, runner.Options{Run: options})
	if err != nil {
		return nil, err
	}
	runner.Register(r, conversation.NewProgram(store, setup(&model{}, sees)))
	return r, nil
}

func TestNextTurnWaitsForOneWhoseProcessWasKilledAtItsEnd(t *testing.T) {
	dir := t.TempDir()
	cmd := process.Command(t, "die at the end", dir)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 3, cmd.ProcessState.ExitCode(), "%s", out)
	r, err := newRunner(dir)
	require.NoError(t, err)
	info, err := r.Info(t.Context(), "ann-0001")
	require.NoError(t, err)
	require.Equal(t, record.InterruptCrash, info.Stop.Reason)
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	working.Go(func() {
		turn, err := conversation.Next(ctx, r.Store(), "ann", actors.Ask("two"), 0)
		assert.NoError(t, err)
		assert.Equal(t, 2, turn.Number)
		cancel()
	})
	assert.NoError(t, r.Serve(ctx))
}
