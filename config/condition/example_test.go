package condition_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
)

func Example() {
	type Job struct {
		State string `json:"state"`
	}
	unfinished, err := condition.Compile("result.state == 'pending'")
	if err != nil {
		fmt.Println(err)
		return
	}
	polls := 0
	job := decorators.Tool("job", "The state of the job.",
		func(context.Context, struct{}) (Job, error) {
			if polls++; polls < 3 {
				return Job{"pending"}, nil
			}
			return Job{"done"}, nil
		},
		actors.WithRetry(core.RetryConfig{MaxAttempts: 10, InitialDelay: core.NoDelay, RetryWhen: unfinished.Holds}))

	out, err := job.Call(context.Background(), struct{}{})
	fmt.Println(out.State, polls, err)

	_, err = condition.Compile("result.state == 'pending' and atempt < 3")
	fmt.Println(err)
	// Output:
	// done 3 <nil>
	// 1:31: unknown name "atempt"; did you mean "attempt"?; want one of result, data, status_code, error, success, attempt, execution_id, node_id
}
