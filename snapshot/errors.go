package snapshot

import (
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// The errors that stores return. Compare them with errors.Is.
var (
	ErrNotFound    = errors.New("snapshot: not found")
	ErrExists      = errors.New("snapshot: the run already exists")
	ErrLocked      = errors.New("snapshot: the run is open for writing elsewhere")
	ErrClosed      = errors.New("snapshot: the journal is closed")
	ErrCorrupt     = errors.New("snapshot: damaged")
	ErrFormat      = errors.New("snapshot: unsupported format")
	ErrReset       = errors.New("snapshot: the cursor is not in the run's history")
	ErrFilter      = errors.New("snapshot: invalid filter")
	ErrUnavailable = errors.New("snapshot: the store is unavailable")

	// The errors of a journal that no longer owns its run.
	ErrFenced      = errors.New("snapshot: a later generation of the run exists")
	ErrMaybeStored = errors.New("snapshot: the lease has ended, and it is not known whether the last records were stored")
	ErrLease       = errors.New("snapshot: the lease on the run has ended")
)

// IsTemporary reports whether an operation that failed with err may succeed later. The run may have
// to be opened again first: a [Journal] that has failed stays unusable. IsTemporary returns true if
// err matches ErrUnavailable, ErrFenced, ErrMaybeStored or ErrLease.
func IsTemporary(err error) bool {
	for _, passing := range []error{ErrUnavailable, ErrFenced, ErrMaybeStored, ErrLease} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// A LockedError reports that a run is open for writing elsewhere. It matches
// ErrLocked.
type LockedError struct {
	RunID string
	Owner string // the writer's OpenOptions.Owner; empty if unknown
	PID   int    // the writer's process ID; 0 if unknown
}

// Error names the run and, if known, its writer.
func (e *LockedError) Error() string {
	var who string
	if e.PID > 0 {
		who = fmt.Sprintf(" in process %d", e.PID)
	}
	if e.Owner != "" {
		who += " by " + e.Owner
	}
	if who == "" {
		who = " elsewhere"
	}
	return fmt.Sprintf("snapshot: run %s is open for writing%s", e.RunID, who)
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// A CorruptError reports that stored data is damaged or incomplete. It matches ErrCorrupt.
type CorruptError struct {
	RunID   string // empty if unknown
	File    string // name of the damaged file; empty if the data is not from a file
	Offset  int64  // offset, in bytes, at which the damage begins
	LastSeq uint64 // number of the last record before the damage
	Err     error  // what is wrong
}

// Error describes where the damage is and what is wrong.
func (e *CorruptError) Error() string {
	var where strings.Builder
	where.WriteString("snapshot: ")
	if e.RunID != "" {
		fmt.Fprintf(&where, "run %s is ", e.RunID)
	}
	where.WriteString("damaged: ")
	if e.File != "" {
		where.WriteString(e.File + ", ")
	}
	return fmt.Sprintf("%sbyte %d, after record %d: %s", where.String(), e.Offset, e.LastSeq, textWithoutKind(e.Err, ErrCorrupt))
}

// Unwrap returns ErrCorrupt and Err.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// textWithoutKind returns the text of err without the text of its sentinel error, kind.
func textWithoutKind(err, kind error) string {
	return strings.TrimPrefix(err.Error(), kind.Error()+": ")
}

// errNewer returns the error for data written by a newer version of Reprise.
func errNewer(what string, version uint64) error {
	return fmt.Errorf("%w: %s has version %d, and this version of Reprise reads up to version %d; use a newer Reprise",
		ErrFormat, what, version, FormatVersion)
}

// Let errors.Is and errors.As find these errors in recorded errors, too.
func init() {
	record.RegisterError("snapshot.ErrNotFound", ErrNotFound)
	record.RegisterError("snapshot.ErrExists", ErrExists)
	record.RegisterError("snapshot.ErrLocked", ErrLocked)
	record.RegisterError("snapshot.ErrClosed", ErrClosed)
	record.RegisterError("snapshot.ErrCorrupt", ErrCorrupt)
	record.RegisterError("snapshot.ErrFormat", ErrFormat)
	record.RegisterError("snapshot.ErrReset", ErrReset)
	record.RegisterError("snapshot.ErrFilter", ErrFilter)
	record.RegisterError("snapshot.ErrUnavailable", ErrUnavailable)
	record.RegisterError("snapshot.ErrFenced", ErrFenced)
	record.RegisterError("snapshot.ErrMaybeStored", ErrMaybeStored)
	record.RegisterError("snapshot.ErrLease", ErrLease)
	record.RegisterError("snapshot.ErrPosted", ErrPosted)
	record.RegisterErrorType[*LockedError]("snapshot.LockedError")
	record.RegisterErrorType[*CorruptError]("snapshot.CorruptError")
}
