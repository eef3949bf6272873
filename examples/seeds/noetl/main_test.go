package main

import (
	"context"
	"fmt"
)

func Example() {
	fmt.Println(run(context.Background()))
	// Output:
	// /data
	//   action_started
	//   action_error
	//   step_retry
	//   action_started
	//   action_error
	//   step_retry
	//   action_started
	//   action_completed
	//   step_completed
	// "done /data", failed: false
	// /declined
	//   action_started
	//   action_error
	//   step_failed_terminal
	//   execution_failed
	// "", failed: true
	// <nil>
}
