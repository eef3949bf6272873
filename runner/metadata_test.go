package runner_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

func TestMetadataOfARunComesFromTheContextThatStartsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		r := newRunner(t, memstore.New(), runner.Options{Metadata: func(ctx context.Context, m *snapshot.Metadata) {
			if m.Custom == nil {
				m.Custom = make(map[string]string)
			}
			m.Custom["request"], _ = ctx.Value(key{}).(string)
		}})
		program := runner.Register(r, agent("echo", func(_ context.Context, in word) (string, error) { return in.Text, nil }))
		custom := map[string]string{"own": "1"}
		info, err := program.Start(context.WithValue(t.Context(), key{}, "r1"), "a", word{"x"}, runner.StartOptions{Metadata: snapshot.Metadata{Custom: custom}})
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"own": "1", "request": "r1"}, info.Metadata.Custom)
		assert.Equal(t, map[string]string{"own": "1"}, custom, "the metadata of the caller is not changed")

		info, err = program.Start(context.WithValue(t.Context(), key{}, "r2"), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		assert.Equal(t, "r1", info.Metadata.Custom["request"], "a run that was started before stays as it is")
	})
}
