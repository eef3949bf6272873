package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Once commits a transaction with the effects of f exactly once for the call to which ctx belongs,
// no matter what happens to the call's attempts. The same transaction stores the output of f under
// the call's idempotency key. A later attempt returns this output without calling f; a concurrent
// attempt waits for the first one. So a tool whose effects are all in the store's database looks
// like this:
//
//	func(ctx context.Context, in Transfer) (Receipt, error) {
//		return postgres.Once(ctx, store, func(tx pgx.Tx) (Receipt, error) { … })
//	}
//
// A call has one output: a second Once in the same call returns the first one's output without
// calling f. Put everything into one transaction, or into several tools.
//
// If an attempt has committed, but its answer was lost or late, or its process ended before the
// answer was recorded, [LookUp] returns the output before the call fails or a person is asked.
//
// The transaction is READ COMMITTED and ends with Once; f must neither commit it nor roll it back.
// It is rolled back if f returns an error or ctx ends. It is also rolled back, with the error
// [snapshot.ErrFenced], if the process has lost the run in the meantime; this is checked just
// before the commit. Temporary errors, such as a lost connection or a deadlock, are marked
// [core.Retryable].
//
// The output is kept as long as its run, and forks of the run use it. For a run in another store,
// the output is kept forever, in the table effects with an empty uid, and Once does not check
// whether the process has lost the run. Outside a call, Once returns the error from
// [core.IdempotencyKey].
func Once[Out any](ctx context.Context, s *Store, f func(tx pgx.Tx) (Out, error)) (Out, error) {
	var none Out
	e, err := s.effectOf(ctx)
	if err != nil {
		return none, err
	}
	out, err := do(ctx, e, f)
	var unsure *commitError
	if !errors.As(err, &unsure) {
		return out, err
	}
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	if out, found, lookErr := find[Out](looking, e); found || lookErr != nil {
		return out, lookErr
	}
	return none, retryable(unsure.err)
}

// LookUp returns a function for [core.Definition.LookUp] that returns the output that [Once] stored
// for a call:
//
//	pay := decorators.Tool("pay", …).LookUp(postgres.LookUp[Transfer, Receipt](store))
func LookUp[In, Out any](s *Store) func(context.Context, In) (Out, bool, error) {
	return func(ctx context.Context, _ In) (out Out, found bool, err error) {
		e, err := s.effectOf(ctx)
		if err != nil {
			return out, false, err
		}
		return find[Out](ctx, e)
	}
}

// An effect identifies a call whose effect and output are committed together.
type effect struct {
	db           *database
	key          string
	uid, opening string // identify the call's run and its opening; empty for a run in another store
}

func (s *Store) effectOf(ctx context.Context) (effect, error) {
	key, err := core.IdempotencyKey(ctx)
	e := effect{db: s.db, key: key}
	e.uid, e.opening = s.OpeningOf(core.ScopeOf(ctx).RunID())
	return e, err
}

// commitError means that it is not known whether a transaction was committed.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }

func (e *commitError) Unwrap() error { return e.err }

// do executes the transaction.
func do[Out any](ctx context.Context, e effect, f func(tx pgx.Tx) (Out, error)) (out Out, err error) {
	var none Out
	tx, err := e.db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return none, retryable(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	kept, found, err := e.claim(ctx, tx)
	if err != nil {
		return none, retryable(err)
	} else if found {
		err = record.Decode(kept, &out)
		return out, err
	}
	if out, err = f(tx); err != nil {
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) || tx.Conn().IsClosed() {
			err = retryable(err)
		}
		return none, err
	}
	if kept, err = record.Encode(out); err != nil {
		return none, fmt.Errorf("postgres: encode the output of the transaction: %w", err)
	}
	if err := e.keep(ctx, tx, kept); err != nil {
		return none, retryable(err)
	}
	if err := tx.Commit(ctx); err != nil {
		return none, &commitError{err}
	}
	return out, nil
}

// find returns the output that was stored for the call. It waits for a running attempt.
func find[Out any](ctx context.Context, e effect) (out Out, found bool, err error) {
	tx, err := e.db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return out, false, retryable(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	kept, found, err := e.claim(ctx, tx)
	if err == nil && found {
		err = record.Decode(kept, &out)
	}
	return out, found && err == nil, retryable(err)
}

// claim returns the call's stored output. If there is none, claim makes sure that no other attempt
// stores one before the transaction ends.
func (e *effect) claim(ctx context.Context, tx pgx.Tx) (output []byte, found bool, err error) {
	tag, err := tx.Exec(ctx, e.db.schema.sql(`insert into reprise.effects (key, uid) values ($1, $2) on conflict do nothing`), e.key, e.uid)
	if err != nil || tag.RowsAffected() > 0 {
		return nil, false, err
	}
	err = tx.QueryRow(ctx, e.db.schema.sql(`select output from reprise.effects where key = $1`), e.key).Scan(&output)
	return output, err == nil, err
}

// keep stores the call's output if the process still owns the run. It locks the run's row until the
// commit.
func (e *effect) keep(ctx context.Context, tx pgx.Tx, output []byte) error {
	if _, err := tx.Exec(ctx, e.db.schema.sql(`update reprise.effects set output = $2 where key = $1`), e.key, output); err != nil || e.uid == "" {
		return err
	}
	var one int
	err := tx.QueryRow(ctx, e.db.schema.sql(`select 1 from reprise.runs where uid = $1 and opening = $2 for share`), e.uid, e.opening).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: the transaction of a call is rolled back", snapshot.ErrFenced)
	}
	return err
}

// retryable marks a temporary error as retryable.
func retryable(err error) error {
	if errors.Is(err, snapshot.ErrFenced) || !isTemporary(err) {
		return err
	}
	return core.Retryable(err)
}
