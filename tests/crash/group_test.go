package crash

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// items is the number of items in the group.
const items = 24

// collect is the program that is killed. Its items are retried independently, and release their
// slots while they wait. A loop receives the items as they finish.
func collect(args ...string) error {
	dir := args[0]
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	st, err := state.Open(context.Background(), store, "run-1", state.WithMaxLosses(core.Unlimited))
	if err != nil {
		return err
	}
	say := logIn(dir)
	often := core.RetryConfig{MaxAttempts: maxAttempts, InitialDelay: 3 * time.Millisecond, MaxDelay: 3 * time.Millisecond}
	item := decorators.Tool("item", "", func(ctx context.Context, in order) (int, error) {
		attempt := core.ScopeOf(ctx).Attempt()
		if err := say("run %d %s", in.N, attemptOf(ctx)); err != nil {
			return 0, err
		}
		if in.N%4 == 0 && attempt == 0 {
			return 0, core.Retryable(errors.New("not yet"))
		}
		return in.N, nil
	}, actors.WithRetry(often))
	var all []order
	for i := range items {
		all = append(all, order{i})
	}
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ order) (int, error) {
		sum := 0
		for out, err := range actors.MapSeq(ctx, actors.Group{Name: "items", Workers: 4, YieldWaits: true}, item, all) {
			if err != nil {
				return 0, err
			}
			sum += out.Output
			if err := say("ack %d", out.Output); err != nil {
				return 0, err
			}
		}
		return sum, nil
	})
	sum, err := agent.Call(st.Context(context.Background()), order{})
	if err := errors.Join(err, st.Close()); err != nil {
		return err
	}
	return say("result %d", sum)
}

func TestKilledGroupContinuesWithItsUnfinishedItems(t *testing.T) {
	campaign(t, "group", 200, checkGroup)
}

// checkGroup checks the log and the stored run of collect.
func checkGroup(t *testing.T, dir string) {
	t.Helper()
	made, acked := make(map[string]int), make(map[string]bool)
	for _, line := range logged(t, dir) {
		words := strings.Fields(line)
		switch words[0] {
		case "run":
			assert.False(t, acked[words[1]], "item %s ran again after the loop had received it", words[1])
			made[words[2]]++
		case "ack":
			acked[words[1]] = true
		case "result":
			assert.Equal(t, "276", words[1])
		}
	}
	assert.Len(t, acked, items)
	store, err := filestore.New(dir)
	require.NoError(t, err)
	found := testkit.LoadRun(t, store, "run-1")
	assert.Equal(t, snapshot.StatusCompleted, found.Status)
	checkAttempts(t, found, made)
}
