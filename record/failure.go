package record

import "time"

// A Failure is a failed attempt of a call.
type Failure struct {
	Address Address
	Class   Class
	Err     error
	Time    time.Time
}

// Message returns the text of the error, or the type of the error if its Error method panics.
func (f *Failure) Message() string { return textOf(f.Err) }
