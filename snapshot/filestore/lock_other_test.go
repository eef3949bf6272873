//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filestore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

func TestNewFailsAtOnceOnASystemWithoutFileLocks(t *testing.T) {
	dir := t.TempDir() + "/data"
	_, err := filestore.New(dir)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "use another store")
	assert.NoDirExists(t, dir)
}
