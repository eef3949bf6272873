package redact_test

import (
	"fmt"

	"github.com/reprise-go/reprise/record/redact"
)

func Example() {
	rules, err := redact.New(`sk-[a-z0-9]+`, `(?s)-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----`)
	if err != nil {
		panic(err)
	}
	fmt.Println(rules.Text("the key is sk-abc123."))

	stream := rules.Stream()
	for _, piece := range []string{"the key ", "is s", "k-abc", "123.", " As you know."} {
		fmt.Printf("%q\n", stream.Add(piece))
	}
	fmt.Printf("%q\n", stream.End())
	// Output:
	// the key is (redacted).
	// "the key "
	// "is "
	// ""
	// "(redacted)."
	// " As you know."
	// ""
}
