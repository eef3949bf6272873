// Package mark holds the marks of core.Permanent, core.Retryable and core.InDoubt, which are
// made in package core and classified in package record.
package mark
