package service

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

func TestStoreOfAURLIsServedAndClosed(t *testing.T) {
	store := memstore.New()
	ctx, stop := context.WithCancel(t.Context())
	var opened string
	closed := errors.New("closed")
	o := Options{Addr: "127.0.0.1:0", OpenStore: func(_ context.Context, url string) (snapshot.Store, runner.Queue, func() error, error) {
		opened = url
		return store, nil, func() error { return closed }, nil
	}}
	err := serveOn(ctx, &o, "some://store", func(r *runner.Runner) error {
		assert.Equal(t, snapshot.Store(store), r.Store())
		stop()
		return nil
	})
	require.ErrorIs(t, err, closed)
	assert.Equal(t, "some://store", opened)
	assert.True(t, o.Shared)
}

func TestFlagStoreExistsIfAStoreCanBeOpened(t *testing.T) {
	var out strings.Builder
	unset := func(string) (string, bool) { return "", false }
	open := func(context.Context, string) (snapshot.Store, runner.Queue, func() error, error) {
		return nil, nil, nil, nil
	}
	s, err := parse([]string{"program", "-store", "some://store"}, Options{OpenStore: open}, unset, &out)
	require.NoError(t, err)
	assert.Equal(t, "some://store", s.store)
	_, err = parse([]string{"program", "-store", "some://store"}, Options{}, unset, &out)
	require.ErrorContains(t, err, "not defined: -store")
}

// Records from another process reach the clients of this process's dashboard.
func TestSharedStoreIsFollowed(t *testing.T) {
	store := memstore.New()
	ctx, stop := context.WithCancel(t.Context())
	served, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		served <- Serve(ctx, Options{Store: store, Shared: true, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}, register)
	}()
	url := <-ready
	other, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	require.NoError(t, register(other))
	elsewhere, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- other.Serve(elsewhere) }()
	status, body := do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"}}`)
	require.Equal(t, 201, status, body)
	until(t, url, "e", "run_completed")
	end()
	require.NoError(t, <-ended)
	stop()
	require.NoError(t, <-served)
}
