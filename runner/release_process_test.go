package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// release serves one release of a program until its standard input ends. All releases have the same
// version.
func release(args ...string) error {
	dir, name := args[0], args[1]
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	r, err := runner.New(store, runner.Options{
		SweepEvery: 20 * time.Millisecond, Grace: time.Second, ParkAfter: time.Millisecond,
		Observe: func(e runner.Notice) { fmt.Println(e.Type, e.RunID, e.Status, e.Stop.Reason) },
	})
	if err != nil {
		return err
	}
	registerRelease(r, dir, name)
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	return r.Serve(ctx)
}

// registerRelease registers a program that makes a call, and then makes a second call once the file
// "due" exists. In the release "new", the first call has another name. In the release "other", the
// input has another type.
func registerRelease(r *runner.Runner, dir, release string) {
	note := func(name string) func(context.Context, word) (string, error) {
		return decorators.Tool(name, "", func(_ context.Context, in word) (string, error) {
			return in.Text, appendLine(filepath.Join(dir, "ledger"), name+" "+in.Text)
		}).Call
	}
	work := func(first string) func(context.Context, word) (string, error) {
		return func(ctx context.Context, in word) (string, error) {
			if _, err := note(first)(ctx, in); err != nil {
				return "", err
			}
			for {
				due, err := core.Step(ctx, "due", func(context.Context) (bool, error) {
					_, err := os.Stat(filepath.Join(dir, "due"))
					return err == nil, nil
				})
				if err != nil {
					return "", err
				} else if due {
					break
				}
				if err := core.Sleep(ctx, 20*time.Millisecond); err != nil {
					return "", err
				}
			}
			return note("last")(ctx, in)
		}
	}
	switch release {
	case "old":
		runner.Register(r, agent("work", work("first")))
	case "new":
		runner.Register(r, agent("work", work("another")))
	default:
		runner.Register(r, decorators.Agent("work", "", func(_ context.Context, in count) (string, error) { return fmt.Sprint(in), nil }))
	}
}

// Two processes with different code under one version share a directory. Whenever a run is
// parked, either of them may continue it.
func TestProcessesWithDifferentCodeUnderOneVersion(t *testing.T) {
	for _, other := range []string{"new", "other"} {
		t.Run(other, func(t *testing.T) {
			dir := t.TempDir()
			store, err := filestore.New(dir)
			require.NoError(t, err)
			r := newRunner(t, store, runner.Options{})
			registerRelease(r, dir, "old")
			old := process.Start(t, process.Command(t, "release", dir, "old"))
			const n = 4
			for i := range n {
				_, err := r.Start(t.Context(), "work", fmt.Sprint("run-", i), word{fmt.Sprint(i)}, runner.StartOptions{})
				require.NoError(t, err)
				old.Await(fmt.Sprintf("closed run-%d paused ", i))
			}
			changed := process.Start(t, process.Command(t, "release", dir, other))
			for i := range n { // each run is parked until the process with the other code has taken it
				info := awaitInfo(t, r, fmt.Sprint("run-", i), func(i *snapshot.Info) bool { return i.Stop.Reason == record.InterruptDiverge && !i.Open })
				assert.Equal(t, snapshot.StatusInterrupted, info.Status)
				assert.NotEmpty(t, info.Stop.Message)
			}
			changed.Stop()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "due"), nil, 0o600))
			for i := range n {
				require.NoError(t, r.Resume(t.Context(), fmt.Sprint("run-", i)))
				awaitInfo(t, r, fmt.Sprint("run-", i), func(i *snapshot.Info) bool { return i.Status == snapshot.StatusCompleted })
			}
			old.Stop()
			ledger, err := os.ReadFile(filepath.Join(dir, "ledger"))
			require.NoError(t, err)
			assert.Equal(t, "first 0\nfirst 1\nfirst 2\nfirst 3\nlast 0\nlast 1\nlast 2\nlast 3\n", string(ledger),
				"each call was made once, and no call of the other code was made")
		})
	}
}
