package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// deniedArtifacts is a store that cannot write artifacts while denied is set.
type deniedArtifacts struct {
	*memstore.Store
	denied atomic.Bool
}

func (s *deniedArtifacts) Put(ctx context.Context, data []byte) (string, error) {
	if s.denied.Load() {
		return "", errors.New("permission denied")
	}
	return s.Store.Put(ctx, data)
}

// A person answers that a call in doubt has completed, but its output cannot be stored. The run
// must not remain paused, because there is no open question with which it could be continued.
func TestARunWhoseAnswerCannotBeStoredIsInterrupted(t *testing.T) {
	for _, root := range []string{"pay", "agent"} {
		t.Run(root, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &deniedArtifacts{Store: memstore.New()}
				pay := decorators.Tool("pay", "", func(context.Context, word) (string, error) {
					return "", core.InDoubt(errors.New("no reply"))
				}, actors.WithIrreversible())
				r := newRunner(t, store, runner.Options{})
				question := "pay?in-doubt1"
				if root == "pay" {
					runner.Register(r, pay)
				} else {
					question = "agent/pay?in-doubt1"
					runner.Register(r, agent("agent", pay.Call))
				}
				defer serve(t, r)()
				_, err := r.Start(t.Context(), root, "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
				sleep(time.Minute)
				store.denied.Store(true)
				require.NoError(t, r.Answer(t.Context(), "a", question, "", state.InDoubtCompleted(strings.Repeat("r", 100_000))))
				sleep(time.Minute)
				info, err := store.Info(t.Context(), "a")
				require.NoError(t, err)
				require.Equal(t, snapshot.StatusInterrupted, info.Status)

				store.denied.Store(false)
				require.NoError(t, r.Resume(t.Context(), "a"))
				sleep(time.Minute)
				info, err = store.Info(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusCompleted, info.Status)
			})
		})
	}
}
