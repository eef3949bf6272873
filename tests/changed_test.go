package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// These tests change a program while its run is in progress, as a deployment does. Each release of
// the program runs in a separate process.

type journey struct {
	City string `json:"city"`
}

type offer struct {
	Name  string `json:"name"`
	Price int    `json:"price"`
}

type costlyOffer struct {
	Name string `json:"name"`
	Cost int    `json:"cost"` // named Price in offer
}

// changedProgram is a release of an agent. Each call of one of its tools appends a line to the file
// ledger. If stop is true, the agent interrupts its run before the last call.
type changedProgram struct {
	release, ledger string
	stop            bool
}

func (p changedProgram) note(what string) error {
	f, err := os.OpenFile(p.ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what)
	return errors.Join(err, f.Close())
}

func (p changedProgram) tool(name string) actors.Tool[journey, string] {
	return decorators.Tool(name, "", func(_ context.Context, in journey) (string, error) { return name, p.note(name + " " + in.City) })
}

func (p changedProgram) search(ctx context.Context, in journey) error {
	if p.release == "field" {
		_, err := decorators.Tool("search", "", func(_ context.Context, in journey) (costlyOffer, error) {
			return costlyOffer{"Hotel", 90}, p.note("search " + in.City)
		}).Call(ctx, in)
		return err
	}
	_, err := decorators.Tool("search", "", func(_ context.Context, in journey) (offer, error) {
		return offer{"Hotel", 90}, p.note("search " + in.City)
	}).Call(ctx, in)
	return err
}

// goroutines calls two tools from goroutines that the program itself starts. The order of names is
// that in which the scheduler supposedly started them.
func (p changedProgram) goroutines(ctx context.Context, in journey, names ...string) error {
	errs := make(chan error)
	for _, name := range names {
		go func() { _, err := p.tool(name).Call(ctx, in); errs <- err }()
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func (p changedProgram) run(ctx context.Context, in journey) (string, error) {
	book := "book"
	switch p.release {
	case "inserted":
		if err := p.search(ctx, journey{"Bergen"}); err != nil {
			return "", err
		}
	case "versioned": // makes the additional call of "inserted", and renames the tool
		if core.Version(ctx, "look elsewhere, too", 1) > 0 {
			book = "reserve"
			if err := p.search(ctx, journey{"Bergen"}); err != nil {
				return "", err
			}
		}
	case "renamed":
		book = "reserve"
	}
	if err := p.search(ctx, in); err != nil {
		return "", err
	}
	names := []string{"weather", "news"}
	if p.release == "goroutines" {
		names = []string{"news", "weather"}
	}
	if err := p.goroutines(ctx, in, names...); err != nil {
		return "", err
	}
	if _, err := p.tool(book).Call(ctx, in); err != nil {
		return "", err
	}
	if p.stop {
		state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
		return "", ctx.Err()
	}
	_, err := p.tool("pay").Call(ctx, in)
	return "done", err
}

// TestChangedProgramProcess is not a test, but the process that the test below runs.
func TestChangedProgramProcess(t *testing.T) {
	dir := os.Getenv("REPRISE_CHANGED_DIR")
	if dir == "" {
		return
	}
	p := changedProgram{os.Getenv("REPRISE_CHANGED_RELEASE"), filepath.Join(dir, "ledger"), os.Getenv("REPRISE_CHANGED_STOP") != ""}
	policies := map[string]state.DivergencePolicy{"": state.DivergenceFail, "trust": state.DivergenceTrust, "rerun": state.DivergenceRerun}
	store, err := filestore.New(filepath.Join(dir, "store"))
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, os.Getenv("REPRISE_CHANGED_RUN"), state.WithDivergence(policies[os.Getenv("REPRISE_CHANGED_POLICY")]))
	require.NoError(t, err)
	in := journey{"Oslo"}
	if p.release == "question" {
		in.City = "Rome"
	}
	out, err := decorators.Agent("trip", "", p.run).Call(st.Context(t.Context()), in)
	require.NoError(t, st.Close())
	fmt.Printf("outcome: %s, %v, %v, diverged: %v\n", out, err, st.Status(), errors.Is(err, core.ErrDivergence))
}

// processOf runs a release in a separate process, and returns the outcome that the process prints.
func processOf(t *testing.T, dir, runID, release, policy, stop string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChangedProgramProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "REPRISE_CHANGED_DIR="+dir, "REPRISE_CHANGED_RUN="+runID,
		"REPRISE_CHANGED_RELEASE="+release, "REPRISE_CHANGED_POLICY="+policy, "REPRISE_CHANGED_STOP="+stop)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	_, outcome, found := strings.Cut(string(out), "outcome: ")
	require.True(t, found, string(out))
	outcome, _, _ = strings.Cut(outcome, "\n")
	return outcome
}

// done returns the number of times that each entry is in the ledger.
func done(t *testing.T, dir string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	times := make(map[string]int)
	for line := range strings.Lines(string(data)) {
		times[strings.TrimSpace(line)]++
	}
	return times
}

func TestChangedProgramIsRefusedAndEachWayOutWorks(t *testing.T) {
	recorded := t.TempDir()
	require.Contains(t, processOf(t, recorded, "trip-1", "old", "", "stop"), "interrupted")
	begun := done(t, recorded)
	require.Equal(t, map[string]int{"search Oslo": 1, "weather Oslo": 1, "news Oslo": 1, "book Oslo": 1}, begun)
	finished := map[string]int{"search Oslo": 1, "weather Oslo": 1, "news Oslo": 1, "book Oslo": 1, "pay Oslo": 1}

	for release, tc := range map[string]struct {
		want string // part of the error
		fork string // the call before which to fork, so that the changed program can continue; "" for a new run
	}{
		"question":   {`city: recorded "Oslo", now "Rome"`, ""},
		"inserted":   {`city: recorded "Oslo", now "Bergen"`, "trip/search"},
		"renamed":    {"call 4 of trip: recorded trip/book (tool), now trip/reserve (tool)", "trip/book"},
		"goroutines": {"call 2 of trip: recorded trip/weather (tool), now trip/news (tool)", "trip/weather"},
		"field":      {"price: 90", "trip/search"},
	} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			copied := func() string {
				dir := filepath.Join(t.TempDir(), "copy")
				require.NoError(t, os.CopyFS(dir, os.DirFS(recorded)))
				return dir
			}
			dir := copied()
			for range 2 {
				outcome := processOf(t, dir, "trip-1", release, "", "")
				assert.Contains(t, outcome, tc.want)
				assert.Contains(t, outcome, "interrupted, diverged: true")
				assert.Less(t, len(outcome), 500, outcome)
				assert.NotRegexp(t, "[0-9a-f]{32}", outcome, "hashes are only in the fields of the error")
				assert.Less(t, strings.Index(outcome, tc.want), 160, "the difference is near the beginning: %s", outcome)
				assert.Equal(t, begun, done(t, dir), "no tool has run")
			}
			// The old program can continue the run, and so can one that checks for a version.
			for _, mended := range []string{"old", "versioned"} {
				again := filepath.Join(t.TempDir(), "copy")
				require.NoError(t, os.CopyFS(again, os.DirFS(dir)))
				assert.Equal(t, "done, <nil>, completed, diverged: false", processOf(t, again, "trip-1", mended, "", ""), mended)
				assert.Equal(t, finished, done(t, again), mended)
			}
			for _, policy := range []string{"trust", "rerun"} {
				dir := copied()
				assert.Equal(t, "done, <nil>, completed, diverged: false", processOf(t, dir, "trip-1", release, policy, ""), policy)
			}
			dir = copied()
			id := "another"
			if tc.fork != "" {
				store, err := filestore.New(filepath.Join(dir, "store"))
				require.NoError(t, err)
				at, err := record.ParseAddress(tc.fork)
				require.NoError(t, err)
				require.NoError(t, state.Fork(t.Context(), store, "trip-1", at, id, state.ForkOptions{}))
			}
			assert.Equal(t, "done, <nil>, completed, diverged: false", processOf(t, dir, id, release, "", ""), "the fork or new run")
			assert.Equal(t, "done, <nil>, completed, diverged: false", processOf(t, dir, "trip-1", "old", "", ""), "the original run")
		})
	}
}
