package errtree_test

import (
	"errors"
	"fmt"
	"io"

	"github.com/reprise-go/reprise/internal/errtree"
)

func ExampleWalk() {
	err := fmt.Errorf("read: %w", errors.Join(io.EOF, io.ErrClosedPipe))
	errtree.Walk(err, func(err error) { fmt.Printf("%T\n", err) })
	// Output:
	// *fmt.wrapError
	// *errors.joinError
	// *errors.errorString
	// *errors.errorString
}

// selfish is an error that wraps itself.
type selfish struct{}

func (selfish) Error() string { return "selfish" }
func (selfish) Unwrap() error { return selfish{} }

func ExampleWalk_endless() {
	visited := 0
	ends := errtree.Walk(selfish{}, func(error) { visited++ })
	fmt.Println(ends, visited)
	// Output: false 10000
}
