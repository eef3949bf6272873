package snapshot

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// fakePast has a version 0, whose records had the name before the number and
// whose snapshots called the run "id".
var fakePast = table{0: {
	document: func(data []byte) ([]byte, error) {
		var old struct {
			ID      string               `msgpack:"id"`
			Records []msgpack.RawMessage `msgpack:"records"`
		}
		if err := msgpack.Unmarshal(data, &old); err != nil {
			return nil, err
		}
		w := codec.NewWriter(nil)
		w.Map(5)
		for _, text := range []string{"format", magic, "version"} {
			w.Text(text)
		}
		w.Uint(1)
		w.Text("run_id")
		w.Text(old.ID)
		w.Text("last_seq")
		w.Uint(uint64(len(old.Records)))
		w.Text("records")
		w.Array(len(old.Records))
		for _, r := range old.Records {
			w.Raw(r)
		}
		return w.Finish(), nil
	},
	record: func(data []byte) ([]byte, error) {
		var old []any
		if err := msgpack.Unmarshal(data, &old); err != nil {
			return nil, err
		}
		if len(old) < 3 {
			return nil, errors.New("too short")
		}
		return msgpack.Marshal([]any{1, old[2], nil, "", old[1]})
	},
}}

func oldDocument(t *testing.T, records ...[]any) []byte {
	t.Helper()
	w := codec.NewWriter(nil)
	w.Map(4)
	for _, text := range []string{"format", magic, "version"} {
		w.Text(text)
	}
	w.Uint(0)
	w.Text("id")
	w.Text("run")
	w.Text("records")
	data, err := msgpack.Marshal(records)
	require.NoError(t, err)
	w.Raw(data)
	return w.Finish()
}

func TestSnapshotOfAnOlderVersionIsMigratedWithItsRecords(t *testing.T) {
	// The second record was written by this version, into an old document.
	s, err := decode(oldDocument(t, []any{0, "first", 1}, []any{1, 2, nil, "", "second"}), fakePast)
	require.NoError(t, err)
	assert.Equal(t, &Snapshot{
		Info:    Info{RunID: "run", LastSeq: 2},
		Records: []core.Record{{RunID: "run", Seq: 1, Name: "first"}, {RunID: "run", Seq: 2, Name: "second"}},
	}, s)
}

func TestFailureOfAMigrationIsDamageOfTheOldData(t *testing.T) {
	_, err := decode(oldDocument(t, []any{0, "short"}), fakePast)
	assert.ErrorIs(t, err, ErrCorrupt)
	assert.ErrorContains(t, err, "record 1 of 1")
	assert.ErrorContains(t, err, "from version 0 to 1: too short")
}

func TestMigrationThatGoesNowhereIsAnError(t *testing.T) {
	same := func(data []byte) ([]byte, error) { return data, nil }
	_, err := decode(oldDocument(t), table{0: {document: same}})
	assert.ErrorIs(t, err, ErrFormat)
	_, err = decode(oldDocument(t, []any{0, "x", 1}), table{0: {document: fakePast[0].document, record: same}})
	assert.ErrorIs(t, err, ErrFormat)
}

func TestEveryReleasedVersionHasAMigration(t *testing.T) {
	for version := uint64(1); version < FormatVersion; version++ {
		m := migrations[version]
		assert.NotNil(t, m.document, "version %d", version)
		assert.NotNil(t, m.record, "version %d", version)
	}
	assert.Len(t, migrations, FormatVersion-1)
}
