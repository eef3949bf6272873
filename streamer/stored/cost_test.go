package stored_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestTheListOfOneRunCostsTheSameAmongMany checks that the cost of a page with one run does not
// depend on the number of runs, even though the page contains the total.
func TestTheListOfOneRunCostsTheSameAmongMany(t *testing.T) {
	directory := func() snapshot.Store {
		store, err := filestore.New(t.TempDir())
		require.NoError(t, err)
		return store
	}
	for name, test := range map[string]struct {
		open func() snapshot.Store
		many int
	}{
		"memory":    {func() snapshot.Store { return memstore.New() }, 2000},
		"directory": {directory, 150},
	} {
		t.Run(name, func(t *testing.T) {
			costOf := func(runs int) float64 {
				store := test.open()
				for i := range runs {
					_, err := store.Create(t.Context(), &snapshot.Run{Info: snapshot.Info{RunID: fmt.Sprintf("run-%05d", i), Status: snapshot.StatusCompleted}})
					require.NoError(t, err)
				}
				h, err := streamer.New(stored.New(store), streamer.Options{})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, h.Close(context.WithoutCancel(t.Context()))) })
				return testing.AllocsPerRun(10, func() {
					w := httptest.NewRecorder()
					req := httptest.NewRequest(http.MethodGet, "http://localhost/api/runs?limit=1", nil)
					req.RemoteAddr = "127.0.0.1:1234"
					h.ServeHTTP(w, req)
					require.Equal(t, http.StatusOK, w.Code, w.Body)
					require.Contains(t, w.Body.String(), fmt.Sprintf(`"total":%d,`, runs))
				})
			}
			few, many := costOf(10), costOf(test.many)
			assert.InDelta(t, few, many, 100, "number of allocations; pools save a varying number of them, with the race detector at random")
		})
	}
}
