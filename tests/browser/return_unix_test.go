//go:build unix

package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestThirtyClientsHaveTheirRowsAtOnceAfterARestart makes the same requests as 30 pages, but
// without a browser, for runs in memory and for runs in a directory. With -long, there are 10,000
// runs, and the test prints how long single requests take.
func TestThirtyClientsHaveTheirRowsAtOnceAfterARestart(t *testing.T) {
	const clients = 30
	runs := 50
	if *long {
		runs = 10_000
	}
	dir := t.TempDir()
	directory, err := filestore.New(dir)
	require.NoError(t, err)
	memory := manyRuns(t, runs)
	for info, err := range snapshot.Runs(t.Context(), memory, snapshot.Filter{}) {
		require.NoError(t, err)
		_, err = directory.Create(t.Context(), &snapshot.Run{Info: info})
		require.NoError(t, err)
	}
	for name, store := range map[string]snapshot.Store{"memory": memory, "directory": directory} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, stored.New(store), streamer.Options{}, nil)
			cursors := make([]string, clients)
			for i := range cursors {
				body := getJSON[streamer.RunList](t, s.url()+"api/runs?limit=1")
				cursors[i] = body.Cursor
			}
			s.stop()
			if name == "directory" {
				store, err = filestore.New(dir) // without the in-memory state of the previous process
				require.NoError(t, err)
			}
			s.start(stored.New(store), streamer.Options{}, nil)
			began, before := time.Now(), processorTime(t)
			took := make([]time.Duration, clients)
			var coming sync.WaitGroup
			for i, cursor := range cursors {
				coming.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					for e, err := range (&streamer.Client{URL: s.url(), After: cursor}).Events(ctx) {
						if !assert.NoError(t, err) {
							return
						}
						assert.Equal(t, "reset", e.Name)
						break
					}
					body := getJSON[streamer.RunList](t, s.url()+"api/runs?limit=200")
					took[i] = time.Since(began)
					assert.Len(t, body.Runs, min(runs, 200))
					assert.Equal(t, runs, body.Total)
				})
			}
			coming.Wait()
			slices.Sort(took)
			t.Logf("%d clients, %d runs: rows after %v (the first), %v (the median), %v (the last); %v of processor time, with the clients",
				clients, runs, took[0], took[clients/2], took[clients-1], processorTime(t)-before)
			if !*long {
				return
			}
			for _, path := range []string{"api/runs?limit=1", "api/runs?limit=200", "api/runs?limit=200&sort=cost", "api/runs?limit=200&text=number+47", "api/questions?limit=100"} {
				t.Logf("%s takes the server %v", path, medianTime(t, s.url()+path))
			}
		})
	}
}

func getJSON[T any](t *testing.T, url string) (body T) {
	t.Helper()
	resp, err := http.Get(url)
	if assert.NoError(t, err) {
		defer resp.Body.Close()
		assert.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
	}
	return body
}

// processorTime returns the CPU time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
