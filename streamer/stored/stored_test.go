package stored_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// in is the input of the tool of these tests.
type in struct {
	N int `json:"n"`
}

// flaky returns a tool whose attempts fail every second time, beginning with the first.
func flaky() actors.Tool[in, int] {
	tries := 0
	return decorators.Tool("flaky", "fails at first", func(_ context.Context, in in) (int, error) {
		if tries++; tries%2 == 1 {
			return 0, core.Retryable(errors.New("not yet"))
		}
		return in.N, nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: time.Millisecond}))
}

// run makes a run with the given number of calls. If the run already exists, it adds the missing
// calls.
func run(t testing.TB, store snapshot.Store, runID string, calls int, options ...state.Option) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	st, err := state.Open(ctx, store, runID, append(options, state.WithSync(state.SyncNever), state.WithFurtherCalls())...)
	require.NoError(t, err)
	tool := flaky()
	for n := range calls {
		_, err := tool.Call(st.Context(ctx), in{n})
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
}

func serve(t testing.TB, source streamer.Source) (*streamer.Handler, string) {
	t.Helper()
	return serveWith(t, source, streamer.Options{Reconnect: time.Millisecond})
}

func serveWith(t testing.TB, source streamer.Source, options streamer.Options) (*streamer.Handler, string) {
	t.Helper()
	h, err := streamer.New(source, options)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		assert.NoError(t, h.Close(context.WithoutCancel(t.Context())))
		server.Close()
	})
	return h, server.URL
}

// follow reads the events of a run up to the first one named until, and returns their IDs.
func follow(t testing.TB, url, after, until string) (ids []string) {
	t.Helper()
	client := streamer.Client{URL: url, Run: "r", After: after}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, []string{"gap", "reset"}, e.Name)
		if e.ID != "" {
			ids = append(ids, e.ID)
		}
		if e.Name == until {
			return ids
		}
	}
	return ids
}

func TestFinishedRunIsStreamedFromTheStoreAndResumed(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			_, first := serve(t, stored.New(store))
			h, second := serve(t, stored.New(store))
			run(t, store, "r", 10)
			ids := follow(t, first, "", "run_completed")
			assert.Len(t, ids, 2+10*5)
			assert.Equal(t, ids[21:], follow(t, second, ids[20], "run_completed"), "the same IDs from another server")

			run(t, store, "r", 12, state.WithPublisher(h))
			more := follow(t, second, ids[len(ids)-1], "run_completed")
			assert.Len(t, more, 2+2*5)
			assert.Equal(t, append(ids, more...), twoEnds(t, first))
		})
	}
}

// twoEnds reads the stream of a run up to the second run_completed event, and returns the IDs.
func twoEnds(t testing.TB, url string) []string {
	t.Helper()
	ids := follow(t, url, "", "run_completed")
	return append(ids, follow(t, url, ids[len(ids)-1], "run_completed")...)
}

func stores(t testing.TB) map[string]snapshot.Store {
	t.Helper()
	files, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	return map[string]snapshot.Store{"files": files, "memory": memstore.New()}
}

func TestUnknownRunsAreNotFound(t *testing.T) {
	for name, store := range stores(t) {
		source := stored.New(store)
		for _, id := range []string{"nope", "../etc", "", strings.Repeat("x", 1000)} {
			_, err := source.Run(t.Context(), id)
			require.ErrorIs(t, err, streamer.ErrNotFound, "%s %q", name, id)
		}
		for _, err := range source.Records(t.Context(), "nope", 0) {
			require.ErrorIs(t, err, streamer.ErrNotFound)
		}
	}
}

// TestRunsOfAnotherProcessAreWatchedLive starts another process, which writes runs while this
// process shows them.
func TestRunsOfAnotherProcessAreWatchedLive(t *testing.T) {
	dir := t.TempDir()
	if d := os.Getenv("STORED_TEST_DIR"); d != "" {
		dir = d
	}
	store, err := filestore.New(dir)
	require.NoError(t, err)
	if os.Getenv("STORED_TEST_DIR") != "" { // the other process
		for n := range 3 {
			run(t, store, fmt.Sprint("r", n), 20)
			run(t, store, fmt.Sprint("r", n), 40)
		}
		return
	}
	run(t, store, "old", 1)
	source := stored.New(store)
	h, url := serve(t, source)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { assert.ErrorIs(t, source.Follow(ctx, h), context.Canceled) })
	defer following.Wait()
	defer cancel()

	var all struct{ Cursor string }
	resp, err := http.Get(url + "/api/runs")
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&all))
	require.NoError(t, resp.Body.Close())
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunsOfAnotherProcessAreWatchedLive$") //nolint:gosec // runs this test
	other.Env = append(os.Environ(), "STORED_TEST_DIR="+dir)
	other.Stderr = os.Stderr
	require.NoError(t, other.Start())

	got := make(map[string]uint64) // the newest number of each run
	ends := 0
	client := streamer.Client{URL: url, After: all.Cursor}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		var rec struct {
			RunID string `json:"run_id"`
			Seq   uint64
		}
		require.NoError(t, e.Decode(&rec))
		require.NotEqual(t, "old", rec.RunID)
		require.Equal(t, got[rec.RunID]+1, rec.Seq, rec.RunID)
		got[rec.RunID] = rec.Seq
		if e.Name == "run_completed" {
			if ends++; ends == 6 {
				break
			}
		}
	}
	require.NoError(t, other.Wait())
	assert.Equal(t, map[string]uint64{"r0": 204, "r1": 204, "r2": 204}, got)
}

func Example() {
	store := memstore.New()
	runs := stored.New(store)
	dash, err := streamer.New(runs, streamer.Options{})
	if err != nil {
		panic(err)
	}
	defer dash.Close(context.Background())

	ctx := context.Background()
	st, err := state.Open(ctx, store, "greeting-1", state.WithPublisher(dash))
	if err != nil {
		panic(err)
	}
	greet := decorators.Tool("greet", "Greets.", func(context.Context, struct{}) (string, error) { return "hello", nil })
	if _, err := greet.Call(st.Context(ctx), struct{}{}); err != nil {
		panic(err)
	}
	if err := st.Close(); err != nil {
		panic(err)
	}
	found, err := runs.Run(ctx, "greeting-1")
	fmt.Println(found.RunID, found.Status, found.LastSeq, err)
	// Output: greeting-1 completed 4 <nil>
}
