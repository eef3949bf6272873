package service

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

// A lateStore cannot watch records until begin is closed. If fails is set, the first watch then
// fails.
type lateStore struct {
	snapshot.Store
	begin chan struct{}
	fails bool
}

func (s *lateStore) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	if !o.Records {
		return s.Store.Watch(ctx, o)
	}
	return func(yield func(snapshot.Change, error) bool) {
		<-s.begin
		if s.fails {
			s.fails = false
			yield(snapshot.Change{}, snapshot.ErrUnavailable)
			return
		}
		s.Store.Watch(ctx, o)(yield)
	}
}

// A service follows the runs of other processes. A client that connects before the service begins
// to follow them still receives all records.
func TestClientsThatConnectEarlyReceiveAllRecords(t *testing.T) {
	for name, c := range map[string]struct {
		exists bool // the run is open in another process when the client connects
		fails  bool
	}{
		"a new run, followed late":    {false, false},
		"an open run, followed late":  {true, false},
		"a new run, after an error":   {false, true},
		"an open run, after an error": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := &lateStore{Store: memstore.New(), begin: make(chan struct{}), fails: c.fails}
			began, gate := make(chan struct{}), make(chan struct{})
			echo := decorators.Agent("echo", "", func(_ context.Context, in string) (string, error) {
				close(began)
				<-gate
				return in, nil
			})
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			other, err := runner.New(store, runner.Options{Grace: -1})
			require.NoError(t, err)
			runner.Register(other, echo)
			otherServed := make(chan error, 1)
			go func() { otherServed <- other.Serve(ctx) }()
			ready, served := make(chan string, 1), make(chan error, 1)
			start := func() {
				_, err := other.Start(ctx, "echo", "x", "hi", runner.StartOptions{})
				require.NoError(t, err)
				<-began
			}
			if c.exists {
				start()
			}
			go func() {
				served <- Serve(ctx, Options{Store: store, Shared: true, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}, func(*runner.Runner) error { return nil })
			}()
			connected, names := make(chan struct{}), make(chan []string, 1)
			client := &streamer.Client{URL: <-ready, Run: "x", UntilEnd: true, Connected: func() { close(connected) }}
			go func() {
				var all []string
				for e, err := range client.Events(t.Context()) {
					assert.NoError(t, err)
					all = append(all, e.Name)
				}
				names <- all
			}()
			<-connected
			if !c.exists {
				start()
			}
			close(gate)
			info, err := other.Wait(ctx, "x")
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
			close(store.begin)
			all := <-names
			require.NotEmpty(t, all)
			assert.Equal(t, "run_recorded", all[0])
			assert.Len(t, all, int(info.LastSeq))
			assert.Equal(t, "run_completed", all[len(all)-1])
			cancel()
			require.NoError(t, <-served)
			require.NoError(t, <-otherServed)
		})
	}
}
