package snapshot_test

import (
	"testing"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestMemoryStoreKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(*testing.T) snapshot.Store { return snapshot.NewMemoryStore() })
}

func TestMemoryArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return new(snapshot.MemoryArtifacts) })
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return snapshot.NewMemoryStore() })
}
