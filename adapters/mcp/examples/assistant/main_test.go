package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// The example starts its own program as a server.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "notes" {
		if err := serveNotes(context.Background(), os.Args[2]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func Example() {
	fmt.Println(run(context.Background()))
	// Output:
	// the run asks: tool "notes_write" has begun (attempt 1), and it is not known whether it took effect: has it?
	// the notes contain: tomorrow: sunny in Lisbon
	// It is in your notes.
	// <nil>
}
