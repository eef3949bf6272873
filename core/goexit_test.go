package core_test

import "runtime"

// exit ends the goroutine as t.FailNow does in a test.
func exit() { runtime.Goexit() }
