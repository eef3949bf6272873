package record

import "github.com/reprise-go/reprise/internal/enum"

// Asks says what a question or a suspended call waits for.
type Asks uint8

// What a call waits for. No person is asked if it waits for a time or for a signal.
const (
	AsksAnswer Asks = iota + 1 // an answer from a person or a program
	AsksDoubt                  // a decision about a call in doubt
	AsksTime                   // the end of a sleep, or of the wait of a parked call
	AsksSignal                 // a signal with a name; no person is asked for it
	asksEnd
)

var asksNames = [asksEnd]string{AsksAnswer: "answer", AsksDoubt: "doubt", AsksTime: "time", AsksSignal: "signal"}

// String returns the name on the wire, such as "answer"; empty for 0.
func (a Asks) String() string { return enum.Name(asksNames[:], uint8(a), "asks") }

// MarshalText returns the name on the wire.
func (a Asks) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (a *Asks) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*a = 0
		return nil
	}
	return enum.Parse(asksNames[:], text, "asks", (*uint8)(a))
}

// NeedsAnswer reports whether the wait ends only when somebody answers.
func (a Asks) NeedsAnswer() bool { return a == AsksAnswer || a == AsksDoubt }

// Asks returns what the question of r, or the call that r suspends, waits for. It is 0 for other
// records. For a question that does not say, it is AsksAnswer.
func (r *Record) Asks() Asks {
	switch {
	case r.Kind == KindQuestion:
		if r.Detail == nil || r.Detail.Asks == 0 {
			return AsksAnswer
		}
		return r.Detail.Asks
	case r.Kind.IsCall() && r.Status == StatusAwaiting:
		if e := r.Interrupt(); e != nil {
			return e.Asks
		}
	}
	return 0
}
