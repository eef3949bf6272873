package conversation_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A turn that continues reads the turns before it again.
func TestRetentionKeepsTheTurnsBeforeOneThatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := runner.New(memstore.New(), runner.Options{Retention: runner.Retention{Age: time.Minute, Every: time.Minute}})
		require.NoError(t, err)
		program := setup(&model{}, func(ctx context.Context) (string, error) { return "seen", core.Sleep(ctx, time.Hour) })
		runner.Register(r, conversation.NewProgram(r.Store(), program))
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- r.Serve(ctx) }()
		for _, text := range []string{"one", "two"} {
			turn, err := conversation.Next(ctx, r.Store(), "ann", actors.Ask(text), 0)
			require.NoError(t, err)
			_, err = r.Start(ctx, "assistant", turn.RunID, turn.Input, runner.StartOptions{Metadata: turn.Metadata})
			require.NoError(t, err)
			info, err := r.Wait(ctx, turn.RunID)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status, "%v", info.Stop)
		}
		<-time.After(time.Hour)
		page, err := r.List(ctx, snapshot.Filter{})
		require.NoError(t, err)
		assert.Empty(t, page.Runs)
		cancel()
		require.NoError(t, <-served)
	})
}
