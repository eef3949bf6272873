package postgres_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
)

func TestStoreKeepsTheRulesOfStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) snapshot.Store { return open(t, postgres.Options{Schema: newSchema(t), Mute: true}) })
	storetest.RunArtifacts(t, func(t *testing.T) snapshot.ArtifactStore {
		return open(t, postgres.Options{Schema: newSchema(t), Mute: true})
	})
}

func TestStoreIsSharedByProcesses(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]bool{"with notifications": false, "by polling": true} {
		t.Run(name, func(t *testing.T) {
			storetest.RunShared(t, func(t *testing.T) func() snapshot.Store {
				o := postgres.Options{Schema: newSchema(t), Mute: mute, Poll: 100 * time.Millisecond}
				return func() snapshot.Store { return open(t, o) }
			})
		})
	}
}

func TestStoreAfterACrash(t *testing.T) {
	t.Parallel()
	storetest.RunCrash(t, func(t *testing.T) (snapshot.Store, func() snapshot.Store) {
		schema := newSchema(t)
		killed := open(t, postgres.Options{Schema: schema, Lease: time.Hour})
		return killed, func() snapshot.Store {
			postgres.Crash(killed)
			next := open(t, postgres.Options{Schema: schema})
			require.NoError(t, postgres.Expire(t.Context(), next, killed))
			return next
		}
	})
}

func TestAProcessThatLostItsRunsWritesNothing(t *testing.T) {
	t.Parallel()
	for range 10 {
		storetest.RunFencing(t, func(t *testing.T) (first, second snapshot.Store, takeAway func()) {
			schema := newSchema(t)
			zombie, next := open(t, postgres.Options{Schema: schema, Lease: time.Hour}), open(t, postgres.Options{Schema: schema})
			return zombie, next, func() { require.NoError(t, postgres.TakeAway(t.Context(), zombie, next)) }
		})
	}
}

func TestALostAnswerGoesUnnoticed(t *testing.T) {
	t.Parallel()
	storetest.RunLostAnswers(t, func(t *testing.T, next func() storetest.Fault) snapshot.Store {
		schema := newSchema(t)
		s, err := postgres.OpenFaulty(t.Context(), shared.pool, postgres.Options{Schema: schema, Mute: true}, next)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	})
}

func TestQueueKeepsTheRulesOfQueues(t *testing.T) {
	t.Parallel()
	queue := func(t *testing.T) runner.Queue { return open(t, postgres.Options{Schema: newSchema(t)}).Queue() }
	queuetest.Run(t, queue)
	queuetest.RunOrdered(t, queue)
	queuetest.RunShared(t, func(t *testing.T) func() runner.Queue {
		schema := newSchema(t)
		return func() runner.Queue { return open(t, postgres.Options{Schema: schema}).Queue() }
	})
}

// appends counts the statements that appended records.
type appends struct{ n atomic.Int64 }

func (a *appends) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.Contains(query.SQL, ".batches") {
		a.n.Add(1)
	}
	return ctx
}

func (*appends) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestRecordsOfConcurrentCallsShareAStatement(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	app, err := asApp(serverURL(t))
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(app)
	require.NoError(t, err)
	var all appends
	config.ConnConfig.Tracer = &all
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := openOn(t, pool, postgres.Options{Schema: schema, Mute: true})
	st, err := state.Open(t.Context(), s, "run")
	require.NoError(t, err)
	const callers, calls = 16, 20
	tool := decorators.Tool("double", "", func(_ context.Context, in transfer) (int, error) { return 2 * in.N, nil })
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for n := range calls {
				_, err := tool.Call(st.Context(t.Context()), transfer{"run", n})
				assert.NoError(t, err)
			}
		})
	}
	wait.Wait()
	require.NoError(t, st.Close())
	t.Logf("%d statements", all.n.Load())
	assert.Less(t, all.n.Load(), int64(callers*calls/2))
}

// A run is stored together with its job, because its process may be killed before it can add the
// job separately.
func TestARunIsStoredWithItsJob(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	s, other := open(t, postgres.Options{Schema: schema}), open(t, postgres.Options{Schema: schema})
	program := runner.ProgramID{Name: "p", Version: "1"}
	create := func(id string) {
		run, err := snapshot.NewRun(snapshot.Info{RunID: id, Status: snapshot.StatusQueued, Program: program.Name, Version: program.Version, Priority: 7}, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
	}
	create("without-a-queue")
	queue := s.Queue()
	create("queued")
	taken, err := other.Queue().Take(t.Context(), []runner.ProgramID{program}, 10)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	assert.Equal(t, "queued", taken[0].Entry().RunID)
	assert.Equal(t, 7, taken[0].Entry().Priority)
	fresh := taken[0].Entry()
	fresh.Fresh = true
	added, err := queue.Add(t.Context(), fresh)
	require.NoError(t, err)
	assert.True(t, added)
	require.NoError(t, taken[0].Done(t.Context()))
	added, err = queue.Add(t.Context(), taken[0].Entry()) // the run has no job now
	require.NoError(t, err)
	assert.True(t, added)
	taken, err = other.Queue().Take(t.Context(), []runner.ProgramID{program}, 10)
	require.NoError(t, err)
	require.Len(t, taken, 1)
}
