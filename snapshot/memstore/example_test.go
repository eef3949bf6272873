package memstore_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A run in a store continues where it stopped.
func Example() {
	ctx, store := context.Background(), memstore.New()
	for range 2 {
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
		fmt.Println("opened before:", n)
		if err := st.Close(); err != nil {
			panic(err)
		}
	}
	// Output:
	// opened before: 0
	// opened before: 1
}
