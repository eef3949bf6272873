package runcopy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A lossy store has lost its artifacts.
type lossy struct{ *memstore.Store }

func (lossy) Get(_ context.Context, reference string) ([]byte, error) {
	return nil, fmt.Errorf("%w: artifact %s", snapshot.ErrNotFound, reference)
}

func TestVerifyReportsMissingArtifactsAndContinues(t *testing.T) {
	s := memstore.New()
	for id, size := range map[string]int{"large": 200_000, "small": 2} {
		st, err := state.Open(t.Context(), s, id)
		require.NoError(t, err)
		_, err = core.Step(st.Context(t.Context()), "bytes", func(context.Context) ([]byte, error) { return make([]byte, size), nil })
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
	var out strings.Builder
	err := runcopy.Verify(t.Context(), lossy{s}, nil, &out)
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	assert.ErrorContains(t, err, "run large: ")
	assert.Contains(t, out.String(), "damaged  large\n")
	assert.Contains(t, out.String(), "ok       small: ")
	assert.ErrorIs(t, runcopy.Verify(t.Context(), s, []string{"none"}, &out), snapshot.ErrNotFound)
	require.NoError(t, runcopy.Verify(t.Context(), s, nil, &out))
}
