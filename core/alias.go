package core

import "github.com/reprise-go/reprise/record"

// ErrInterrupted is found by errors.Is in every [InterruptedError].
var ErrInterrupted = record.ErrInterrupted

// An InterruptedError is returned by a call that stopped without an outcome,
// and goes on when its run is resumed. It is not a failure: it is not retried.
type InterruptedError = record.InterruptedError

// Usage is what a call consumed at a metered service.
type Usage = record.Usage
