package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// newLoopAgent returns an agent that makes as many calls to the tool as its input says, and then
// calls finish.
func newLoopAgent(tool *core.Definition[int, string], finish func(context.Context) error) *core.Definition[int, int] {
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "assistant"}, func(ctx context.Context, calls int) (int, error) {
		for i := range calls {
			out, err := tool.Event().Execute(ctx, i)
			if err != nil {
				return 0, err
			}
			if out != text {
				return 0, fmt.Errorf("call %d returned %q", i, out)
			}
		}
		return answer, finish(ctx)
	})
	if err != nil {
		panic(err)
	}
	return d
}

// A fixture is a directory with a run, created once.
type fixture func() (dir string, err error)

// finishedCalls returns a run whose agent was stopped after all its calls had finished. So the
// calls are recalled one by one, whereas an agent that has finished is recalled as a whole.
func finishedCalls(calls int) fixture {
	return sync.OnceValues(func() (string, error) {
		store, dir, err := newStore()
		if err != nil {
			return "", err
		}
		st, err := state.Open(context.Background(), store, runID, state.WithSync(state.SyncNever))
		if err != nil {
			return "", err
		}
		tool := newTextTool(func(context.Context, int) (string, error) { return text, nil })
		agent := newLoopAgent(tool, func(ctx context.Context) error {
			st.Interrupt(snapshot.Stop{By: "bench", Message: "enough"})
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if _, err := agent.Event().Execute(st.Context(context.Background()), calls); !core.IsSuspension(err) {
			return "", fmt.Errorf("load the run to replay: %w", err)
		}
		return dir, st.Close()
	})
}

// startReplay opens a new copy of the run each time, and runs the agent to its
// end.
func startReplay(calls int, made fixture, open func(context.Context, snapshot.Store) (*state.ExecutionState, error)) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		var dir string
		var st *state.ExecutionState
		var store *filestore.Store
		tool := newTextTool(func(context.Context, int) (string, error) {
			return "", errors.New("a call was made that should have been recalled")
		})
		agent := newLoopAgent(tool, func(context.Context) error { return nil })
		stop := func() error {
			if st == nil {
				return os.RemoveAll(dir)
			}
			restored, err := st.Report().Restored, errors.Join(st.Close(), store.Close())
			st = nil
			if err == nil && restored != calls {
				err = fmt.Errorf("%d calls were recalled, want %d", restored, calls)
			}
			return errors.Join(err, os.RemoveAll(dir))
		}
		reset := func() error {
			if err := stop(); err != nil {
				return err
			}
			from, err := made()
			if err != nil {
				return err
			}
			if dir, err = tempDir(); err != nil {
				return err
			}
			return copySynced(dir, from)
		}
		call := func() (int, error) {
			w.calls++
			var err error
			if store, err = filestore.New(dir); err != nil {
				return 0, err
			}
			if st, err = open(ctx, store); err != nil {
				return 0, err
			}
			return agent.Event().Execute(st.Context(ctx), calls)
		}
		return instance{call: call, reset: reset, stop: stop}
	}
}

func openToContinue(ctx context.Context, store snapshot.Store) (*state.ExecutionState, error) {
	return state.Open(ctx, store, runID)
}

func openToReplay(ctx context.Context, store snapshot.Store) (*state.ExecutionState, error) {
	return state.Replay(ctx, store, runID)
}

// copySynced copies a directory and syncs the copy, so that a later sync has
// nothing left to write.
func copySynced(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// storedRows returns a database with the outputs of the given number of calls.
func storedRows(calls int) fixture {
	return sync.OnceValues(func() (dir string, err error) {
		if dir, err = tempDir(); err != nil {
			return "", err
		}
		db, err := openSQLite(filepath.Join(dir, "db"))
		if err != nil {
			return "", err
		}
		return dir, errors.Join(insertRows(db, calls), db.Close())
	})
}

func insertRows(db *sql.DB, calls int) error {
	output, err := record.Encode(text)
	if err != nil {
		return err
	}
	if _, err := db.Exec(`CREATE TABLE steps (run TEXT, step INTEGER, name TEXT NOT NULL, output BLOB NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID`); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	for step := range calls {
		if _, err := tx.Exec("INSERT INTO steps VALUES (?, ?, 'work', ?)", runID, step, output); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// startRead opens the database anew each time and reads all outputs of the run.
func startRead(calls int, made fixture, read func(db *sql.DB, calls int) error) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		var db *sql.DB
		stop := func() error {
			if db == nil {
				return nil
			}
			defer func() { db = nil }()
			return db.Close()
		}
		reset := func() error {
			_, err := made()
			return errors.Join(err, stop())
		}
		call := func() (int, error) {
			w.calls++
			dir, err := made()
			if err != nil {
				return 0, err
			}
			if db, err = openSQLite(filepath.Join(dir, "db")); err != nil {
				return 0, err
			}
			return answer, read(db, calls)
		}
		return instance{call: call, reset: reset, stop: stop}
	}
}

// readEach looks up the steps one by one, like an engine that recalls stored
// steps.
func readEach(db *sql.DB, calls int) error {
	statement, err := db.Prepare("SELECT name, output FROM steps WHERE run = ? AND step = ?")
	if err != nil {
		return err
	}
	defer statement.Close()
	for step := range calls {
		var name string
		var output []byte
		if err := statement.QueryRow(runID, step).Scan(&name, &output); err != nil {
			return err
		}
		if err := checkOutput(output); err != nil {
			return err
		}
	}
	return nil
}

// readScan reads all steps with one query.
func readScan(db *sql.DB, calls int) error {
	rows, err := db.Query("SELECT name, output FROM steps WHERE run = ? ORDER BY step", runID)
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var name string
		var output sql.RawBytes
		if err := rows.Scan(&name, &output); err != nil {
			return err
		}
		if err := checkOutput(output); err != nil {
			return err
		}
	}
	if n != calls {
		return fmt.Errorf("got %d rows, want %d, %w", n, calls, rows.Err())
	}
	return rows.Err()
}

func checkOutput(encoded []byte) error {
	var out string
	if err := record.Decode(encoded, &out); err != nil {
		return err
	}
	if out != text {
		return fmt.Errorf("got the output %q", out)
	}
	return nil
}

func replayers(calls int) []contestant {
	run, rows := finishedCalls(calls), storedRows(calls)
	return []contestant{
		{"reprise", startReplay(calls, run, openToContinue)},
		{"reprise-replay", startReplay(calls, run, openToReplay)},
		{"sqlite", startRead(calls, rows, readEach)},
		{"sqlite-scan", startRead(calls, rows, readScan)},
	}
}
