package storetest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// counting is a user's store. It counts calls to Open.
type counting struct {
	*memstore.Store
	opened *atomic.Int32
}

func newCounting() counting { return counting{memstore.New(), new(atomic.Int32)} }

func (s counting) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	if err == nil {
		s.opened.Add(1)
	}
	return j, err
}

// This test is all that is needed to check a store.
func TestCountingKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(*testing.T) snapshot.Store { return newCounting() })
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return newCounting() })
}

// Records is useful for further tests of a store.
func Example() {
	ctx := context.Background()
	s := newCounting()
	j, err := s.Open(ctx, "run-1", snapshot.OpenOptions{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := j.Append(storetest.Records(1, 3)...); err != nil {
		fmt.Println(err)
	}
	if err := j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted}); err != nil {
		fmt.Println(err)
	}
	found, err := s.Load(ctx, "run-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	third, err := found.Record(3)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.opened.Load(), found.Len(), third.Address)
	// Output: 1 3 assistant/get_weather#4
}
