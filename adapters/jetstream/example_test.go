package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/state"
)

// Two processes share a store. The second continues a run where the first left off.
func Example() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	for _, process := range []string{"first", "second"} {
		conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())
		if err != nil {
			panic(err)
		}
		store, err := jetstream.Open(ctx, conn, jetstream.Options{})
		if err != nil {
			panic(err)
		}
		st, err := state.Open(ctx, store, "run-1")
		if err != nil {
			panic(err)
		}
		n, _, err := state.Get[int](st.Context(ctx), "opened")
		if err == nil {
			err = state.Put(st.Context(ctx), "opened", n+1)
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(process, "process, opened before:", n)
		if err := st.Close(); err != nil {
			panic(err)
		}
		if err := store.Close(); err != nil {
			panic(err)
		}
		conn.Close()
	}
	// Output:
	// first process, opened before: 0
	// second process, opened before: 1
}

// serve starts a server; it takes the place of nats-server -js.
func serve() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "jetstream")
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server does not accept connections")
	}
	return s.ClientURL(), func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
