package main

import (
	"context"
	"fmt"
)

func Example() {
	fmt.Println(run(context.Background()))
	// Output:
	// unavailable 2 times: "done /records", <nil>
	// unavailable 9 times: "", create-record#2: exhausted after 3 attempts: 503 Service Unavailable: try again
	// 6 claims, 4 retries, 1 exhausted
	// <nil>
}
