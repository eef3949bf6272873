// Command api lists the public surface of the modules that are released: each exported
// name with its type, a line each. A change of it must change api.txt, which a test
// compares:
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

// folders are those of the modules that are released.
var folders = []string{".", "adapters/eino", "adapters/jetstream", "adapters/mcp", "adapters/otel", "adapters/postgres"}
