// Package mark defines the marks of core.Permanent, core.Retryable and core.InDoubt, which
// are set in package core and classified in package record.
package mark
