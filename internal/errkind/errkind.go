package errkind

import "fmt"

// New returns an error with the formatted text. errors.Is finds kind in it.
func New(kind error, format string, args ...any) error {
	return &kindError{fmt.Sprintf(format, args...), kind}
}

type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }
