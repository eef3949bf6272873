// Command api lists the public API of the released modules: one line for each exported
// name, with its type. A test compares the list with api.txt, so every change to the
// API must also change api.txt:
//
//	cd tools && go run ./api        # writes api/api.txt
//	git diff tools/api/api.txt      # what users will notice
package main

import (
	"fmt"
	"os"
)

func main() {
	lines, err := list("..", folders)
	if err == nil {
		err = os.WriteFile("api/api.txt", []byte(text(lines)), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

// folders are the folders of the released modules.
var folders = []string{".", "adapters/eino", "adapters/jetstream", "adapters/mcp", "adapters/otel", "adapters/postgres"}
