package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// patience is how long to wait for a condition to become true. It should never be reached.
const patience = 3 * time.Minute

// A Site is a client that starts runs and waits for their results.
type Site struct {
	t      testing.TB
	work   Work
	client *runner.Runner
}

// NewSite returns a site with the store, the queue and the ledger of its workers.
func NewSite(t testing.TB, w Work) *Site {
	t.Helper()
	client, err := runner.New(w.Store, runner.Options{Queue: w.Queue})
	require.NoError(t, err)
	w.Register(client)
	return &Site{t, w, client}
}

// patiently repeats an operation until the server answers, for at most patience.
func (s *Site) patiently(what string, do func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			trouble, _ := os.ReadFile(filepath.Join(s.work.Dir, "trouble"))
			s.t.Logf("workers: %s", trouble[max(0, len(trouble)-20_000):])
		}
		require.ErrorIs(s.t, err, snapshot.ErrUnavailable, what)
	}
}

// Start starts a run. It repeats the request until a server answers. Since the ID is the same each
// time, this does not start a second run.
func (s *Site) Start(id string, steps int) {
	s.t.Helper()
	s.patiently("start run "+id, func(ctx context.Context) error {
		_, err := s.client.Start(ctx, Program, id, Task{id, steps}, runner.StartOptions{})
		return err
	})
}

// Ended waits until the run has ended, and returns the lines of its steps.
func (s *Site) Ended(id string) []string {
	s.t.Helper()
	var result any
	s.patiently("the end of run "+id, func(ctx context.Context) error {
		for event, err := range s.work.Store.Watch(ctx, snapshot.WatchOptions{RunID: id}) {
			if err != nil {
				return fmt.Errorf("%s: %w", event.Info.Status, err)
			}
			if event.Info.Status == snapshot.StatusCompleted {
				break
			}
		}
		var err error
		result, err = s.client.Result(ctx, id)
		return err
	})
	return strings.Split(result.(string), "\n")
}

// Check compares the outcomes of a run with the ledger: a call with an outcome must not have run
// again. A process that was stopped during an effect may add its line late, after another process
// has recorded the outcome. The number of steps with such a line must be at most late. With
// Work.Also, Check returns the lines that Also wrote, which are not in the ledger.
func (s *Site) Check(id string, steps, late int) (also []string) {
	s.t.Helper()
	outcomes := s.Ended(id)
	if s.work.Also != nil {
		var noted []string
		for i := 0; i+1 < len(outcomes); i += 2 {
			noted, also = append(noted, outcomes[i]), append(also, outcomes[i+1])
		}
		outcomes = noted
	}
	require.Len(s.t, outcomes, steps)
	ledger, err := os.ReadFile(filepath.Join(s.work.Dir, "ledger"))
	require.NoError(s.t, err)
	last, seen := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(ledger)) {
		line = strings.TrimSpace(line)
		if what, _, _ := strings.Cut(line, " by "); strings.HasPrefix(what, id+" ") {
			last[what], seen[line] = line, true
		}
	}
	wrong := 0
	for n, outcome := range outcomes {
		assert.True(s.t, seen[outcome], "%s is not in the ledger", outcome)
		if last[fmt.Sprintf("%s %d", id, n)] != outcome {
			wrong++
		}
	}
	assert.LessOrEqual(s.t, wrong, late, "run %s: steps with an outcome ran again", id)
	return also
}

// CheckHistory checks the number of stored runs, that the records of each run are
// consecutive, and that their generations never decrease.
func (s *Site) CheckHistory(runs int) {
	s.t.Helper()
	n := 0
	for info, err := range snapshot.Runs(s.t.Context(), s.work.Store, snapshot.Filter{}) {
		require.NoError(s.t, err)
		n++
		last, generation := uint64(0), uint64(0)
		for rec, err := range s.work.Store.Records(s.t.Context(), info.RunID, 0) {
			require.NoError(s.t, err)
			require.Equal(s.t, last+1, rec.Seq, "run %s", info.RunID)
			require.GreaterOrEqual(s.t, rec.Generation, generation, "run %s: record %d", info.RunID, rec.Seq)
			last, generation = rec.Seq, rec.Generation
		}
		assert.Equal(s.t, info.LastSeq, last, "run %s", info.RunID)
	}
	assert.Equal(s.t, runs, n)
}
