package service_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream/service"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/snapshot"
)

// A patientServer refuses as many of its next clients as refuse says.
type patientServer struct{ refuse atomic.Int32 }

func (p *patientServer) Check(server.ClientAuthentication) bool { return p.refuse.Add(-1) < 0 }

// A restarted server may refuse its users for a moment, for example while it loads their accounts.
// The store comes back, as it does after any other outage.
func TestStoreComesBackAfterTheServerHasRefusedItsUser(t *testing.T) {
	free, err := ports.Free(1)
	require.NoError(t, err)
	var users patientServer
	dir := t.TempDir()
	start := func() (stop func()) {
		s, err := server.NewServer(&server.Options{
			ServerName: "one", Host: "127.0.0.1", Port: free[0], NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir,
			CustomClientAuthentication: &users,
		})
		require.NoError(t, err)
		s.Start()
		require.True(t, s.ReadyForConnections(time.Minute))
		return func() { s.Shutdown(); s.WaitForShutdown() }
	}
	stop := start()
	store, _, done, err := service.Open(t.Context(), fmt.Sprintf("nats://127.0.0.1:%d?lease=3s", free[0]))
	require.NoError(t, err)
	defer done()
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, nil)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)

	stop()
	users.refuse.Store(4)
	defer start()()
	for began := time.Now(); ; {
		if _, err = store.Info(t.Context(), "run"); err == nil {
			break
		}
		require.Less(t, time.Since(began), 30*time.Second, err)
	}
	require.Negative(t, users.refuse.Load(), "the client was refused four times")
}
