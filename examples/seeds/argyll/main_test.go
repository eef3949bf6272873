package main

import (
	"context"
	"fmt"
)

func Example() {
	fmt.Println(run(context.Background()))
	// Output:
	// ["done /a" "done /b" "done /c" ""], 3 charged, 1 failed
	// map[work_failed:1 work_not_completed:6 work_retry_scheduled:6 work_started:10 work_succeeded:3]
	// <nil>
}
