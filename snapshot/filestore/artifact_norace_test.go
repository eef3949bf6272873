//go:build !race && (amd64 || arm64)

package filestore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// The data is never touched, so it takes no memory; the race detector would touch all of it.
func TestAnArtifactThatCouldNotBeReadIsRefused(t *testing.T) {
	artifacts, err := filestore.NewArtifacts(t.TempDir())
	require.NoError(t, err)
	_, err = artifacts.Put(t.Context(), make([]byte, 4<<30+1))
	require.ErrorContains(t, err, "the artifact has 4294967297 bytes; want at most 4294967296")
}
