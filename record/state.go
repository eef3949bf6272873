package record

import "github.com/reprise-go/reprise/internal/enum"

// State says how far a call has progressed.
//
// Progress.Phase is the state according to the records of the call alone. Call.State also takes the
// rest of the run into account. For example, a call that was running when its run was closed is
// stopped.
type State uint8

// The states of a call. A call is in exactly one of them.
const (
	StateNew       State = iota // no attempt began
	StateRunning                // an attempt has begun, and no record says how it ended
	StateWaiting                // the call waits for its next attempt, or for the end of a suspended sleep
	StateAsking                 // the call is suspended and is waiting for an answer
	StateStopped                // the call was interrupted, or the run was closed or crashed while the call ran or waited
	StateHeld                   // the attempt was interrupted before its handler ran; StateStopped in a Ledger
	StateCompleted              // the call completed
	StateFailed                 // the call failed for good
	StateRestored               // the outcome was recalled without its record having been added; only in a Ledger
)

var stateNames = []string{"", "running", "waiting", "asking", "stopped", "held", "completed", "failed", "restored"}

// String returns the wire name, such as "running", or an empty string for StateNew.
func (s State) String() string { return enum.Name(stateNames, uint8(s), "state") }

// MarshalText returns the wire name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (s *State) UnmarshalText(text []byte) error {
	return enum.Parse(stateNames, text, "state", (*uint8)(s))
}
