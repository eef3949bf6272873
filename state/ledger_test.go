package state_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/reprise-go/reprise/internal/testkit"
)

// TestLedgerAgreesWithACountByItsDefinitions compares the ledger's counts with counts computed from
// their definitions, for runs that end in every possible way.
func TestLedgerAgreesWithACountByItsDefinitions(t *testing.T) {
	records := 0
	for seed := range testkit.Seeds(120) {
		synctest.Test(t, func(t *testing.T) {
			history := testkit.Workshop(t, seed)
			rng := rand.New(rand.NewPCG(seed, 3))
			testkit.RequireLedger(t, history, func(int) bool { return rng.IntN(4) == 0 })
			records += len(history)
		})
	}
	t.Logf("%d records", records)
}
