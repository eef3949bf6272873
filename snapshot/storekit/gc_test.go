package storekit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

func TestRunsThatReplaceDeletedOnesAreReadToo(t *testing.T) {
	lists := [][]string{{"a", "b", "e"}, {"a", "c", "e"}, {"a", "d", "e"}} // b, c and d are new runs, and e is created again
	deleted := map[string]bool{"b": true, "c": true}
	var read []string
	require.NoError(t, storekit.ReadAll(
		func() ([]string, error) {
			next := lists[0]
			lists = lists[1:]
			return next, nil
		},
		func(runID string) error {
			read = append(read, runID)
			if deleted[runID] || runID == "e" && len(lists) > 1 {
				return fmt.Errorf("run %s: %w", runID, snapshot.ErrNotFound)
			}
			return nil
		}))
	assert.Equal(t, []string{"a", "b", "e", "c", "e", "d"}, read)

	failure := errors.New("the disk is broken")
	require.ErrorIs(t, storekit.ReadAll(func() ([]string, error) { return nil, failure }, nil), failure)
	require.ErrorIs(t, storekit.ReadAll(func() ([]string, error) { return []string{"a"}, nil }, func(string) error { return failure }), failure)
}
