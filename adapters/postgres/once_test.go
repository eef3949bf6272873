package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

type transfer struct {
	Run string `json:"run"`
	N   int    `json:"n"`
}

// A bank is a table of transfers in a store's database.
type bank struct {
	t      *testing.T
	schema string
	table  string
	admin  *pgx.Conn
}

func newBank(t *testing.T) *bank {
	schema := newSchema(t)
	admin, err := pgx.Connect(t.Context(), serverURL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) }) //nolint:usetesting // in a cleanup
	b := &bank{t, schema, pgx.Identifier{schema, "transfers"}.Sanitize(), admin}
	_, err = admin.Exec(t.Context(), `drop table if exists `+b.table+`; create table `+b.table+` (id bigint generated always as identity, run text, n int);
		grant select, insert on `+b.table+` to reprise_app`)
	require.NoError(t, err)
	return b
}

// move makes a transfer in a transaction.
func (b *bank) move(ctx context.Context, s *postgres.Store, in transfer) (int, error) {
	return postgres.Once(ctx, s, func(tx pgx.Tx) (id int, err error) {
		err = tx.QueryRow(ctx, `insert into `+b.table+` (run, n) values ($1, $2) returning id`, in.Run, in.N).Scan(&id)
		return id, err
	})
}

// moved returns a run's transfers, by number. It fails the test if a transfer was made twice.
func (b *bank) moved(run string) map[int]int {
	b.t.Helper()
	rows, err := b.admin.Query(context.Background(), `select n, id from `+b.table+` where run = $1`, run)
	require.NoError(b.t, err)
	found := map[int]int{}
	var n, id int
	_, err = pgx.ForEachRow(rows, []any{&n, &id}, func() error {
		if found[n] != 0 {
			b.t.Errorf("transfer %d of run %s was made twice", n, run)
		}
		found[n] = id
		return nil
	})
	require.NoError(b.t, err)
	return found
}

var errCutOff = errors.New("cut off")

func TestAnEffectIsMadeOncePerCall(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	s := open(t, postgres.Options{Schema: b.schema, Mute: true})
	attempts := 0
	pay := decorators.Tool("pay", "", func(ctx context.Context, in transfer) (int, error) {
		attempts++
		id, err := b.move(ctx, s, in)
		if err == nil && attempts < 3 { // simulate a lost response
			return 0, core.Retryable(errCutOff)
		}
		return id, err
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: time.Millisecond}))
	for run := range 2 { // the run, and another run with the same ID after the first was deleted
		st, err := state.Open(t.Context(), s, "run")
		require.NoError(t, err)
		attempts = 0
		id, err := pay.Call(st.Context(t.Context()), transfer{"run", run})
		require.NoError(t, err)
		assert.Equal(t, 3, attempts)
		assert.Equal(t, map[int]int{run: id}, b.moved("run"))
		require.NoError(t, st.Close())
		require.NoError(t, s.Delete(t.Context(), "run"))
		_, err = b.admin.Exec(t.Context(), `delete from `+b.table)
		require.NoError(t, err)
	}
	_, err := b.move(t.Context(), s, transfer{})
	require.ErrorIs(t, err, core.ErrNoRun)
}

func TestATransactionThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	s := open(t, postgres.Options{Schema: b.schema, Mute: true})
	refused := errors.New("no money")
	pay := decorators.Tool("pay", "", func(ctx context.Context, in transfer) (int, error) {
		return postgres.Once(ctx, s, func(tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, `insert into `+b.table+` (run, n) values ($1, $2)`, in.Run, in.N)
			return 0, errors.Join(err, refused)
		})
	}).LookUp(postgres.LookUp[transfer, int](s))
	st, err := state.Open(t.Context(), s, "run")
	require.NoError(t, err)
	_, err = pay.Call(st.Context(t.Context()), transfer{"run", 1})
	require.ErrorIs(t, err, refused)
	assert.Empty(t, b.moved("run"))
	_ = st.Close()
}

// If a function commits its transaction itself, its effect and its output are no longer committed
// together, so the call fails immediately.
func TestAFunctionThatCommitsByItselfIsNotRepeated(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	s := open(t, postgres.Options{Schema: b.schema, Mute: true})
	attempts := 0
	pay := decorators.Tool("pay", "", func(ctx context.Context, _ transfer) (int, error) {
		attempts++
		return postgres.Once(ctx, s, func(tx pgx.Tx) (int, error) { return 1, tx.Commit(ctx) })
	})
	st, err := state.Open(t.Context(), s, "run")
	require.NoError(t, err)
	_, err = pay.Call(st.Context(t.Context()), transfer{"run", 1})
	require.ErrorIs(t, err, pgx.ErrTxClosed)
	assert.Equal(t, 1, attempts)
	_ = st.Close()
}

// If a transaction was committed just before its attempt ended, the call does not fail, and no
// person is asked.
func TestACommitThatCameTooLateIsFound(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	s := open(t, postgres.Options{Schema: b.schema, Mute: true})
	committed := make(chan struct{}, 1)
	pay := decorators.Tool("pay", "", func(ctx context.Context, in transfer) (int, error) {
		if _, err := b.move(ctx, s, in); err != nil {
			return 0, err
		}
		committed <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}), actors.WithAttemptTimeout(2*time.Second), actors.WithInDoubt(core.InDoubtFail)).LookUp(postgres.LookUp[transfer, int](s))
	st, err := state.Open(t.Context(), s, "late")
	require.NoError(t, err)
	id, err := pay.Call(st.Context(t.Context()), transfer{"late", 1})
	require.NoError(t, err)
	assert.Equal(t, map[int]int{1: id}, b.moved("late"))
	require.NoError(t, st.Close())
	<-committed

	st, err = state.Open(t.Context(), s, "doubt")
	require.NoError(t, err)
	go func() {
		<-committed
		st.Interrupt(snapshot.Stop{})
	}()
	_, err = pay.Call(st.Context(t.Context()), transfer{"doubt", 1})
	require.Error(t, err)
	_ = st.Close()
	st, err = state.Open(t.Context(), s, "doubt")
	require.NoError(t, err)
	id, err = pay.Call(st.Context(t.Context()), transfer{"doubt", 1})
	require.NoError(t, err)
	assert.Equal(t, map[int]int{1: id}, b.moved("doubt"))
	require.NoError(t, st.Close())
	assert.Empty(t, committed, "the handler does not run again")
}

// An effect that is committed while its run is deleted is deleted, too. Otherwise a new run with the
// same ID would skip its effect.
func TestAnEffectIsDeletedEvenIfItIsCommittedDuringTheDeletion(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	s := open(t, postgres.Options{Schema: b.schema, Mute: true})
	pay := decorators.Tool("pay", "", func(ctx context.Context, in transfer) (int, error) { return b.move(ctx, s, in) })
	run := func(n int) {
		st, err := state.Open(t.Context(), s, "run")
		require.NoError(t, err)
		_, err = pay.Call(st.Context(t.Context()), transfer{"run", n})
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
	run(1)
	effects, runs := pgx.Identifier{b.schema, "effects"}.Sanitize(), pgx.Identifier{b.schema, "runs"}.Sanitize()

	// The statements of an Once that ends now.
	tx, err := b.admin.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `insert into `+effects+` (key, uid, output) select key || '-2', uid, output from `+effects)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select 1 from `+runs+` where id = 'run' for share`)
	require.NoError(t, err)
	deleted := make(chan error, 1)
	go func() { deleted <- s.Delete(context.WithoutCancel(t.Context()), "run") }()
	until(t, func() error { // the deletion waits
		var waiting int
		err := tx.QueryRow(t.Context(), `select count(*) from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`).Scan(&waiting)
		if err == nil && waiting == 0 {
			err = errors.New("nobody waits for the lock")
		}
		return err
	})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-deleted)
	var left int
	require.NoError(t, b.admin.QueryRow(t.Context(), `select count(*) from `+effects).Scan(&left))
	assert.Zero(t, left)
	run(2)
	assert.Len(t, b.moved("run"), 2)
}

// A process that has lost the run cannot commit anything.
func TestATransactionIsFenced(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	o := postgres.Options{Schema: b.schema, Mute: true, Lease: time.Hour, Poll: time.Hour}
	zombie, next := open(t, o), open(t, o)
	inside, goOn := make(chan struct{}), make(chan struct{})
	pay := decorators.Tool("pay", "", func(ctx context.Context, in transfer) (int, error) {
		return postgres.Once(ctx, zombie, func(tx pgx.Tx) (int, error) {
			close(inside)
			<-goOn
			_, err := tx.Exec(ctx, `insert into `+b.table+` (run, n) values ($1, $2)`, in.Run, in.N)
			return 0, err
		})
	})
	st, err := state.Open(t.Context(), zombie, "run")
	require.NoError(t, err)
	called := make(chan error, 1)
	go func() {
		_, err := pay.Call(st.Context(t.Context()), transfer{"run", 1})
		called <- err
	}()
	<-inside
	require.NoError(t, postgres.TakeAway(t.Context(), zombie, next))
	taken, err := next.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	close(goOn)
	require.Error(t, <-called)
	assert.Empty(t, b.moved("run"))
	require.NoError(t, taken.Close(t.Context(), snapshot.End{Status: snapshot.StatusPaused}))
	_ = st.Close()
}

// TestKilledTransactionsAreMadeOnce ends connections while many calls make transfers. Afterwards
// the rows of the table must match the records. REPRISE_KILLS sets how many connections are ended;
// the default is 40.
func TestKilledTransactionsAreMadeOnce(t *testing.T) {
	t.Parallel()
	kills := 40
	if set := os.Getenv("REPRISE_KILLS"); set != "" {
		var err error
		kills, err = strconv.Atoi(set)
		require.NoError(t, err)
	}
	b := newBank(t)
	url, err := asApp(serverURL(t))
	require.NoError(t, err)
	pool, err := poolOf(url+"&application_name=once", 12)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := openOn(t, pool, postgres.Options{Schema: b.schema, Mute: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	runs := make([]string, 4)
	outputs := make([]map[int]int, len(runs))
	for i := range runs {
		runs[i], outputs[i] = fmt.Sprint("run-", i), map[int]int{}
		// This must happen before the first connection is ended, because Open reports a lost
		// connection to its caller.
		st, err := state.Open(t.Context(), s, runs[i])
		require.NoError(t, err)
		wait.Go(func() { b.moveOften(ctx, s, st, runs[i], outputs[i]) })
	}
	b.kill(kills)
	cancel()
	wait.Wait()
	all := 0
	for i, run := range runs {
		recorded := map[int]int{}
		for rec, err := range s.Records(t.Context(), run, 0) {
			require.NoError(t, err)
			if rec.Kind == record.KindTool && rec.Status == record.StatusCompleted {
				var id int
				require.NoError(t, record.Decode(rec.Encoded(), &id))
				recorded[len(recorded)] = id
			}
		}
		assert.Equal(t, b.moved(run), recorded, run)
		assert.Equal(t, outputs[i], recorded, run)
		all += len(recorded)
	}
	t.Logf("%d transfers", all)
}

// moveOften makes the run's transfers, one after the other, until ctx ends. Then it closes st.
func (b *bank) moveOften(ctx context.Context, s *postgres.Store, st *state.ExecutionState, run string, outputs map[int]int) {
	pay := decorators.Tool("pay", "", func(ctx context.Context, in transfer) (int, error) { return b.move(ctx, s, in) },
		actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}))
	for n := 0; ctx.Err() == nil; n++ {
		id, err := pay.Call(st.Context(b.t.Context()), transfer{run, n})
		if !assert.NoError(b.t, err) {
			break
		}
		outputs[n] = id
	}
	assert.NoError(b.t, st.Close())
}

// kill ends connections, a few at a time.
func (b *bank) kill(kills int) {
	for killed := 0; killed < kills; {
		var n int
		err := b.admin.QueryRow(b.t.Context(), `select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity
			where application_name = 'once' and state <> 'idle' order by random() limit 2) a`).Scan(&n)
		require.NoError(b.t, err)
		killed += n
		<-time.After(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
	}
}
