package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A process that starts runs for a service can wait for them without serving them itself.
func TestWaitReturnsWhenTheRunEndsInAnotherRunner(t *testing.T) {
	dir := t.TempDir()
	open := func() *runner.Runner {
		store, err := filestore.New(dir)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		r := newRunner(t, store, runner.Options{})
		return r
	}
	begun, end := make(chan struct{}), make(chan struct{})
	service, client := open(), open()
	for _, r := range []*runner.Runner{service, client} {
		runner.Register(r, agent("work", func(context.Context, word) (string, error) {
			close(begun)
			<-end
			return "done", nil
		}))
	}
	stop := serve(t, service)
	_, err := client.Start(t.Context(), "work", "a", word{"x"}, runner.StartOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // long enough never to expire
	defer cancel()
	ended := make(chan snapshot.Info, 1)
	go func() {
		info, err := client.Wait(ctx, "a")
		assert.NoError(t, err)
		ended <- info
	}()
	<-begun
	close(end)
	at := time.Now()
	assert.Equal(t, snapshot.StatusCompleted, (<-ended).Status)
	t.Logf("told after %v", time.Since(at))
	require.NoError(t, stop())
}
