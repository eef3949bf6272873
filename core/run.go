package core

import (
	"context"
	"sync"
	"sync/atomic"
)

// Run is what a call needs from the run it belongs to. Package state
// implements it.
type Run interface {
	// Append gives each record its run ID, its generation and the next Seq,
	// keeps all of them or none, and publishes them. They come from s: the
	// attempt that they are about, or where they were logged. What s no longer
	// accepts (Scope.Accepts) is ErrAttemptOver; nothing is appended once the
	// run is closed.
	Append(s *Scope, first Record, more ...Record) error

	// Recall returns what restored history says of the call at the address of
	// s, nil if it says nothing: the call is new. The hash is that of its input.
	Recall(s *Scope, kind Kind, input Hash) *Recalled

	// Keep stores an encoded output too large for a record and returns a
	// reference to it.
	Keep(ctx context.Context, encoded []byte) (reference string, err error)

	// Settings returns what holds for every call of the run. It is the same
	// pointer each time, and nothing behind it changes but its counters.
	Settings() *Settings
}

// Settings is what holds for every call of a run.
type Settings struct {
	RunID string

	// RetryByKind and Retry are the two levels below an actor's own
	// configuration; nil where a level says nothing.
	RetryByKind [KindAgent + 1]*Policy
	Retry       *Policy

	// Seed is where jitter comes from.
	Seed uint64

	// Payloads keeps inputs and outputs in records. Without it nothing is
	// encoded.
	Payloads bool

	// Strict says that the run is a replay which waits for nothing: no attempt
	// follows a failed one.
	Strict bool

	// Recalls says that there is restored history to ask.
	Recalls bool

	// Claimed, if set, is told each address that is claimed for a call or a
	// group, by the scope that numbers it and in the order of claiming, with
	// the hash of the input; that of a group is zero.
	Claimed func(s *Scope, a Address, input Hash)

	// Outputs keeps outputs and the hashes of inputs in records, and the input
	// of root calls: what a later run needs to recall them.
	Outputs bool

	// RoundTrip hands out outputs and errors as restored ones.
	RoundTrip bool

	// Artifacts hands outputs above MaxInline to Keep.
	Artifacts bool

	// Check, if set, asks an external checker whether to interrupt the run,
	// and does so: afterwards the contexts tell. It is called at the points
	// where interrupts are noticed, and every 100 ms during waits.
	Check func(context.Context)

	// Late counts attempts that were abandoned, and those of them that came
	// back after all.
	Late struct{ Abandoned, Returned atomic.Int64 }

	told    sync.Pool // of *Record, for the next that is told
	waiting waitQueues
}

// MaxInline is the size in bytes of the largest encoded output that is kept
// in its record rather than as an artifact.
const MaxInline = 64 << 10
