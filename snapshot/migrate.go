package snapshot

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/codec"
)

// A migration turns what one version wrote into what the next would have
// written, its version number included.
type migration struct {
	document func([]byte) ([]byte, error) // a snapshot without a look at its records
	record   func([]byte) ([]byte, error) // a record, also one in a journal
}

// table has a migration for each released version before this one.
type table map[uint64]migration

// migrations is the table of this version, which is the first.
var migrations = table{}

func (m migration) ofDocument() func([]byte) ([]byte, error) { return m.document }
func (m migration) ofRecord() func([]byte) ([]byte, error)   { return m.record }

// upgrade takes data from a version to this one, step by step.
func (t table) upgrade(data []byte, version uint64, part func(migration) func([]byte) ([]byte, error)) ([]byte, error) {
	for ; version < FormatVersion; version++ {
		m, ok := t[version]
		if !ok {
			return nil, fmt.Errorf("%w: there was never a version %d", ErrFormat, version)
		}
		var err error
		if data, err = part(m)(data); err != nil {
			return nil, fmt.Errorf("%w: from version %d to %d: %w", ErrCorrupt, version, version+1, err)
		}
	}
	return data, nil
}

// migrate decodes a record of an older version.
func (d *decoding) migrate(data []byte, version uint64) error {
	data, err := d.table.upgrade(data, version, migration.ofRecord)
	if err != nil {
		return err
	}
	in := codec.NewReader(data)
	defer in.Release()
	if got := versionOf(data); got != FormatVersion {
		return fmt.Errorf("%w: the migration of a record ends at version %d", ErrFormat, got)
	}
	return d.DecodeMsgpack(in.Decoder())
}

// versionOf is the version that a record begins with.
func versionOf(data []byte) uint64 {
	in := codec.NewReader(data)
	defer in.Release()
	f := newFields(in)
	return f.uint()
}

// errNewer is the error about what a newer version has written.
func errNewer(what string, version uint64) error {
	return fmt.Errorf("%w: %s has version %d and this version of Reprise reads up to version %d; use a newer Reprise",
		ErrFormat, what, version, FormatVersion)
}
