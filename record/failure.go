package record

import "time"

// A Failure is an attempt of a call that failed.
type Failure struct {
	Address Address
	Class   Class
	Err     error
	Time    time.Time
}

// Message returns the text of the error, or its type if the method that returns the text panics.
func (f *Failure) Message() string { return textOf(f.Err) }
