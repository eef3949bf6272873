package postgres_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/state"
)

type number struct{ N int }

// The second process finds the calls of the first. Without a server, the example only prints the
// expected output.
func Example() {
	ctx := context.Background()
	url, stop := serverOfExample(ctx)
	defer stop()
	if url == "" {
		fmt.Println("42 <nil> 0\n42 <nil> 1") // without a server
		return
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool, "example"); err != nil {
		panic(err)
	}
	double := decorators.Tool("double", "doubles a number", func(_ context.Context, in number) (int, error) { return 2 * in.N, nil })
	for range 2 {
		store, err := postgres.Open(ctx, pool, postgres.Options{Schema: "example"})
		if err != nil {
			panic(err)
		}
		st, err := state.Open(ctx, store, "run-1")
		if err != nil {
			panic(err)
		}
		n, err := double.Call(st.Context(ctx), number{21})
		fmt.Println(n, err, st.Report().Restored)
		if err := st.Close(); err != nil {
			panic(err)
		}
		if err := store.Close(); err != nil {
			panic(err)
		}
	}
	// Output:
	// 42 <nil> 0
	// 42 <nil> 1
}

// serverOfExample starts a server, so that each example begins without any runs.
func serverOfExample(ctx context.Context) (url string, stop func()) {
	dir, err := os.MkdirTemp("", "reprise-postgres")
	if err != nil {
		panic(err)
	}
	free, err := ports.Free(1)
	if err != nil {
		panic(err)
	}
	server, err := pgserver.Start(ctx, dir, free[0])
	if err != nil {
		return "", func() { _ = os.RemoveAll(dir) }
	}
	return server.URL, func() { _, _ = server.Stop(), os.RemoveAll(dir) }
}
