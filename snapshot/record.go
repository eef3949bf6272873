package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// AppendRecord appends r to dst in the form that docs/format.md describes and
// returns it. The run ID is not in it: what holds records knows their run. An
// error that was not recorded yet is, by [record.ErrorOf]; metadata that cannot
// be encoded becomes its text. It fails, and returns dst, if a time is outside
// the years 1678 to 2261, which 64 bits of nanoseconds are good for.
func AppendRecord(dst []byte, r *record.Record) ([]byte, error) {
	w := codec.NewWriter(dst)
	err := (*writable)(r).write(w)
	out := w.Finish()
	if err != nil {
		return dst, fmt.Errorf("snapshot: record %d: %w", r.Seq, err)
	}
	return out, nil
}

// DecodeRecord reads what [AppendRecord] appended. The record shares nothing
// with data and has no run ID. Its error, if it has one, is a
// *[record.Error], or a *[record.InterruptedError] where the call or the
// run was interrupted.
//
// A record of a newer version is ErrFormat; anything else that is not one
// whole record is ErrCorrupt, and the error says at which byte.
func DecodeRecord(data []byte) (record.Record, error) {
	d := newDecoding()
	defer d.release()
	return d.decode(data)
}

// DecodeRecords yields the records that [AppendRecord] has appended one after
// the other, decoded as [DecodeRecord] does. After an error it yields no more.
func DecodeRecords(data []byte) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		d := newDecoding()
		defer d.release()
		in := codec.NewReader(data)
		defer in.Release()
		for in.Len() > 0 {
			if err := d.read(in); err != nil {
				yield(record.Record{}, recordError(err))
				return
			}
			if !yield(d.record, nil) {
				return
			}
		}
	}
}

// SeqOf returns the number of a record that begins data, which it does not
// decode.
func SeqOf(data []byte) (uint64, error) {
	in := codec.NewReader(data)
	defer in.Release()
	_, seq, err := cutRecord(in)
	return seq, err
}

// recordError is the kind of error that err, met in a record, is.
func recordError(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// The lengths of the arrays of this version. Fields are only ever added at
// the end: readers skip what they do not know. A record has no fewer, so that
// many tiny ones cannot make a reader's memory many times as large as a file.
const (
	recordFields = 22
	detailFields = 8 // and eight more where one of them is set
	usageFields  = 3
	claimFields  = 5

	inDoubtFields = 6
)

// writable writes a record. Numbers of kinds, statuses and the like are
// those of package core, which never change.
type writable record.Record

func (r *writable) write(w *codec.Writer) error {
	if !storable(r.Time) {
		return errTime(r.Time)
	}
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
	w.Uint(uint64(r.DelaySource))
	w.Int(int64(r.Attempt))
	w.Int(int64(r.MaxAttempts))
	w.Bool(r.WillRetry)
	w.Bool(r.Replayed)
	w.Int(int64(r.Duration))
	w.Int(int64(r.Elapsed))
	w.Int(int64(r.Delay))
	w.Uint(r.Generation)
	w.Uint(uint64(r.Ordinal))
	writeError(w, r.Err)
	writeDetail(w, r.Detail)
	return nil
}

func writeDetail(w *codec.Writer, d *record.Detail) {
	if d == nil {
		w.Nil()
		return
	}
	more := d.NoStore || d.Branches != 0 || len(d.Unrecorded) > 0 || len(d.Schema) > 0 || d.InDoubt != nil || d.Compensable || !d.WholeInput.IsZero() || d.Cached
	if more {
		w.Array(detailFields + 8)
	} else {
		w.Array(detailFields)
	}
	writeHash(w, d.InputHash)
	w.Bytes(d.Input)
	w.Bytes(d.Output)
	w.Text(d.Artifact)
	writeUsage(w, d.Usage)
	w.Text(d.Message)
	w.Int(int64(d.Severity))
	writeAttributes(w, d.Metadata)
	if more {
		w.Bool(d.NoStore)
		w.Int(int64(d.Branches))
		writeClaims(w, d.Unrecorded)
		w.Bytes(d.Schema)
		writeInDoubt(w, d.InDoubt)
		w.Bool(d.Compensable)
		writeHash(w, d.WholeInput)
		w.Bool(d.Cached)
	}
}

func writeInDoubt(w *codec.Writer, c *record.CallInDoubt) {
	if c == nil {
		w.Nil()
		return
	}
	w.Array(inDoubtFields)
	w.Uint(uint64(c.Kind))
	w.Text(c.Name)
	w.Int(int64(c.Attempt))
	w.Int(int64(c.Starts))
	writeTime(w, c.Began)
	w.Bytes(c.Input)
}

func readInDoubt(in *codec.Reader) *record.CallInDoubt {
	if in.Nil() {
		return nil
	}
	f := newFields(in)
	c := &record.CallInDoubt{Kind: record.Kind(f.byte()), Name: f.name(), Attempt: f.number(), Starts: f.number()}
	if f.next() {
		c.Began = readTime(in)
	}
	c.Input = f.bytes()
	f.end()
	return c
}

func writeHash(w *codec.Writer, h record.Hash) {
	if h.IsZero() {
		w.Nil()
		return
	}
	w.Bytes(h[:])
}

func writeClaims(w *codec.Writer, claims []record.Claim) {
	w.Array(len(claims))
	for i := range claims {
		c := &claims[i]
		w.Array(claimFields)
		w.EndText(c.Address.AppendTo(w.BeginText()))
		w.Uint(uint64(c.Ordinal))
		w.Uint(uint64(c.Kind))
		w.Text(c.Name)
		writeHash(w, c.Input)
	}
}

// writeUsage writes nothing consumed as nil, and leaves out the fields at the end
// that most services do not report.
func writeUsage(w *codec.Writer, u record.Usage) {
	if u.IsZero() {
		w.Nil()
		return
	}
	plain := record.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Cost: u.Cost}
	if u == plain {
		w.Array(usageFields)
	} else {
		w.Array(usageFields + 4)
	}
	w.Int(int64(u.InputTokens))
	w.Int(int64(u.OutputTokens))
	w.Float(u.Cost)
	if u != plain {
		w.Int(int64(u.CachedInputTokens))
		w.Int(int64(u.CacheWriteTokens))
		w.Int(int64(u.ReasoningTokens))
		w.Bool(u.Estimated)
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

// decoding reads records. A call has several records, so it keeps the
// addresses that it has parsed lately.
type decoding struct {
	record    record.Record
	addresses map[string]record.Address
}

// maxAddresses bounds what a pooled decoding keeps.
const maxAddresses = 256

var decodings = sync.Pool{New: func() any {
	return &decoding{addresses: make(map[string]record.Address)}
}}

// newDecoding takes a decoding from the pool; release gives it back.
func newDecoding() *decoding { return decodings.Get().(*decoding) }

func (d *decoding) release() {
	d.record = record.Record{}
	decodings.Put(d)
}

// decode reads data, which is one whole record.
func (d *decoding) decode(data []byte) (record.Record, error) {
	in := codec.NewReader(data)
	defer in.Release()
	if err := d.read(in); err != nil {
		return record.Record{}, recordError(err)
	}
	if in.Len() > 0 {
		return record.Record{}, fmt.Errorf("%w: byte %d: %d bytes after the record", ErrCorrupt, in.Offset(), in.Len())
	}
	return d.record, nil
}

// read reads one record into d.record.
func (d *decoding) read(in *codec.Reader) error {
	f := newFields(in)
	version := f.uint()
	switch {
	case in.Err() != nil:
		return f.err()
	case version > FormatVersion:
		return errNewer("the record", version)
	case version < FormatVersion:
		return fmt.Errorf("%w: there was never a version %d", ErrFormat, version)
	}
	d.record = record.Record{}
	d.head(&f)
	if f.next() {
		d.record.Err = readError(in)
	}
	if f.next() {
		d.record.Detail = d.readDetail(in)
	}
	f.end()
	return f.err()
}

// head reads what follows the version, up to the error.
func (d *decoding) head(f *fields) {
	r := &d.record
	r.Seq = f.uint()
	if f.next() {
		r.Time = readTime(f.in)
	}
	if f.next() {
		r.Address = d.address(f)
	}
	r.Name = f.name()
	r.Kind = record.Kind(f.byte())
	r.Status = record.Status(f.byte())
	r.Reason = record.Reason(f.byte())
	r.Stage = record.Stage(f.byte())
	r.Class = record.Class(f.byte())
	r.DelaySource = record.Source(f.byte())
	r.Attempt = f.number()
	r.MaxAttempts = f.number()
	r.WillRetry = f.bool()
	r.Replayed = f.bool()
	r.Duration = f.duration()
	r.Elapsed = f.duration()
	r.Delay = f.duration()
	r.Generation = f.uint()
	r.Ordinal = f.number()
}

func (d *decoding) address(f *fields) record.Address {
	view := f.in.View()
	first, nth := cutNumber(view)
	a, ok := d.addresses[string(first)]
	if !ok {
		var err error
		if a, err = record.ParseAddress(string(first)); err != nil {
			f.failAddress(view)
			return a
		}
		if len(d.addresses) >= maxAddresses {
			clear(d.addresses)
		}
		d.addresses[string(first)] = a
	}
	if nth == 0 {
		return a
	}
	site, one := a.Site()
	if one != 1 {
		f.failAddress(view)
	}
	return site.Address(nth)
}

func (f *fields) failAddress(path []byte) {
	_, err := record.ParseAddress(string(path))
	f.fail(err)
}

// cutNumber cuts a path into that of the first call of its site, and the number
// among the calls there. It is 0, and nothing cut off, where there is none as
// addresses have it: what is cut off would be parsed for each call of a loop.
func cutNumber(path []byte) (first []byte, nth int) {
	i := bytes.LastIndexByte(path, '#')
	digits := path[i+1:]
	if i < 0 || len(digits) == 0 || len(digits) > 9 || digits[0] == '0' {
		return path, 0
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return path, 0 // that of a call around
		}
		nth = nth*10 + int(c-'0')
	}
	if nth < 2 {
		return path, 0
	}
	return path[:i], nth
}

func (d *decoding) readDetail(in *codec.Reader) *record.Detail {
	if in.Nil() {
		return nil
	}
	into := new(record.Detail)
	f := newFields(in)
	if f.next() {
		into.InputHash = readHash(&f)
	}
	into.Input = f.bytes()
	into.Output = f.bytes()
	into.Artifact = f.text()
	if f.next() {
		into.Usage = readUsage(in)
	}
	into.Message = f.text()
	into.Severity = slog.Level(f.number())
	if f.next() {
		into.Metadata = readMetadata(in)
	}
	into.NoStore = f.bool()
	into.Branches = f.number()
	if f.next() {
		into.Unrecorded = d.readClaims(in)
	}
	into.Schema = f.bytes()
	if f.next() {
		into.InDoubt = readInDoubt(in)
	}
	into.Compensable = f.bool()
	if f.next() {
		into.WholeInput = readHash(&f)
	}
	into.Cached = f.bool()
	f.end()
	return into
}

func (d *decoding) readClaims(in *codec.Reader) []record.Claim {
	var claims []record.Claim
	for n := in.Array(); n > 0 && in.Err() == nil; n-- {
		f := newFields(in)
		var c record.Claim
		if f.next() {
			c.Address = d.address(&f)
		}
		c.Ordinal = f.number()
		c.Kind = record.Kind(f.byte())
		c.Name = f.name()
		if f.next() {
			c.Input = readHash(&f)
		}
		f.end()
		if err := f.err(); err != nil {
			break
		}
		claims = append(claims, c)
	}
	return claims
}

func readHash(f *fields) (hash record.Hash) {
	view := f.in.View()
	if view != nil && len(view) != len(hash) {
		f.fail(fmt.Errorf("a hash of %d bytes", len(view)))
	}
	copy(hash[:], view)
	return hash
}

func readUsage(in *codec.Reader) (u record.Usage) {
	if in.Nil() {
		return u
	}
	f := newFields(in)
	u.InputTokens = f.number()
	u.OutputTokens = f.number()
	if f.next() {
		u.Cost = in.Float()
	}
	u.CachedInputTokens = f.number()
	u.CacheWriteTokens = f.number()
	u.ReasoningTokens = f.number()
	u.Estimated = f.bool()
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
