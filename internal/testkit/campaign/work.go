package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// Program is the name of the program that executes a [Task].
const Program = "work"

// A Task is the input of a run.
type Task struct {
	Run   string `json:"run"`
	Steps int    `json:"steps"`
}

// A Step is the input of a tool call. The output of the call is the line that it wrote.
type Step struct {
	Run string `json:"run"`
	N   int    `json:"n"`
}

// Work configures a worker.
type Work struct {
	Store snapshot.Store
	Queue runner.Queue
	Dir   string // directory of the ledger

	// Also, if not nil, is called by the second tool call of each step, with a line that is not in
	// the ledger.
	Also func(ctx context.Context, in Step, line string) (string, error)
	// LookUp is the LookUp function of the tool that calls Also.
	LookUp func(ctx context.Context, in Step) (string, bool, error)
}

// Serve executes tasks until ctx ends. If the store cannot be reached, Serve tries again.
func (w Work) Serve(ctx context.Context) error {
	err := snapshot.ErrUnavailable
	for errors.Is(err, snapshot.ErrUnavailable) && ctx.Err() == nil {
		err = w.serve(ctx)
	}
	return err
}

func (w Work) serve(ctx context.Context) error {
	r, err := runner.New(w.Store, runner.Options{
		Queue: w.Queue, Grace: -1, MaxRestarts: 1000, SweepEvery: time.Second, ParkAfter: time.Millisecond,
		Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeTrouble {
				_ = appendTo(w.Dir, "trouble", fmt.Sprintf("%s %d %s", time.Now().Format(time.TimeOnly), os.Getpid(), e))
			}
		},
	})
	if err != nil {
		return err
	}
	w.Register(r)
	return r.Serve(ctx)
}

// Register registers the program with r.
func (w Work) Register(r *runner.Runner) {
	var lines atomic.Int64
	unlimited := actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited})
	newLine := func(in Step) string {
		return fmt.Sprintf("%s %d by %d/%d", in.Run, in.N, os.Getpid(), lines.Add(1))
	}
	note := decorators.Tool("note", "", func(_ context.Context, in Step) (string, error) {
		line := newLine(in)
		return line, appendTo(w.Dir, "ledger", line)
	}, unlimited)
	also := decorators.Tool("also", "", func(ctx context.Context, in Step) (string, error) {
		return w.Also(ctx, in, newLine(in))
	}, unlimited)
	if w.LookUp != nil {
		also = also.LookUp(w.LookUp)
	}
	runner.Register(r, decorators.Agent(Program, "", func(ctx context.Context, in Task) (string, error) {
		var all []string
		for n := range in.Steps {
			line, err := note.Call(ctx, Step{in.Run, n})
			if err != nil {
				return "", err
			}
			all = append(all, line)
			if w.Also != nil {
				if line, err = also.Call(ctx, Step{in.Run, n}); err != nil {
					return "", err
				}
				all = append(all, line)
			}
			if n == 2 {
				if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
					return "", err
				}
			}
		}
		return strings.Join(all, "\n"), nil
	}))
}

func appendTo(dir, file, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
