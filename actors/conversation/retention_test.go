package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// serve runs an agent in a runner until the end of the test, and returns a function that runs the
// next turn of a conversation. It uses the test's fake clock.
func serve(t *testing.T, agent conversation.Agent, retention runner.Retention) (r *runner.Runner, say func(text string) snapshot.Info) {
	r, err := runner.New(memstore.New(), runner.Options{Retention: retention})
	require.NoError(t, err)
	runner.Register(r, conversation.NewProgram(r.Store(), agent))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- r.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	return r, func(text string) snapshot.Info {
		turn, err := conversation.Next(ctx, r.Store(), "ann", actors.Ask(text), 0)
		require.NoError(t, err)
		_, err = r.Start(ctx, "assistant", turn.RunID, turn.Input, runner.StartOptions{Metadata: turn.Metadata})
		require.NoError(t, err)
		info, err := r.Wait(ctx, turn.RunID)
		require.NoError(t, err)
		<-time.After(time.Second) // so that the turns have different times
		return info
	}
}

// A turn that continues rereads the turns before it.
func TestRetentionKeepsTheTurnsBeforeOneThatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := setup(new(model), func(ctx context.Context) (string, error) { return "seen", core.Sleep(ctx, time.Hour) })
		r, say := serve(t, agent, runner.Retention{Age: time.Minute, Every: time.Minute})
		for _, text := range []string{"one", "two"} {
			info := say(text)
			assert.Equal(t, snapshot.StatusCompleted, info.Status, "%v", info.Stop)
		}
		<-time.After(time.Hour)
		page, err := r.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		assert.Empty(t, page.Runs)
	})
}

// A failed turn that is retried rereads the turns before it.
func TestRetentionKeepsTheTurnsBeforeOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, broken := new(model), error(nil)
		agent := setup(m, func(context.Context) (string, error) { m.fail = broken; return "seen", nil })
		r, say := serve(t, agent, runner.Retention{Runs: 1, Every: time.Minute})
		kept := func() (ids []string) {
			<-time.After(time.Hour)
			page, err := r.List(t.Context(), snapshot.Filter{Sort: snapshot.SortCreated, Ascending: true})
			require.NoError(t, err)
			for i := range page.Runs {
				ids = append(ids, page.Runs[i].RunID)
			}
			return ids
		}
		say("one")
		broken = errors.New("the key is wrong")
		require.Equal(t, snapshot.StatusFailed, say("two").Status)
		m.fail, broken = nil, nil
		assert.Equal(t, []string{"ann-0001", "ann-0002"}, kept())
		_, err := r.Store().Update(t.Context(), "ann-0002", func(i *snapshot.Info) error { i.Pinned = true; return nil })
		require.NoError(t, err)
		say("three")
		say("four")
		assert.Equal(t, []string{"ann-0001", "ann-0002", "ann-0004"}, kept())

		require.NoError(t, r.Retry(t.Context(), "ann-0002"))
		assert.Equal(t, []string{"ann-0002", "ann-0004"}, kept())
		info, err := r.Info(t.Context(), "ann-0002")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status, "%v", info.Stop)
	})
}

// A lagging store does not list runs that were created after a given time. It also counts the calls
// of List.
type lagging struct {
	snapshot.Store
	until time.Time
	lists int
}

func (s *lagging) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	s.lists++
	page, err := s.Store.List(ctx, f)
	page.Runs = slices.DeleteFunc(page.Runs, func(i snapshot.Info) bool { return i.Created.After(s.until) })
	return page, err
}

// Any of the first three of four turns are removed, and then one of the remaining turns may change.
func TestNextTurnFollowsTheLastOneWhateverWasRemoved(t *testing.T) {
	const turns = 4
	runID := func(turn int) string { return fmt.Sprintf("ann-%04d", turn) }
	for removed := range 1 << (turns - 1) {
		isRemoved := func(turn int) bool { return removed>>(turn-1)&1 == 1 }
		for changed := range turns { // 0 means none
			if changed > 0 && isRemoved(changed) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				store := &lagging{Store: memstore.New(), until: time.Now().Add(time.Hour)}
				for range turns {
					chat, err := conversation.Open(t.Context(), store, "ann", setup(new(model), sees))
					require.NoError(t, err)
					_, err = chat.Ask(t.Context(), "hello")
					require.NoError(t, err)
					<-time.After(time.Second)
				}
				for turn := 1; turn < turns; turn++ {
					if isRemoved(turn) {
						require.NoError(t, store.Delete(t.Context(), runID(turn)))
					}
				}
				if changed > 0 {
					_, err := store.Update(t.Context(), runID(changed), func(i *snapshot.Info) error { i.Pinned = true; return nil })
					require.NoError(t, err)
				}
				store.lists = 0
				next, err := conversation.Next(t.Context(), store, "ann", actors.Ask("hello"), 0)
				require.NoError(t, err)
				assert.Equal(t, turns+1, next.Number, "removed %b, changed %d", removed, changed)
				assert.LessOrEqual(t, store.lists, min(1+changed, 2))

				if removed == 0 {
					store.until = store.until.Add(-time.Hour + time.Second) // lists only the first two turns
					next, err = conversation.Next(t.Context(), store, "ann", actors.Ask("hello"), 0)
					require.NoError(t, err)
					assert.Equal(t, turns+1, next.Number)
				}
			})
		}
	}
}

// Retention.Bytes removes a large turn but keeps the small ones around it.
func TestTurnAfterAHoleHasTheHistorySinceTheHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := actors.NewAgent("assistant", actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
			var texts []string
			for _, m := range req.Messages {
				if m.Role == actors.RoleUser {
					texts = append(texts, m.Text[:3])
				}
			}
			return actors.Response{Message: actors.Assistant(strings.Join(texts, ","))}, nil
		}))
		r, say := serve(t, says, runner.Retention{Bytes: 8 << 10, Every: time.Minute})
		say("one")
		say("two" + strings.Repeat(" big", 5000))
		say("three")
		<-time.After(time.Hour)
		_, err := r.Info(t.Context(), "ann-0002")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
		say("four")
		say("five")
		turns, err := conversation.Read(t.Context(), r.Store(), "ann", 1)
		require.NoError(t, err)
		assert.Equal(t, 5, turns[0].Number)
		assert.Equal(t, "thr,fou,fiv", turns[0].Answer)
	})
}

// A stale store still lists a run that was removed.
type stale struct {
	snapshot.Store
	removed string
}

func (s *stale) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	if runID == s.removed {
		return snapshot.Info{}, snapshot.ErrNotFound
	}
	return s.Store.Info(ctx, runID)
}

func TestTurnThatIsRemovedAfterItWasListedIsSkipped(t *testing.T) {
	store := &stale{Store: memstore.New()}
	chat, err := conversation.Open(t.Context(), store, "ann", setup(new(model), sees))
	require.NoError(t, err)
	for range 2 {
		_, err = chat.Ask(t.Context(), "hello")
		require.NoError(t, err)
	}
	first := len(chat.History()) / 2
	store.removed = "ann-0002"
	next, err := conversation.Next(t.Context(), store, "ann", actors.Ask("hello"), 0)
	require.NoError(t, err)
	assert.Equal(t, "1", next.Metadata.Custom["conversation.after"])
	chat, err = conversation.Open(t.Context(), store, "ann", setup(new(model), sees))
	require.NoError(t, err)
	assert.Len(t, chat.History(), first)
	_, err = conversation.Read(t.Context(), store, "ann", 1)
	require.ErrorIs(t, err, snapshot.ErrNotFound)
}
