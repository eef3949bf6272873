package state_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

type order struct {
	Item string `json:"item"`
}

// A run remembers what its calls did. A handler gets the run from its context.
func Example() {
	reserve := decorators.Tool("reserve", "Reserves an item.",
		func(ctx context.Context, in order) (string, error) {
			state.From(ctx).Log(slog.LevelInfo, "looking for "+in.Item, nil)
			if err := state.Put(ctx, "reserved", in); err != nil {
				return "", err
			}
			return "shelf 4", nil
		})

	st := state.New(state.WithRunID("order-7"))
	ctx := st.Context(context.Background())
	where, err := reserve.Call(ctx, order{Item: "lamp"})
	fmt.Println(where, err)

	reserved, ok, err := state.Get[order](ctx, "reserved")
	fmt.Println(reserved.Item, ok, err)

	fmt.Println(st.Close(), st.Status())
	records, err := st.Records(context.Background())
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		fmt.Printf("%d %v %v %q\n", r.Seq, r.Kind, r.Status, r.Name)
	}
	// Output:
	// shelf 4 <nil>
	// lamp true <nil>
	// <nil> completed
	// 1 run started ""
	// 2 tool_call started "reserve"
	// 3 log recorded ""
	// 4 value recorded "reserved"
	// 5 tool_call completed "reserve"
	// 6 run completed ""
}

func ExampleExecutionState_Interrupt() {
	st := state.New()
	defer st.Close()
	wait := decorators.Tool("wait", "Waits until it is interrupted.",
		func(ctx context.Context, _ struct{}) (string, error) {
			st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			<-ctx.Done()
			return "", ctx.Err()
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited}))
	_, err := wait.Call(st.Context(context.Background()), struct{}{})

	var interrupted *core.InterruptedError
	fmt.Println(errors.As(err, &interrupted), interrupted.By, interrupted.Message)
	// Output: true ops deploy
}
