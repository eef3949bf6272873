package memstore_test

import (
	"testing"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestStoreKeepsTheRulesOfStores(t *testing.T) {
	storetest.Run(t, func(*testing.T) snapshot.Store { return memstore.New() })
}

func TestArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return new(memstore.Artifacts) })
	storetest.RunArtifacts(t, func(*testing.T) snapshot.ArtifactStore { return memstore.New() })
}
