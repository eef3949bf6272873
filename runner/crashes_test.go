package runner_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// crashed stores a run of the program "work" as a crashed process leaves it. The run has been restarted
// the given number of times in a row without an outcome.
func crashed(t *testing.T, store snapshot.Store, id string, restarts int) {
	t.Helper()
	input, err := record.Encode(word{id})
	require.NoError(t, err)
	info := snapshot.Info{
		RunID: id, Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptCrash},
		Program: "work", Version: "1", Restarts: restarts, Generation: uint64(restarts),
	}
	run, err := snapshot.NewRun(info, func(yield func(record.Record, error) bool) {
		yield(record.Record{RunID: id, Seq: 1, Time: time.Now(), Name: "work", Kind: record.KindRun, Status: record.StatusRecorded, Detail: &record.Detail{Input: input}}, nil)
	})
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
}

// busy counts the runs that execute at the same time.
type busy struct{ now, most atomic.Int32 }

func (b *busy) work(d time.Duration) {
	b.most.Store(max(b.most.Load(), b.now.Add(1)))
	sleep(d)
	b.now.Add(-1)
}

func TestSuspectsAreContinuedOneAtATimeUntilTheirFirstOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		const suspects, others = 10, 5
		for i := range suspects {
			crashed(t, store, fmt.Sprint("suspect-", i), 1)
		}
		for i := range others {
			crashed(t, store, fmt.Sprint("other-", i), 0)
		}
		var first, second, unsuspected busy
		ended := make(chan string, suspects+others)
		r := newRunner(t, store, runner.Options{Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeClosed {
				ended <- e.RunID
			}
		}})
		work := decorators.Tool("call", "", func(_ context.Context, in struct {
			Run  string
			Call int
		},
		) (string, error) {
			switch {
			case in.Run[0] == 'o':
				unsuspected.work(time.Minute)
			case in.Call == 1:
				first.work(time.Minute)
			default:
				second.work(time.Hour)
			}
			return "", nil
		})
		runner.Register(r, agent("work", func(ctx context.Context, in word) (string, error) {
			for call := range 2 {
				if _, err := work.Call(ctx, struct {
					Run  string
					Call int
				}{in.Text, call + 1}); err != nil {
					return "", err
				}
			}
			return "", nil
		}))
		began := time.Now()
		stop := serve(t, r)
		for range suspects + others {
			<-ended
		}
		took := time.Since(began)
		require.NoError(t, stop())
		assert.EqualValues(t, 1, first.most.Load(), "suspects without an outcome must not run at the same time")
		assert.EqualValues(t, suspects, second.most.Load(), "a suspect with an outcome does not delay others")
		assert.EqualValues(t, others, unsuspected.most.Load())
		assert.Less(t, took, suspects*time.Minute+time.Hour+time.Minute, "the next suspect begins as soon as the previous one has an outcome")
	})
}

func TestSuspectThatWaitsIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		crashed(t, store, "a", 1)
		crashed(t, store, "b", 1)
		began := make(chan string, 10)
		r := newRunner(t, store, runner.Options{SweepEvery: time.Second, Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeOpened {
				began <- e.RunID
			}
		}})
		runner.Register(r, agent("work", func(ctx context.Context, _ word) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}))
		stop := serve(t, r)
		sleep(time.Hour)
		first := <-began
		require.Empty(t, began, "the first run has no outcome")
		restarts := make(map[int]int)
		for _, id := range []string{"a", "b"} {
			info, err := r.Info(t.Context(), id)
			require.NoError(t, err)
			restarts[info.Restarts]++
		}
		assert.Equal(t, map[int]int{1: 1, 2: 1}, restarts)
		require.NoError(t, r.Interrupt(t.Context(), first, snapshot.Stop{By: "ops", Message: "it hangs"}))
		assert.NotEqual(t, first, <-began, "closing the run ends its turn")
		require.NoError(t, stop())
	})
}

func TestRunIsSetAsideWithTheInnermostCallsThatWereUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		crashed(t, store, "a", 5)
		found, err := store.Load(t.Context(), "a")
		require.NoError(t, err)
		records, err := found.Snapshot()
		require.NoError(t, err)
		for _, path := range []string{"work", "work/group:g", "work/group:g/1", "work/group:g/1/pay", "work/group:g/2", "work/done"} {
			a, err := record.ParseAddress(path)
			require.NoError(t, err)
			records.Records = append(records.Records, record.Record{
				Seq: uint64(len(records.Records)) + 1, Generation: 5, Time: time.Now(), Address: a, Name: "x", Kind: record.KindTool, Status: record.StatusStarted,
			})
		}
		last := records.Records[len(records.Records)-1]
		last.Seq, last.Status = last.Seq+1, record.StatusFailed
		last.WillRetry = true
		retrying := last.Retrying()
		retrying.Seq++
		records.Records = append(records.Records, last, retrying)
		require.NoError(t, store.Delete(t.Context(), "a"))
		run, err := records.Run()
		require.NoError(t, err)
		_, err = store.Create(t.Context(), run)
		require.NoError(t, err)

		seen := make(chan runner.Notice, 10)
		r := newRunner(t, store, runner.Options{Observe: func(e runner.Notice) { seen <- e }})
		runner.Register(r, agent("work", func(context.Context, word) (string, error) { panic("it runs") }))
		stop := serve(t, r)
		_, err = r.Wait(t.Context(), "a")
		require.ErrorIs(t, err, runner.ErrCrashLoop)
		want := snapshot.Stop{
			Reason: record.InterruptCrashLoop, Message: "the process ended 6 times in a row without an outcome; in progress: work/group:g/1/pay, work/group:g/2",
		}
		assert.Equal(t, want, (<-seen).Stop)
		assert.EqualValues(t, 1, r.Stats().CrashLoops)
		sleep(time.Hour)
		info, err := r.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, want, info.Stop, "no sweep continues the run")
		require.NoError(t, stop())
	})
}
