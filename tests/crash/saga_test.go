package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// saga returns an agent that makes bookings sequentially, in a nested agent, and in a group, and
// then fails. The first attempt of every third compensation fails.
func saga(say func(string, ...any) error) (agent actors.Agent[order, int], book actors.Tool[order, int]) {
	often := core.RetryConfig{MaxAttempts: maxAttempts, InitialDelay: 2 * time.Millisecond, MaxDelay: 2 * time.Millisecond}
	book = decorators.Tool("book", "", func(ctx context.Context, in order) (int, error) {
		return 10 * in.N, say("book %d %s", in.N, attemptOf(ctx))
	}, actors.WithRetry(often)).Compensate(func(ctx context.Context, in order, out int) error {
		if err := say("undo %d %s %d", in.N, attemptOf(ctx), out); err != nil {
			return err
		}
		if in.N%3 == 0 && core.ScopeOf(ctx).Attempt() == 0 {
			return core.Retryable(errors.New("not yet"))
		}
		return nil
	}).CompensateInDoubt(func(_ context.Context, in order) error { // never called: each call is repeated until it completes
		return say("doubt %d", in.N)
	})
	row := func(ctx context.Context, from int) error {
		for i := range 3 {
			if _, err := book.Call(ctx, order{from + i}); err != nil {
				return err
			}
		}
		return nil
	}
	inner := decorators.Agent("inner", "", func(ctx context.Context, in order) (int, error) { return 0, row(ctx, in.N) })
	return decorators.Agent("outer", "", func(ctx context.Context, _ order) (int, error) {
		if err := row(ctx, 1); err != nil {
			return 0, err
		}
		if _, err := inner.Call(ctx, order{4}); err != nil {
			return 0, err
		}
		// There is only one worker, so that the calls complete in a known order.
		if _, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 1}, book, []order{{7}, {8}, {9}}); err != nil {
			return 0, err
		}
		return 0, errSoldOut
	}), book
}

var errSoldOut = errors.New("sold out")

// bookAndUndo is the program that is killed.
func bookAndUndo(args ...string) error {
	dir := args[0]
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	say := logIn(dir)
	agent, book := saga(say)
	st, err := state.Open(context.Background(), store, "run-1", state.WithMaxLosses(core.Unlimited), state.WithCompensations(book))
	if err != nil {
		return err
	}
	_, err = agent.Call(st.Context(context.Background()), order{})
	if err := st.Close(); err != nil {
		return err
	}
	return say("result %v", err)
}

func TestKilledCompensationContinuesAndRepeatsNothing(t *testing.T) {
	campaign(t, "saga", 200, checkSaga)
}

// checkSaga checks the log and the stored run of bookAndUndo.
func checkSaga(t *testing.T, dir string) {
	t.Helper()
	made := make(map[string]int) // by attempt
	var undone []string
	for _, line := range logged(t, dir) {
		words := strings.Fields(line)
		if words[0] == "result" {
			assert.Equal(t, "result outer: permanent: sold out", line)
			continue
		}
		require.NotEqual(t, "doubt", words[0])
		made[words[2]]++
		if words[0] != "undo" {
			assert.Empty(t, undone, "booked after something was undone: %s", line)
			continue
		}
		assert.Equal(t, words[1]+"0", words[3])
		// A compensation begins only after the previous one has an outcome, and then the previous
		// one never runs again.
		if len(undone) == 0 || undone[len(undone)-1] != words[1] {
			undone = append(undone, words[1])
		}
	}
	assert.Equal(t, []string{"9", "8", "7", "6", "5", "4", "3", "2", "1"}, undone)

	store, err := filestore.New(dir)
	require.NoError(t, err)
	found := testkit.LoadRun(t, store, "run-1")
	assert.Equal(t, snapshot.StatusFailed, found.Status)
	var outcomes []string
	for i := range found.Records {
		if r := &found.Records[i]; r.Kind == record.KindCompensation && r.IsOutcome() {
			outcomes = append(outcomes, fmt.Sprint(r.Address, " ", r.Status))
		}
	}
	checkAttempts(t, found, made)
	assert.Len(t, outcomes, 9)
	assert.False(t, slices.ContainsFunc(outcomes, func(s string) bool { return !strings.HasSuffix(s, " completed") }))
}
