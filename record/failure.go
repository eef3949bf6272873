package record

import "time"

// A Failure is an attempt of a call that failed.
type Failure struct {
	Address Address
	Class   Class
	Err     error
	Time    time.Time
}

// Message returns the text of the error; its type if it has none, since a method of it
// panics.
func (f *Failure) Message() string { return textOf(f.Err) }
