package record

import "github.com/reprise-go/reprise/internal/enum"

// AwaitKind is what a question or a suspended call waits for.
type AwaitKind uint8

// The kinds of waiting. If a call waits for a time or a signal, no person is asked.
const (
	AwaitAnswer   AwaitKind = iota + 1 // an answer from a person or a program
	AwaitDecision                      // a decision about a call in doubt
	AwaitTime                          // the end of a sleep, or of a parked call's wait
	AwaitSignal                        // a signal with a name
	awaitEnd
)

var awaitNames = [awaitEnd]string{AwaitAnswer: "answer", AwaitDecision: "decision", AwaitTime: "time", AwaitSignal: "signal"}

// String returns the wire name, such as "answer", or an empty string for 0.
func (a AwaitKind) String() string { return enum.Name(awaitNames[:], uint8(a), "awaits") }

// MarshalText returns the wire name.
func (a AwaitKind) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (a *AwaitKind) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*a = 0
		return nil
	}
	return enum.Parse(awaitNames[:], text, "kind of waiting", (*uint8)(a))
}

// NeedsAnswer reports whether the wait ends only when somebody answers.
func (a AwaitKind) NeedsAnswer() bool { return a == AwaitAnswer || a == AwaitDecision }

// Awaits returns what the question in r, or the call that r suspends, waits for. If the question
// does not specify it, Awaits returns AwaitAnswer. For other records it returns 0.
func (r *Record) Awaits() AwaitKind {
	switch {
	case r.Kind == KindQuestion:
		if r.Detail == nil || r.Detail.Awaits == 0 {
			return AwaitAnswer
		}
		return r.Detail.Awaits
	case r.Kind.IsCall() && r.Status == StatusAwaiting:
		if e := r.Interrupt(); e != nil {
			return e.Awaits
		}
	}
	return 0
}
