package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// AppendRecord appends r to dst in the form that docs/format.md describes and
// returns it. The run ID is not in it: what holds records knows their run. An
// error that was not recorded yet is, by [core.Recorded]; metadata that cannot
// be encoded becomes its text. It fails, and returns dst, if a time is outside
// the years 1678 to 2261, which 64 bits of nanoseconds are good for.
func AppendRecord(dst []byte, r *core.Record) ([]byte, error) {
	w := codec.NewWriter(dst)
	err := (*record)(r).EncodeMsgpack(w.Encoder())
	out := w.Finish()
	if err != nil {
		return dst, fmt.Errorf("snapshot: record %d: %w", r.Seq, err)
	}
	return out, nil
}

// DecodeRecord reads what [AppendRecord] appended. The record shares nothing
// with data and has no run ID. Its error, if it has one, is a
// *[core.RecordedError], or a *[core.InterruptedError] where the call or the
// run was interrupted.
//
// A record of a newer version is ErrFormat; anything else that is not one
// whole record is ErrCorrupt, and the error says at which byte.
func DecodeRecord(data []byte) (core.Record, error) {
	d := newDecoding(migrations)
	defer d.release()
	in := codec.NewReader(data)
	defer in.Release()
	if err := d.DecodeMsgpack(in.Decoder()); err != nil {
		return core.Record{}, recordError(err)
	}
	if in.Len() > 0 {
		return core.Record{}, fmt.Errorf("%w: byte %d: %d bytes after the record", ErrCorrupt, in.Offset(), in.Len())
	}
	return d.record, nil
}

// recordError is the kind of error that err, met in a record, is.
func recordError(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// The lengths of the arrays of this version. Fields are only ever added at
// the end: readers skip what they do not know, and what is missing is zero.
const (
	recordFields = 20
	detailFields = 8 // and NoStore where it is set
	usageFields  = 3
)

// record writes a core.Record. Numbers of kinds, statuses and the like are
// those of package core, which never change.
type record core.Record

// EncodeMsgpack implements the interface of the msgpack library.
func (r *record) EncodeMsgpack(enc *codec.Encoder) error {
	if !storable(r.Time) {
		return errTime(r.Time)
	}
	w := codec.WriterOf(enc)
	w.Array(recordFields)
	w.Uint(FormatVersion)
	w.Uint(r.Seq)
	writeTime(w, r.Time)
	w.EndText(r.Address.AppendTo(w.BeginText()))
	w.Text(r.Name)
	w.Uint(uint64(r.Kind))
	w.Uint(uint64(r.Status))
	w.Uint(uint64(r.Reason))
	w.Uint(uint64(r.Stage))
	w.Uint(uint64(r.Class))
	w.Uint(uint64(r.Waiting))
	w.Int(int64(r.Attempt))
	w.Int(int64(r.MaxAttempts))
	w.Bool(r.WillRetry)
	w.Bool(r.Replayed)
	w.Int(int64(r.Duration))
	w.Int(int64(r.Elapsed))
	w.Int(int64(r.Delay))
	writeError(w, r.Err)
	writeDetail(w, r.Detail)
	return nil
}

func writeDetail(w *codec.Writer, d *core.Detail) {
	if d == nil {
		w.Nil()
		return
	}
	if d.NoStore {
		w.Array(detailFields + 1)
	} else {
		w.Array(detailFields)
	}
	if d.InputHash.IsZero() {
		w.Nil()
	} else {
		w.Bytes(d.InputHash[:])
	}
	w.Bytes(d.Input)
	w.Bytes(d.Output)
	w.Text(d.Artifact)
	if d.Usage.IsZero() {
		w.Nil()
	} else {
		w.Array(usageFields)
		w.Int(int64(d.Usage.InputTokens))
		w.Int(int64(d.Usage.OutputTokens))
		w.Float(d.Usage.Cost)
	}
	w.Text(d.Message)
	w.Int(int64(d.Severity))
	writeAttributes(w, d.Metadata)
	if d.NoStore {
		w.Bool(true)
	}
}

func writeAttributes(w *codec.Writer, m map[string]any) {
	if m == nil {
		w.Nil()
		return
	}
	w.Map(len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		w.Text(key)
		w.Raw(codec.EncodeAny(m[key]))
	}
}

// The times that int64 nanoseconds reach, in whole seconds.
const minSecond, maxSecond = math.MinInt64/int64(time.Second) + 1, math.MaxInt64/int64(time.Second) - 1

func storable(t time.Time) bool {
	return t.IsZero() || t.Unix() >= minSecond && t.Unix() <= maxSecond
}

func errTime(t time.Time) error {
	return fmt.Errorf("the time %v is outside the years 1678 to 2261", t)
}

// writeTime writes t, which is storable, in nanoseconds since 1970, and no
// time as nil.
func writeTime(w *codec.Writer, t time.Time) {
	if t.IsZero() {
		w.Nil()
		return
	}
	w.Int(t.UnixNano())
}

func readTime(in *codec.Reader) time.Time {
	if in.Nil() {
		return time.Time{}
	}
	n := in.Int()
	if in.Err() != nil {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// decoding is a record that is being read. A call has several records, so it
// keeps the addresses that it has parsed lately.
type decoding struct {
	record    core.Record
	addresses map[string]core.Address
	table     table
}

// maxAddresses bounds what a pooled decoding keeps.
const maxAddresses = 256

var decodings = sync.Pool{New: func() any {
	return &decoding{addresses: make(map[string]core.Address)}
}}

// newDecoding takes a decoding from the pool; release gives it back.
func newDecoding(t table) *decoding {
	d := decodings.Get().(*decoding)
	d.table = t
	return d
}

func (d *decoding) release() {
	d.record = core.Record{}
	decodings.Put(d)
}

// DecodeMsgpack implements the interface of the msgpack library. It reads one
// record into d.record.
func (d *decoding) DecodeMsgpack(dec *codec.Decoder) error {
	in := codec.ReaderOf(dec)
	begin := in.Offset()
	f := newFields(in)
	version := f.uint()
	switch {
	case in.Err() != nil:
		return f.err()
	case version > FormatVersion:
		return errNewer("the record", version)
	case version < FormatVersion:
		in.Rewind(begin)
		return d.migrate(in.Skip(), version)
	}
	d.record = core.Record{}
	d.fields(&f)
	f.end()
	return f.err()
}

// fields reads everything after the version.
func (d *decoding) fields(f *fields) {
	r := &d.record
	r.Seq = f.uint()
	if f.next() {
		r.Time = readTime(f.in)
	}
	if f.next() {
		r.Address = d.address(f)
	}
	r.Name = f.name()
	r.Kind = core.Kind(f.byte())
	r.Status = core.Status(f.byte())
	r.Reason = core.Reason(f.byte())
	r.Stage = core.Stage(f.byte())
	r.Class = core.Class(f.byte())
	r.Waiting = core.Source(f.byte())
	r.Attempt = f.number()
	r.MaxAttempts = f.number()
	r.WillRetry = f.bool()
	r.Replayed = f.bool()
	r.Duration = f.duration()
	r.Elapsed = f.duration()
	r.Delay = f.duration()
	if f.next() {
		r.Err = readError(f.in)
	}
	if f.next() {
		r.Detail = readDetail(f.in)
	}
}

func (d *decoding) address(f *fields) core.Address {
	view := f.in.View()
	if a, ok := d.addresses[string(view)]; ok {
		return a
	}
	text := string(view)
	a, err := core.ParseAddress(text)
	if err != nil {
		f.fail(err)
		return a
	}
	if len(d.addresses) >= maxAddresses {
		clear(d.addresses)
	}
	d.addresses[text] = a
	return a
}

func readDetail(in *codec.Reader) *core.Detail {
	if in.Nil() {
		return nil
	}
	d := new(core.Detail)
	f := newFields(in)
	if f.next() {
		d.InputHash = readHash(&f)
	}
	d.Input = f.bytes()
	d.Output = f.bytes()
	d.Artifact = f.text()
	if f.next() {
		d.Usage = readUsage(in)
	}
	d.Message = f.text()
	d.Severity = core.Severity(f.number())
	if f.next() {
		d.Metadata = readMetadata(in)
	}
	d.NoStore = f.bool()
	f.end()
	return d
}

func readHash(f *fields) (hash core.Hash) {
	view := f.in.View()
	if view != nil && len(view) != len(hash) {
		f.fail(fmt.Errorf("a hash of %d bytes", len(view)))
	}
	copy(hash[:], view)
	return hash
}

func readUsage(in *codec.Reader) (u core.Usage) {
	if in.Nil() {
		return u
	}
	f := newFields(in)
	u.InputTokens = f.number()
	u.OutputTokens = f.number()
	if f.next() {
		u.Cost = in.Float()
	}
	f.end()
	return u
}

func readMetadata(in *codec.Reader) map[string]any {
	if in.Nil() {
		return nil
	}
	m := make(map[string]any)
	for n := in.Map(); n > 0 && in.Err() == nil; n-- {
		key := in.Text()
		m[key] = in.Any()
	}
	return m
}
