package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

const (
	callers      = 16  // number of concurrent callers in Durable
	durableCalls = 320 // calls per round; few, because syncing is slow
	runID        = "run"
)

// text is the output of the calls of Durable and Replay.
var text = strings.Repeat("It rains in Oslo. ", 6)[:100]

// newTextTool returns the tool that Reprise's contestants call in the scenarios that store outputs.
func newTextTool(handle core.Handler[int, string]) *core.Definition[int, string] {
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "work"}, handle)
	if err != nil {
		panic(err)
	}
	return d
}

func newStore() (store *filestore.Store, dir string, err error) {
	if dir, err = tempDir(); err != nil {
		return nil, "", err
	}
	store, err = filestore.New(dir)
	return store, dir, err
}

// A durableRun is a run in a store.
type durableRun struct {
	store snapshot.Store
	dir   string       // directory, if the store is a file store
	end   func() error // closes the store
	st    *state.ExecutionState
	ctx   context.Context
	tool  *core.Definition[int, string]
	calls atomic.Int64 // calls to the handler
}

func openDurable(ctx context.Context, policy state.SyncPolicy) (*durableRun, error) {
	store, dir, err := newStore()
	if err != nil {
		return nil, err
	}
	d, err := openRunIn(ctx, store, policy)
	if err != nil {
		return nil, err
	}
	d.dir, d.end = dir, func() error { return errors.Join(store.Close(), os.RemoveAll(dir)) }
	return d, nil
}

func openRunIn(ctx context.Context, store snapshot.Store, policy state.SyncPolicy) (*durableRun, error) {
	st, err := state.Open(ctx, store, runID, state.WithSync(policy))
	if err != nil {
		return nil, err
	}
	d := &durableRun{store: store, st: st, ctx: st.Context(ctx)}
	d.tool = newTextTool(func(context.Context, int) (string, error) {
		d.calls.Add(1)
		return text, nil
	})
	return d, nil
}

func (d *durableRun) call() (int, error) {
	out, err := d.tool.Event().Execute(d.ctx, answer)
	if err == nil && out != text {
		err = fmt.Errorf("got the output %q", out)
	}
	return answer, err
}

// close ends the run, and checks that the run was stored.
func (d *durableRun) close() error {
	if err := d.st.Close(); err != nil {
		return err
	}
	stored, err := d.store.Load(context.Background(), runID)
	if err != nil {
		return err
	}
	if want := int(2*d.calls.Load()) + 2; stored.Len() != want || stored.Status != snapshot.StatusCompleted {
		return fmt.Errorf("the run is %s and has %d records, not %d", stored.Status, stored.Len(), want)
	}
	return d.end()
}

// bytesOfCall returns how many bytes a call in Durable adds to the journal.
var bytesOfCall = sync.OnceValues(func() (int, error) {
	d, err := openDurable(context.Background(), state.SyncNever)
	if err != nil {
		return 0, err
	}
	const calls = 100
	var sizes [2]int64
	for i := range sizes {
		for range calls {
			if _, err := d.call(); err != nil {
				return 0, err
			}
		}
		names, err := filepath.Glob(filepath.Join(d.dir, "runs", runID, "*.journal"))
		if err != nil || len(names) != 1 {
			return 0, fmt.Errorf("the run has the journals %q, %w", names, err)
		}
		data, err := os.ReadFile(names[0])
		if err != nil {
			return 0, err
		}
		sizes[i] = int64(len(bytes.TrimRight(data, "\x00"))) // the rest is allocated but unused
	}
	return int(sizes[1]-sizes[0]) / calls, d.close()
})

// parcel returns as many bytes as a call adds to the journal, for contestants
// that store plain bytes.
func parcel() ([]byte, error) {
	n, err := bytesOfCall()
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	_, err = rand.Read(data)
	return data, err
}

func startDurable(parallel int) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		n, err := bytesOfCall()
		if err != nil {
			return broken(err)
		}
		d, err := openDurable(ctx, state.SyncOutcomes)
		if err != nil {
			return broken(err)
		}
		return d.instance(w, parallel, n)
	}
}

func (d *durableRun) instance(w *work, parallel, size int) instance {
	stop := func() error {
		w.calls = int(d.calls.Load())
		return d.close()
	}
	return instance{call: d.call, stop: stop, parallel: parallel, size: size}
}

// A keeper durably stores one parcel after another.
type keeper struct {
	keep  func(seq int64) error
	kept  func() (int, error) // number of stored parcels
	close func() error
}

// startKeeper returns a contestant that stores parcels in a keeper. The open function opens the
// keeper in a directory.
func startKeeper(open func(dir string, data []byte) (keeper, error), parallel int) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		data, err := parcel()
		if err != nil {
			return broken(err)
		}
		dir, err := tempDir()
		if err != nil {
			return broken(err)
		}
		k, err := open(dir, data)
		if err != nil {
			return broken(err)
		}
		before, err := k.kept()
		if err != nil {
			return broken(err)
		}
		var seq atomic.Int64
		seq.Store(int64(before))
		stop := func() error {
			kept, err := k.kept()
			w.calls = kept - before
			return errors.Join(err, k.close(), os.RemoveAll(dir))
		}
		call := func() (int, error) { return answer, k.keep(seq.Add(1)) }
		return instance{call: call, stop: stop, parallel: parallel, size: len(data)}
	}
}

func openBare(dir string, data []byte) (keeper, error) {
	f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return keeper{}, err
	}
	return keeper{
		keep: func(int64) error {
			if _, err := f.Write(data); err != nil {
				return err
			}
			return f.Sync()
		},
		kept: func() (int, error) {
			info, err := f.Stat()
			if err != nil {
				return 0, err
			}
			return int(info.Size()) / len(data), nil
		},
		close: f.Close,
	}, nil
}

// prefilledRows is the number of rows that databases contain from the start. It is so large that
// SQLite overwrites its log repeatedly and that bbolt's file does not grow with each call.
const prefilledRows = 1500

// openSQLite opens a database with a single connection, because SQLite allows only one writer.
func openSQLite(path string) (*sql.DB, error) {
	pragmas := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func openSQLiteKeeper(dir string, data []byte) (keeper, error) {
	db, err := openSQLite(filepath.Join(dir, "db"))
	if err != nil {
		return keeper{}, err
	}
	const insert = "INSERT INTO steps (step, data) VALUES (?, ?)"
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = db.Exec(query, args...)
		}
	}
	exec("CREATE TABLE steps (step INTEGER PRIMARY KEY, data BLOB NOT NULL)")
	exec("PRAGMA synchronous = OFF")
	for step := range prefilledRows {
		exec(insert, step+1, data)
	}
	exec("PRAGMA wal_checkpoint")
	exec("PRAGMA synchronous = FULL")
	var mode string
	var level int
	if err == nil {
		err = errors.Join(db.QueryRow("PRAGMA journal_mode").Scan(&mode), db.QueryRow("PRAGMA synchronous").Scan(&level))
	}
	if err != nil {
		return keeper{}, err
	}
	if mode != "wal" || level != 2 {
		return keeper{}, fmt.Errorf("SQLite has journal mode %s and sync level %d", mode, level)
	}
	statement, err := db.Prepare(insert)
	if err != nil {
		return keeper{}, err
	}
	return keeper{
		keep: func(step int64) error {
			_, err := statement.Exec(step, data)
			return err
		},
		kept: func() (n int, err error) {
			err = db.QueryRow("SELECT count(*) FROM steps").Scan(&n)
			return n, err
		},
		close: func() error { return errors.Join(statement.Close(), db.Close()) },
	}, nil
}

func openBbolt(dir string, data []byte) (keeper, error) {
	return openBboltWith(dir, data, (*bbolt.DB).Update)
}

// openBboltBatch opens a keeper whose concurrent callers share transactions.
func openBboltBatch(dir string, data []byte) (keeper, error) {
	return openBboltWith(dir, data, (*bbolt.DB).Batch)
}

func openBboltWith(dir string, data []byte, update func(*bbolt.DB, func(*bbolt.Tx) error) error) (keeper, error) {
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		return keeper{}, err
	}
	db.MaxBatchSize = callers
	steps := []byte("steps")
	put := func(tx *bbolt.Tx, step int64) error {
		return tx.Bucket(steps).Put(binary.BigEndian.AppendUint64(nil, uint64(step)), data)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(steps); err != nil {
			return err
		}
		for step := range int64(prefilledRows) {
			if err := put(tx, step+1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return keeper{}, err
	}
	return keeper{
		keep: func(step int64) error {
			return update(db, func(tx *bbolt.Tx) error { return put(tx, step) })
		},
		kept: func() (n int, err error) {
			err = db.View(func(tx *bbolt.Tx) error {
				n = tx.Bucket(steps).Stats().KeyN
				return nil
			})
			return n, err
		},
		close: db.Close,
	}, nil
}
