// Package mark holds the marks of core.Permanent and core.Retryable, which are
// made in package core and classified in package record.
package mark
