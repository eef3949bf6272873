package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// goldenStore is a directory of the file store as version 1 writes it. It has runs
// of one program that ended in different ways:
//
//	completed    with groups, retries, a step, an answer and an artifact
//	interrupted  while a call waited for its next attempt
//	killed       in the second attempt of a call, with a torn last frame
//	answered     paused, with the answer in its inbox
//
// If it is missing, `go test ./tests -run TestAddGoldenStore -add-golden` makes it. It is never
// edited.
const goldenStore = "testdata/store-v1"

var goldenRuns = []string{"answered", "completed", "interrupted", "killed"}

// trip is the program of the golden store. Its tools record what they do.
type trip struct {
	mu   sync.Mutex
	did  []string
	hold func(ctx context.Context) error // called in the second attempt for Oslo
}

func (p *trip) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, what)
}

// effects returns what the tools did, in alphabetical order, because the order in a
// group is random.
func (p *trip) effects() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.did))
}

type leg struct {
	City string `json:"city"`
}

func (p *trip) agent() actors.Agent[string, string] {
	again := core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Millisecond, Jitter: core.NoJitter}
	quote := decorators.Tool("quote", "Price of a leg.", func(ctx context.Context, in leg) (int, error) {
		if in.City == "Oslo" && core.ScopeOf(ctx).Attempt() == 0 {
			p.note("quote Oslo, in vain")
			return 0, core.Retryable(errors.New("no seats yet"))
		}
		if in.City == "Oslo" && p.hold != nil {
			if err := p.hold(ctx); err != nil {
				return 0, err
			}
		}
		p.note("quote " + in.City)
		return 100 * len(in.City), nil
	}, actors.WithRetry(again))
	chart := decorators.Tool("chart", "Map of a leg.", func(_ context.Context, in leg) (string, error) {
		p.note("chart " + in.City)
		return strings.Repeat(in.City+" ", 20_000), nil // an artifact
	})
	return decorators.Agent("trip", "Plans a trip.", func(ctx context.Context, name string) (string, error) {
		prices, err := actors.Map(ctx, actors.Group{Name: "prices", Workers: 2}, quote, []leg{{"Oslo"}, {"Rome"}, {"Bern"}})
		if err != nil {
			return "", err
		}
		charts, err := actors.Parallel(ctx, actors.Group{Name: "charts"},
			func(ctx context.Context) (string, error) { return chart.Call(ctx, leg{"Oslo"}) },
			func(ctx context.Context) (string, error) { return chart.Call(ctx, leg{"Rome"}) })
		if err != nil {
			return "", err
		}
		if err := state.Put(ctx, "legs", len(prices)); err != nil {
			return "", err
		}
		seal, err := core.Step(ctx, "seal", func(context.Context) (string, error) {
			p.note("seal")
			return "sealed", nil
		})
		if err != nil {
			return "", err
		}
		ok, err := core.Await[bool](ctx, "book it?")
		if err != nil || !ok {
			return "", errors.Join(err, errors.New("not booked"))
		}
		return strings.Join([]string{name, charts[0][:4], charts[1][:4], seal}, " "), nil
	})
}

func TestAddGoldenStore(t *testing.T) {
	if !*addGolden {
		t.Skip("only with -add-golden, for a new version of the format")
	}
	require.NoDirExists(t, goldenStore, "golden files are not edited")
	store, err := filestore.New(goldenStore)
	require.NoError(t, err)
	ctx := t.Context()
	answer := func(id string) {
		questions, err := state.Questions(ctx, store, id)
		require.NoError(t, err)
		require.Len(t, questions, 1)
		require.NoError(t, state.Answer(ctx, store, id, questions[0].ID, "ann", true))
	}

	_, err = callTrip(ctx, store, "completed", &trip{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	answer("completed")
	_, err = callTrip(ctx, store, "completed", &trip{})
	require.NoError(t, err)

	_, err = callTrip(ctx, store, "answered", &trip{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	answer("answered")

	published, others := othersDone()
	st, err := state.Open(ctx, store, "interrupted", published)
	require.NoError(t, err)
	held := &trip{hold: func(ctx context.Context) error {
		<-others
		st.Interrupt(snapshot.Stop{By: "ann", Message: "not today"})
		<-ctx.Done()
		return ctx.Err()
	}}
	_, err = held.agent().Call(st.Context(ctx), "interrupted")
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())

	killTrip(t, store)
	goldenInfo(t, store)
}

// othersDone returns a channel that is closed when the quotes of Rome and Bern are
// recorded.
func othersDone() (state.Option, <-chan struct{}) {
	done := make(chan struct{})
	left := 2
	return state.WithPublisher(testkit.Publisher(func(r record.Record) {
		if r.Name == "quote" && r.Status == record.StatusCompleted {
			if left--; left == 0 {
				close(done)
			}
		}
	})), done
}

func callTrip(ctx context.Context, store snapshot.Store, id string, p *trip) (string, error) {
	st, err := state.Open(ctx, store, id)
	if err != nil {
		return "", err
	}
	out, err := p.agent().Call(st.Context(ctx), id)
	return out, errors.Join(err, st.Close())
}

// killTrip leaves the run "killed" as it is on disk in the middle of an attempt,
// without some bytes of the last frame.
func killTrip(t *testing.T, store snapshot.Store) {
	t.Helper()
	dir, alive := filepath.Join(goldenStore, "runs", "killed"), filepath.Join(t.TempDir(), "killed")
	published, others := othersDone()
	st, err := state.Open(t.Context(), store, "killed", published)
	require.NoError(t, err)
	p := &trip{hold: func(context.Context) error {
		<-others
		return os.CopyFS(alive, os.DirFS(dir))
	}}
	_, err = p.agent().Call(st.Context(t.Context()), "killed")
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.CopyFS(dir, os.DirFS(alive)))
	journals, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	require.NoError(t, err)
	require.Len(t, journals, 1)
	data, err := os.ReadFile(journals[0])
	require.NoError(t, err)
	written := len(bytes.TrimRight(data, "\x00"))
	clear(data[written-7:])
	require.NoError(t, os.WriteFile(journals[0], data[:written+512], 0o600))
}

// goldenInfo writes the runs of the golden store as JSON, for comparison.
func goldenInfo(t *testing.T, store snapshot.Store) {
	t.Helper()
	for _, id := range goldenRuns {
		run, err := store.Load(t.Context(), id)
		require.NoError(t, err)
		text, err := json.MarshalIndent(exportedRun(t, run), "", " ")
		require.NoError(t, err)
		add(t, filepath.Join(goldenStore, id+".json"), append(text, '\n'))
	}
}

func exportedRun(t *testing.T, run *snapshot.Run) map[string]any {
	t.Helper()
	data, err := run.Encode()
	require.NoError(t, err)
	return exported(t, data)
}

// openGoldenStore returns the file store over a copy of the golden directory.
func openGoldenStore(t *testing.T) *filestore.Store {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(goldenStore)))
	store, err := filestore.New(dir)
	require.NoError(t, err)
	return store
}

func TestGoldenStoreIsRead(t *testing.T) {
	store := openGoldenStore(t)
	for _, id := range goldenRuns {
		run, err := store.Load(t.Context(), id)
		require.NoError(t, err, id)
		got, err := json.Marshal(exportedRun(t, run))
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(goldenStore, id+".json"))
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(got), id)
	}
}

func TestTornTailOfAGoldenRunIsReported(t *testing.T) {
	_, torn, err := openGoldenStore(t).Verify(t.Context(), "killed")
	require.NoError(t, err)
	require.NotNil(t, torn)
	assert.Equal(t, "00000001.journal", torn.File)
}

func TestGoldenRunsContinueWhereTheyWere(t *testing.T) {
	for id, left := range map[string][]string{
		"completed":   nil,
		"answered":    nil,
		"interrupted": {"chart Oslo", "chart Rome", "quote Oslo", "seal"},
		"killed":      {"chart Oslo", "chart Rome", "quote Oslo", "seal"},
	} {
		t.Run(id, func(t *testing.T) {
			store, p := openGoldenStore(t), &trip{}
			out, err := callTrip(t.Context(), store, id, p)
			if errors.Is(err, core.ErrAwaiting) {
				questions, err := state.Questions(t.Context(), store, id)
				require.NoError(t, err)
				require.Len(t, questions, 1)
				require.NoError(t, state.Answer(t.Context(), store, id, questions[0].ID, "", true))
				out, err = callTrip(t.Context(), store, id, p)
				require.NoError(t, err)
			} else {
				require.NoError(t, err)
				assert.Empty(t, left, "the run did not ask its question")
			}
			assert.Equal(t, id+" Oslo Rome sealed", out)
			assert.Equal(t, left, p.effects())

			run, err := store.Load(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, run.Info.Status)
		})
	}
}
