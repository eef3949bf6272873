// Package mark defines the error types behind core.Permanent, core.Retryable and core.InDoubt.
// Package core wraps errors in them, and package record classifies them.
package mark
