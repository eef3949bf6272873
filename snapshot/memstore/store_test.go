package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestStoreKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(*testing.T) snapshot.Store { return memstore.New() })
}

func TestArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return new(memstore.Artifacts) })
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return memstore.New() })
}

// TestAPageCostsTheSameInALargeStore also checks pages with counts.
func TestAPageCostsTheSameInALargeStore(t *testing.T) {
	costOf := func(runs int) float64 {
		store := memstore.New()
		for i := range runs {
			_, err := store.Create(t.Context(), &snapshot.Run{Info: snapshot.Info{RunID: fmt.Sprint("run-", i), Status: snapshot.StatusCompleted}})
			require.NoError(t, err)
		}
		return testing.AllocsPerRun(10, func() {
			_, err := store.Update(t.Context(), "run-1", func(i *snapshot.Info) error { i.Pinned = !i.Pinned; return nil })
			require.NoError(t, err)
			page, err := store.List(t.Context(), snapshot.Filter{Limit: 1, Count: true})
			require.NoError(t, err)
			require.Equal(t, map[snapshot.Status]int{snapshot.StatusCompleted: runs}, page.Counts)
			require.Equal(t, "run-1", page.Runs[0].RunID)
			require.NotEmpty(t, page.Next)
		})
	}
	assert.InDelta(t, costOf(10), costOf(3000), 3)
}

// TestListsFollowEveryChange compares pages and counts with those computed from all infos, after
// each of many random changes.
func TestListsFollowEveryChange(t *testing.T) {
	store := memstore.New()
	random := rand.New(rand.NewPCG(1, 2))
	statuses := []snapshot.Status{snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusFailed, snapshot.StatusCompleted}
	filters := []snapshot.Filter{
		{},
		{Limit: 3},
		{Status: statuses[:1], Limit: 2},
		{Program: "a"},
		{Text: "n-1", Limit: 4},
		{Sort: snapshot.SortCreated, Limit: 5},
		{Only: func(id string) bool { return id > "run-20" }},
	}
	for range 600 {
		id := fmt.Sprint("run-", random.IntN(40))
		status := statuses[random.IntN(len(statuses))]
		switch random.IntN(5) {
		case 0:
			if err := store.Delete(t.Context(), id); err != nil {
				require.ErrorIs(t, err, snapshot.ErrNotFound)
			}
		case 1:
			j, err := store.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
			require.NoError(t, err)
			require.NoError(t, j.Close(t.Context(), snapshot.End{Status: status}))
		case 2:
			_, err := store.Create(t.Context(), &snapshot.Run{Info: snapshot.Info{RunID: id, Status: status, Program: []string{"a", "b"}[random.IntN(2)]}})
			if err != nil {
				require.ErrorIs(t, err, snapshot.ErrExists)
			}
		default:
			_, err := store.Update(t.Context(), id, func(i *snapshot.Info) error { i.Status = status; return nil })
			if err != nil {
				require.ErrorIs(t, err, snapshot.ErrNotFound)
			}
		}
		var all []snapshot.Info
		for n := range 40 {
			if info, err := store.Info(t.Context(), fmt.Sprint("run-", n)); err == nil {
				all = append(all, info)
			}
		}
		for _, f := range filters {
			f.Count = true
			want, err := storekit.Page(f, all)
			require.NoError(t, err)
			got, err := store.List(t.Context(), f)
			require.NoError(t, err)
			require.Equal(t, want.Runs, got.Runs, "%+v", f)
			require.Equal(t, want.Counts, got.Counts, "%+v", f)
			if f.Limit > 0 && want.Next != "" {
				f.After, f.Count = got.Next, false
				want, err = storekit.Page(f, all)
				require.NoError(t, err)
				got, err = store.List(t.Context(), f)
				require.NoError(t, err)
				require.Equal(t, want.Runs, got.Runs, "%+v", f)
			}
		}
	}
}
