package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/storekit/sqlitestore"
	"github.com/reprise-go/reprise/state"
)

type number struct{ N int }

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	double := decorators.Tool("double", "doubles a number", func(_ context.Context, in number) (int, error) { return 2 * in.N, nil })

	for range 2 { // the second process continues the run of the first
		st, err := state.Open(ctx, store, "run-1")
		if err != nil {
			fmt.Println(err)
			return
		}
		n, err := double.Call(st.Context(ctx), number{21})
		fmt.Println(n, err, st.Report().Restored)
		if err := st.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 42 <nil> 0
	// 42 <nil> 1
}
