package jetstream_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// stores returns a function that opens another store on the same server each time it is called.
func stores(t *testing.T, o ...jstest.Option) func(t *testing.T) snapshot.Store {
	conn := jstest.Start(t, o...).Connect()
	var n atomic.Int32
	return func(t *testing.T) snapshot.Store {
		t.Helper()
		return open(t, conn, jetstream.Options{Name: fmt.Sprint("s", n.Add(1)), Lease: longLease})
	}
}

func TestStoreKeepsTheRulesOfStores(t *testing.T) {
	t.Parallel()
	storetest.Run(t, stores(t))
}

func TestStoreKeepsTheRulesOfSharedStores(t *testing.T) {
	t.Parallel()
	storetest.RunShared(t, shared(t))
}

// TestStoreKeepsTheRulesOfCrashes closes a store in place of a crash: like a crash, this ends the
// session without closing the journals.
func TestStoreKeepsTheRulesOfCrashes(t *testing.T) {
	t.Parallel()
	processes := shared(t)
	storetest.RunCrash(t, func(t *testing.T) (snapshot.Store, func() snapshot.Store) {
		another := processes(t)
		first := another()
		return first, func() snapshot.Store {
			if err := first.(*jetstream.Store).Close(); err != nil {
				t.Error(err)
			}
			return another()
		}
	})
}

func TestArtifactsKeepTheRulesOfArtifactStores(t *testing.T) {
	t.Parallel()
	open := stores(t)
	storetest.RunArtifacts(t, func(t *testing.T) snapshot.ArtifactStore { return open(t) })
}

// shared starts a server and returns a function. Each call to this function chooses a new store on
// the server, and returns a function that opens this store over a new connection each time.
func shared(t *testing.T) func(t *testing.T) func() snapshot.Store {
	server := jstest.Start(t)
	var n atomic.Int32
	return func(t *testing.T) func() snapshot.Store {
		name := fmt.Sprint("s", n.Add(1))
		return func() snapshot.Store {
			return open(t, server.Connect(), jetstream.Options{Name: name, Lease: longLease})
		}
	}
}

// open opens a store, which is closed at the end of the test. While the server is still removing
// the files of a deleted stream with the same name, it refuses the request, and open tries again.
func open(t testing.TB, conn *nats.Conn, o jetstream.Options) *jetstream.Store {
	t.Helper()
	var s *jetstream.Store
	var err error
	require.Eventually(t, func() bool {
		s, err = jetstream.Open(t.Context(), conn, o)
		return !isBeingRemoved(err)
	}, time.Minute, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// isBeingRemoved reports whether err is the server's error JSStreamCreateErrF.
func isBeingRemoved(err error) bool {
	var refused *njs.APIError
	return errors.As(err, &refused) && refused.ErrorCode == 10049
}
