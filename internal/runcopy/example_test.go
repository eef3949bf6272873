package runcopy_test

import (
	"context"
	"fmt"
	"os"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func Example() {
	ctx, from, to := context.Background(), memstore.New(), memstore.New()
	st, err := state.Open(ctx, from, "run-1")
	if err != nil {
		panic(err)
	}
	if _, err := core.Step(st.Context(ctx), "large", func(context.Context) ([]byte, error) { return make([]byte, 200_000), nil }); err != nil {
		panic(err)
	}
	if err := st.Close(); err != nil {
		panic(err)
	}
	fmt.Println(runcopy.Runs(ctx, to, from, nil, os.Stdout))
	fmt.Println(runcopy.Verify(ctx, to, nil, os.Stdout))
	// Output:
	// run run-1 was copied
	// <nil>
	// ok       run-1: 4 records
	// <nil>
}
