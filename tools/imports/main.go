// Command imports writes a table of what each package may import into CONTRIBUTING.md. It makes the
// table from the depguard rules in .golangci.yml, which the linter enforces. A test fails if the
// table does not match the rules:
//
//	cd tools && go run ./imports
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := write("../.golangci.yml", "../CONTRIBUTING.md"); err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(1)
	}
}

// write replaces the table in the document with one that it makes from the rules.
func write(rules, document string) error {
	data, err := os.ReadFile(rules)
	if err != nil {
		return err
	}
	table, err := tableOf(data)
	if err != nil {
		return fmt.Errorf("%s: %w", rules, err)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, _, after, err := cut(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(before+table+after), 0o644)
}
