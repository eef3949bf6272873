package live_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
)

type file struct {
	Name string `json:"name"`
}

func Example() {
	read := decorators.Tool("read", "Reads a file.", func(ctx context.Context, in file) (string, error) {
		for page := 1; page <= 2; page++ {
			live.Emit(ctx, live.Delta{Part: live.PartProgress, Name: in.Name, Text: fmt.Sprintf("page %d of 2", page)})
		}
		return "done", nil
	})
	ctx := live.Watch(context.Background(), func(d live.Delta) { fmt.Println(d.Part, d.Name, d.Text) })
	fmt.Println(read.Call(ctx, file{"a.pdf"}))
	// Output:
	// progress a.pdf page 1 of 2
	// progress a.pdf page 2 of 2
	// done <nil>
}
