package snapshot

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A recordDecoder decodes records. It caches the addresses that it has parsed, because each call has
// several records.
type recordDecoder struct {
	record    record.Record
	in        *codec.Reader
	addresses map[string]*parsedAddress
	latest    *parsedAddress // the address that was used last; never nil

	shares bool           // the encoded data never changes, so inputs and outputs can refer to it
	detail *record.Detail // reused for the detail of each record; if nil, a new one is allocated each time
}

// A parsedAddress is an address and the path from which it was parsed.
type parsedAddress struct {
	path    string
	address record.Address
}

// maxAddresses is the maximum number of addresses that a decoder caches.
const maxAddresses = 256

var recordDecoders = sync.Pool{New: func() any {
	return &recordDecoder{in: codec.NewReader(nil), addresses: make(map[string]*parsedAddress), latest: new(parsedAddress)}
}}

// newRecordDecoder takes a decoder from the pool. Its release method puts it back.
func newRecordDecoder() *recordDecoder { return recordDecoders.Get().(*recordDecoder) }

func (d *recordDecoder) release() {
	d.record, d.shares, d.detail = record.Record{}, false, nil
	d.in.Reset(nil)
	recordDecoders.Put(d)
}

// decode decodes data, which must be one whole record.
func (d *recordDecoder) decode(data []byte) (record.Record, error) {
	if err := d.decodeOne(data); err != nil {
		return record.Record{}, err
	}
	return d.record, nil
}

// decodeOne decodes data, which must be one whole record, into d.record.
func (d *recordDecoder) decodeOne(data []byte) error {
	d.in.Reset(data)
	if err := d.read(d.in); err != nil {
		return recordError(err)
	}
	if n := d.in.Len(); n > 0 {
		return fmt.Errorf("%w: byte %d: %d bytes after the record", ErrCorrupt, d.in.Offset(), n)
	}
	return nil
}

// read reads one record into d.record.
func (d *recordDecoder) read(in *codec.Reader) error {
	f := newFieldReader(in)
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

// head reads the fields between the version and the error.
func (d *recordDecoder) head(f *fieldReader) {
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

func (d *recordDecoder) address(f *fieldReader) record.Address {
	view := f.in.View()
	first, nth := cutNumber(view)
	if string(first) != d.latest.path && !d.find(first) {
		f.failAddress(view)
		return record.Address{}
	}
	a := d.latest.address
	if nth == 0 {
		return a
	}
	c := callsite.Call(a)
	if c.Nth() != 1 {
		f.failAddress(view)
	}
	return record.Address(c.Site().Call(nth))
}

// find sets d.latest to the address with the given path, and reports whether the path is valid.
func (d *recordDecoder) find(path []byte) bool {
	found := d.addresses[string(path)]
	if found == nil {
		a, err := record.ParseAddress(string(path))
		if err != nil {
			return false
		}
		if len(d.addresses) >= maxAddresses {
			clear(d.addresses)
		}
		found = &parsedAddress{string(path), a}
		d.addresses[found.path] = found
	}
	d.latest = found
	return true
}

func (f *fieldReader) failAddress(path []byte) {
	_, err := record.ParseAddress(string(path))
	f.fail(err)
}

// cutNumber splits a path into the path of the first call at the same site and the call's
// number at that site. If the path does not end in a valid number, cutNumber returns the
// whole path and 0. Without the split, each call in a loop would add an address to the
// cache.
func cutNumber(path []byte) (first []byte, nth int) {
	i := bytes.LastIndexByte(path, '#')
	digits := path[i+1:]
	if i < 0 || len(digits) == 0 || len(digits) > 9 || digits[0] == '0' {
		return path, 0
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return path, 0 // the # belongs to an outer call
		}
		nth = nth*10 + int(c-'0')
	}
	if nth < 2 {
		return path, 0
	}
	return path[:i], nth
}

// readOutput reads a record's output or, if the output is an artifact, its reference. It decodes as
// little else as possible. The result completed is false if the record does not say that a call
// completed.
func readOutput(data []byte) (output []byte, artifact string, completed bool, err error) {
	in := codec.NewReader(data)
	defer in.Release()
	f := newFieldReader(in)
	f.skip(fieldStatus)
	if record.Status(f.byte()) != record.StatusCompleted {
		return nil, "", false, f.err()
	}
	f.skip(fieldDetail - fieldStatus - 1)
	if !f.next() || in.Nil() {
		return nil, "", true, f.err()
	}
	f = newFieldReader(in)
	f.skip(2) // the input's hash and the input
	if f.next() {
		output = slices.Clip(in.View())
	}
	artifact = f.text()
	return output, artifact, true, f.err()
}

// The indices of two fields in a record.
const (
	fieldStatus = 6
	fieldDetail = 21
)

func (d *recordDecoder) readDetail(in *codec.Reader) *record.Detail {
	if in.Nil() {
		return nil
	}
	into := d.detail
	if into == nil {
		into = new(record.Detail)
	}
	*into = record.Detail{}
	f := newFieldReader(in)
	if f.next() {
		into.InputHash = readHash(&f)
	}
	into.Input = d.value(&f)
	into.Output = d.value(&f)
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
	into.Unrecorded = d.readClaims(&f)
	into.Schema = f.bytes()
	if f.next() {
		into.InDoubt = d.readInDoubt(in)
	}
	into.Compensable = f.bool()
	if f.next() {
		into.WholeInput = readHash(&f)
	}
	into.Cached = f.bool()
	into.By = f.name()
	if f.next() {
		into.Fork = d.readFork(in)
	}
	into.Fingerprint = f.bytes()
	into.Overlaps = f.bool()
	into.Awaits = record.AwaitKind(f.byte())
	if f.next() {
		into.Replaces = readReplaced(in)
	}
	into.Irreversible = f.bool()
	if f.next() {
		into.Effect = d.readEffect(in)
	}
	into.SetInFork = f.bool()
	into.Signal = f.text()
	into.ToolCall = f.text()
	f.list(func() { into.InputArtifacts = append(into.InputArtifacts, f.in.Text()) })
	into.AfterReworded = f.bool()
	into.NamedCalls = d.readAddresses(&f)
	f.end()
	return into
}

// value reads an encoded input or output.
func (d *recordDecoder) value(f *fieldReader) []byte {
	if !d.shares {
		return f.bytes()
	}
	if !f.next() {
		return nil
	}
	return slices.Clip(f.in.View())
}

func (d *recordDecoder) readAddresses(f *fieldReader) (all []record.Address) {
	f.list(func() {
		one := fieldReader{in: f.in, left: 1, index: -1}
		one.next()
		all = append(all, d.address(&one))
	})
	return all
}

func (d *recordDecoder) readClaims(f *fieldReader) (claims []record.Claim) {
	f.list(func() {
		one := newFieldReader(f.in)
		var c record.Claim
		if one.next() {
			c.Address = d.address(&one)
		}
		c.Ordinal = one.number()
		c.Kind = record.Kind(one.byte())
		c.Name = one.name()
		if one.next() {
			c.Input = readHash(&one)
		}
		one.end()
		claims = append(claims, c)
	})
	return claims
}

func readHash(f *fieldReader) (hash record.Hash) {
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
	f := newFieldReader(in)
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

func readReplaced(in *codec.Reader) *record.Replaced {
	if in.Nil() {
		return nil
	}
	f := newFieldReader(in)
	r := &record.Replaced{Seq: f.uint(), Status: record.Status(f.byte()), Attempts: f.number()}
	f.end()
	return r
}

func (d *recordDecoder) readInDoubt(in *codec.Reader) *record.CallInDoubt {
	if in.Nil() {
		return nil
	}
	f := newFieldReader(in)
	c := &record.CallInDoubt{Kind: record.Kind(f.byte()), Name: f.name(), Attempt: f.number(), Starts: f.number()}
	if f.next() {
		c.Began = readTime(in)
	}
	c.Input = f.bytes()
	if f.next() {
		c.Effect = d.readEffect(in)
	}
	c.IdempotencyKey, c.Cause = f.text(), f.text()
	f.end()
	return c
}

func (d *recordDecoder) readFork(in *codec.Reader) *record.Fork {
	if in.Nil() {
		return nil
	}
	f := newFieldReader(in)
	fork := &record.Fork{Keys: f.text()}
	f.list(func() {
		u := newFieldReader(in)
		fork.Undone = append(fork.Undone, record.UndoneCalls{Place: u.text(), Times: u.number()})
		u.end()
	})
	f.list(func() {
		m := newFieldReader(in)
		made := record.MadeCall{Place: m.text()}
		if m.next() {
			made.Input = readHash(&m)
		}
		m.end()
		fork.Made = append(fork.Made, made)
	})
	f.list(func() {
		if e := d.readEffect(in); e != nil {
			fork.Effects = append(fork.Effects, *e)
		}
	})
	f.end()
	return fork
}

func (d *recordDecoder) readEffect(in *codec.Reader) *record.Effect {
	if in.Nil() {
		return nil
	}
	f := newFieldReader(in)
	e := &record.Effect{RunID: f.text()}
	if f.next() {
		e.Address = d.address(&f)
	}
	e.Seq, e.Kind, e.Name = f.uint(), record.Kind(f.byte()), f.name()
	if f.next() {
		e.Input = readHash(&f)
	}
	e.InDoubt, e.NoOutput, e.Output, e.Artifact = f.bool(), f.bool(), f.bytes(), f.text()
	f.end()
	return e
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
