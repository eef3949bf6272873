package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// magic is the first value of a snapshot, under the key "format".
const magic = "reprise-snapshot"

// beginning is what follows the first bytes, which say how many pairs the map
// has, in every snapshot of every version: "format", magic, "version".
const beginning = "\xa6format\xb0" + magic + "\xa7version"

// headerPairs is the number of pairs of a snapshot, without those that are left
// out where there is nothing: retry.
const headerPairs = 14

// Encode returns the snapshot as one msgpack document, which docs/format.md
// describes. It holds more than s does: the values, step results and artifacts
// that its records come to, for readers without Reprise.
//
// The sequence numbers of the records must be 1, 2, 3, …; LastSeq is taken
// from them. Decode returns an equal snapshot, with errors in the form that
// [DecodeRecord] gives them.
func (s *Snapshot) Encode() ([]byte, error) {
	if err := checkSequence(s.Records); err != nil {
		return nil, fmt.Errorf("snapshot: encode %q: %w", s.RunID, err)
	}
	if !storable(s.Created) {
		return nil, fmt.Errorf("snapshot: encode %q: created: %w", s.RunID, errTime(s.Created))
	}
	if !storable(s.Updated) {
		return nil, fmt.Errorf("snapshot: encode %q: updated: %w", s.RunID, errTime(s.Updated))
	}
	w := codec.NewWriter(nil)
	if len(s.Retry) > 0 {
		w.Map(headerPairs + 1)
	} else {
		w.Map(headerPairs)
	}
	w.Text("format")
	w.Text(magic)
	w.Text("version")
	w.Uint(FormatVersion)
	s.writeInfo(w)
	s.writeSummary(w)
	w.Text("records")
	w.Array(len(s.Records))
	for i := range s.Records {
		if err := (*record)(&s.Records[i]).EncodeMsgpack(w.Encoder()); err != nil {
			w.Finish()
			return nil, fmt.Errorf("snapshot: encode %q: record %d: %w", s.RunID, i+1, err)
		}
	}
	return w.Finish(), nil
}

func (s *Snapshot) writeInfo(w *codec.Writer) {
	w.Text("run_id")
	w.Text(s.RunID)
	w.Text("parent_run_id")
	w.Text(s.ParentID)
	w.Text("status")
	w.Text(string(s.Status))
	w.Text("metadata")
	writeMetadata(w, &s.Metadata)
	w.Text("created")
	writeTime(w, s.Created)
	w.Text("updated")
	writeTime(w, s.Updated)
	w.Text("generation")
	w.Uint(s.Generation)
	w.Text("last_seq")
	w.Uint(lastSeq(s.Records))
	if len(s.Retry) > 0 {
		w.Text("retry")
		writeRetryLevels(w, s.Retry)
	}
}

func writeMetadata(w *codec.Writer, m *Metadata) {
	w.Map(4)
	w.Text("description")
	w.Text(m.Description)
	w.Text("pipeline")
	w.Text(m.Pipeline)
	w.Text("tags")
	w.Array(len(m.Tags))
	for _, tag := range m.Tags {
		w.Text(tag)
	}
	w.Text("custom")
	w.Map(len(m.Custom))
	for _, key := range slices.Sorted(maps.Keys(m.Custom)) {
		w.Text(key)
		w.Text(m.Custom[key])
	}
}

// writeSummary writes what can be computed from the records.
func (s *Snapshot) writeSummary(w *codec.Writer) {
	w.Text("values")
	writeValues(w, s.latest(core.KindValue))
	w.Text("step_results")
	writeValues(w, s.latest(core.KindStepResult))
	w.Text("artifacts")
	references := s.artifacts()
	w.Array(len(references))
	for _, reference := range references {
		w.Text(reference)
	}
}

func writeValues(w *codec.Writer, values map[string]stored) {
	w.Map(len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.Text(key)
		if v := values[key]; v.artifact != "" {
			w.Text(v.artifact)
		} else {
			w.Bytes(v.encoded)
		}
	}
}

// stored is a value: encoded, or the artifact that it is.
type stored struct {
	encoded  []byte
	artifact string
}

func (v stored) equal(other stored) bool {
	return v.artifact == other.artifact && bytes.Equal(v.encoded, other.encoded)
}

// storedIn is the value that a record has, if any.
func storedIn(r *core.Record) stored {
	if r.Detail == nil {
		return stored{}
	}
	return stored{r.Detail.Output, r.Detail.Artifact}
}

// latest returns the last value of each key that is there for everyone: a
// value is recorded just before its call completes, and counts if it did.
func (s *Snapshot) latest(kind core.Kind) map[string]stored {
	completed := make(map[core.Address]bool)
	for i := range s.Records {
		if r := &s.Records[i]; r.Kind.IsCall() && r.Status == core.StatusCompleted {
			completed[r.Address] = true
		}
	}
	values := make(map[string]stored)
	for i := range s.Records {
		if r := &s.Records[i]; r.Kind == kind && (r.Address.IsZero() || completed[r.Address]) {
			values[r.Name] = storedIn(r)
		}
	}
	return values
}

// artifacts returns the references that the records hold, sorted.
func (s *Snapshot) artifacts() []string {
	used := make(map[string]bool)
	for i := range s.Records {
		if d := s.Records[i].Detail; d != nil && d.Artifact != "" {
			used[d.Artifact] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

func lastSeq(records []core.Record) uint64 {
	if len(records) == 0 {
		return 0
	}
	return records[len(records)-1].Seq
}

// checkSequence refuses records with holes between their numbers.
func checkSequence(records []core.Record) error {
	for i := range records {
		if got, want := records[i].Seq, uint64(i)+1; got != want {
			return fmt.Errorf("record %d of %d has the sequence number %d", want, len(records), got)
		}
	}
	return nil
}

// Decode reads what [Snapshot.Encode] returned, also of an older version of
// Reprise. What is no snapshot, or of a newer version, is ErrFormat; one that
// is damaged is ErrCorrupt, and the error says where. The snapshot shares
// nothing with data.
func Decode(data []byte) (*Snapshot, error) { return decode(data, migrations) }

func decode(data []byte, t table) (*Snapshot, error) {
	version, err := checkBeginning(data)
	if err != nil {
		return nil, err
	}
	if version < FormatVersion {
		if data, err = t.upgrade(data, version, migration.ofDocument); err != nil {
			return nil, err
		}
		if version, err = checkBeginning(data); err != nil {
			return nil, err
		} else if version != FormatVersion {
			return nil, fmt.Errorf("%w: the migration ends at version %d", ErrFormat, version)
		}
	}
	return decodeDocument(data, t)
}

// checkBeginning returns the version of a snapshot.
func checkBeginning(data []byte) (uint64, error) {
	if len(data) == 0 {
		return 0, fmt.Errorf("%w: byte 0: the snapshot is empty", ErrCorrupt)
	}
	rest := afterMapHead(data)
	if short := min(len(rest), len(beginning)); rest == nil || string(rest[:short]) != beginning[:short] {
		return 0, fmt.Errorf("%w: byte 0: this is no snapshot of Reprise; one begins with the pair format: %s", ErrFormat, magic)
	}
	in := codec.NewReader(data)
	defer in.Release()
	in.Rewind(len(data) - len(rest))
	in.Text()
	in.Text()
	in.Text()
	version := in.Uint()
	if err := in.Err(); err != nil {
		return 0, fmt.Errorf("%w: the snapshot's version: %w", ErrCorrupt, err)
	}
	if version > FormatVersion {
		return 0, errNewer("the snapshot", version)
	}
	return version, nil
}

// afterMapHead returns what follows the first bytes of a map, and nil for what
// is none.
func afterMapHead(data []byte) []byte {
	switch c := data[0]; {
	case c >= 0x80 && c <= 0x8f:
		return data[1:]
	case c == 0xde:
		return data[min(3, len(data)):]
	case c == 0xdf:
		return data[min(5, len(data)):]
	}
	return nil
}

func decodeDocument(data []byte, t table) (*Snapshot, error) {
	in := codec.NewReader(data)
	defer in.Release()
	s := new(Snapshot)
	for n := in.Map(); n > 0 && in.Err() == nil; n-- {
		key := in.Name()
		if key != "records" {
			s.readHeader(in, key)
		} else if err := s.readRecords(in, t); err != nil {
			return nil, err
		}
		if err := in.Err(); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrCorrupt, key, err)
		}
	}
	switch {
	case in.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, in.Err())
	case in.Len() > 0:
		return nil, fmt.Errorf("%w: byte %d: %d bytes after the snapshot", ErrCorrupt, in.Offset(), in.Len())
	case s.LastSeq != lastSeq(s.Records):
		return nil, fmt.Errorf("%w: its last record is %d, and it says that it is %d", ErrCorrupt, lastSeq(s.Records), s.LastSeq)
	}
	if err := checkSequence(s.Records); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	for i := range s.Records {
		s.Records[i].RunID = s.RunID
	}
	return s, nil
}

// readHeader reads the value of a key. The summary, and keys that a later
// version has added, are passed over.
func (s *Snapshot) readHeader(in *codec.Reader, key string) {
	switch key {
	case "run_id":
		s.RunID = in.Text()
	case "parent_run_id":
		s.ParentID = in.Text()
	case "status":
		s.Status = Status(in.Name())
	case "metadata":
		s.Metadata = readRunMetadata(in)
	case "created":
		s.Created = readTime(in)
	case "updated":
		s.Updated = readTime(in)
	case "generation":
		s.Generation = in.Uint()
	case "last_seq":
		s.LastSeq = in.Uint()
	case "retry":
		s.Retry = readRetryLevels(in)
	default:
		in.Skip()
	}
}

func readRunMetadata(in *codec.Reader) (m Metadata) {
	for n := in.Map(); n > 0 && in.Err() == nil; n-- {
		switch in.Name() {
		case "description":
			m.Description = in.Text()
		case "pipeline":
			m.Pipeline = in.Text()
		case "tags":
			m.Tags = nil
			for n := in.Array(); n > 0 && in.Err() == nil; n-- {
				m.Tags = append(m.Tags, in.Text())
			}
		case "custom":
			m.Custom = readCustom(in)
		default:
			in.Skip()
		}
	}
	return m
}

func readCustom(in *codec.Reader) map[string]string {
	n := in.Map()
	if n == 0 {
		return nil
	}
	m := make(map[string]string)
	for ; n > 0 && in.Err() == nil; n-- {
		key := in.Text()
		m[key] = in.Text()
	}
	return m
}

// leastRecord is about the size of the smallest record that is written.
const leastRecord = 24

func (s *Snapshot) readRecords(in *codec.Reader, t table) error {
	d := newDecoding(t)
	defer d.release()
	n := in.Array()
	if n == 0 {
		return nil
	}
	s.Records = make([]core.Record, 0, min(n, in.Len()/leastRecord+1))
	for i := range n {
		if err := d.DecodeMsgpack(in.Decoder()); err != nil {
			return fmt.Errorf("record %d of %d: %w", i+1, n, recordError(err))
		}
		s.Records = append(s.Records, d.record)
	}
	return nil
}
