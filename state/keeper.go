package state

import (
	"context"
	"slices"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A keeper keeps a run's records, either in memory or in a store. It is guarded by the run's lock,
// except for sync, close and the function returned by read.
type keeper interface {
	// isStored reports whether records are stored. If so, the errors in them are in recorded form.
	isStored() bool

	// add adds a record, which must have the next Seq, and the retrying record that follows it, if
	// any. The record is passed by value so that a call's record need not be allocated.
	add(rec record.Record)

	len() int
	at(i int) record.Record // the record with Seq i+1; it must not have been published
	forget(published int)   // drops the records that are both stored and published, given how many were published

	write() error           // stores the added records, unless they are held back
	holds() bool            // reports whether added records are being held back
	release()               // stops holding records back
	isLost(seq uint64) bool // reports whether the record could not be stored
	sync(seq uint64) error  // returns once everything up to seq is durable

	// read returns a function that returns all records. If that function fails, it returns an error
	// and the records that have not been stored yet.
	read() func(context.Context) ([]record.Record, error)

	close(end snapshot.End) error
}

// memoryKeeper keeps the records of a run in memory.
type memoryKeeper struct{ history }

func (*memoryKeeper) isStored() bool           { return false }
func (*memoryKeeper) forget(int)               {}
func (*memoryKeeper) write() error             { return nil }
func (*memoryKeeper) holds() bool              { return false }
func (*memoryKeeper) release()                 {}
func (*memoryKeeper) isLost(uint64) bool       { return false }
func (*memoryKeeper) sync(uint64) error        { return nil }
func (*memoryKeeper) close(snapshot.End) error { return nil }

func (m *memoryKeeper) add(rec record.Record) { m.append(&rec) }

func (m *memoryKeeper) read() func(context.Context) ([]record.Record, error) {
	restored, own := m.restored, m.ownRecords()
	return func(context.Context) ([]record.Record, error) {
		if restored == nil {
			return own, nil
		}
		found, err := restored.Snapshot()
		if err != nil {
			return own, err
		}
		return slices.Concat(found.Records, own), nil
	}
}
