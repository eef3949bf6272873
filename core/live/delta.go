package live

import (
	"github.com/reprise-go/reprise/internal/enum"
	"github.com/reprise-go/reprise/record"
)

// A Delta is a piece of what a call is producing, shown while the call runs: the next words of a
// model's answer, or the progress of a tool. Deltas are not records: they have no number and are
// not stored, and what they show is final only once the call has its outcome.
type Delta struct {
	RunID   string         `json:"run_id,omitempty"`
	Address record.Address `json:"address"` // of the call; zero outside a run
	Attempt int            `json:"attempt"` // from 0; the output of a later attempt replaces that of earlier ones
	Part    Part           `json:"part"`
	Index   int            `json:"index,omitempty"` // of the tool call that the piece belongs to
	Name    string         `json:"name,omitempty"`  // of the requested tool, or of the source of the progress
	ID      string         `json:"id,omitempty"`    // the model's ID for the tool call; set in at least one piece if it is known before the end
	Text    string         `json:"text,omitempty"`
}

// A Part is the kind of a [Delta].
type Part uint8

// The parts of what a call produces.
const (
	PartBegin     Part = iota + 1 // an attempt begins: what earlier attempts and calls inside them have shown is void
	PartText                      // the answer
	PartReasoning                 // the model's thoughts
	PartToolCall                  // the arguments of tool call Index, which requests the tool Name
	PartProgress                  // what a tool reports about its progress
	PartEnd                       // what the attempt has shown so far is complete; only an agent or a tool may show more
	partEnd
)

var partNames = [partEnd]string{
	PartBegin: "begin", PartText: "text", PartReasoning: "reasoning",
	PartToolCall: "tool_call", PartProgress: "progress", PartEnd: "end",
}

// String returns the name on the wire, such as "tool_call".
func (p Part) String() string { return enum.Name(partNames[:], uint8(p), "part") }

// MarshalText writes the name on the wire.
func (p Part) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (p *Part) UnmarshalText(text []byte) error {
	return enum.Parse(partNames[:], text, "part", (*uint8)(p))
}
