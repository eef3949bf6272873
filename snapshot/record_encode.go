package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// An encodableRecord is a record that can write itself. It writes kinds, statuses and similar
// values as their numbers in package record, which never change.
type encodableRecord record.Record

func (r *encodableRecord) write(w *codec.Writer) error {
	if !isStorable(r.Time) {
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
	w.Int(int64(r.Ordinal))
	writeError(w, r.Err)
	writeDetail(w, r.Detail)
	return nil
}

func writeDetail(w *codec.Writer, d *record.Detail) {
	if d == nil {
		w.Nil()
		return
	}
	more := d.NoStore || d.Branches != 0 || len(d.Unrecorded) > 0 || len(d.Schema) > 0 || d.InDoubt != nil || d.Compensable || !d.WholeInput.IsZero() || d.Cached || d.By != "" || d.Fork != nil || len(d.Fingerprint) > 0 || d.Overlaps || d.Awaits != 0 || d.Replaces != nil || d.Irreversible || d.Effect != nil || d.SetInFork || d.Signal != "" || d.ToolCall != ""
	switch {
	case len(d.NamedCalls) > 0:
		more = true
		w.Array(detailFields + 22)
	case d.AfterReworded:
		more = true
		w.Array(detailFields + 21)
	case len(d.InputArtifacts) > 0:
		more = true
		w.Array(detailFields + 20)
	case more:
		w.Array(detailFields + 19)
	default:
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
		w.Text(d.By)
		writeFork(w, d.Fork)
		w.Bytes(d.Fingerprint)
		w.Bool(d.Overlaps)
		w.Uint(uint64(d.Awaits))
		writeReplaced(w, d.Replaces)
		w.Bool(d.Irreversible)
		writeEffect(w, d.Effect)
		w.Bool(d.SetInFork)
		w.Text(d.Signal)
		w.Text(d.ToolCall)
	}
	if len(d.InputArtifacts) > 0 || d.AfterReworded || len(d.NamedCalls) > 0 {
		w.Array(len(d.InputArtifacts))
		for _, reference := range d.InputArtifacts {
			w.Text(reference)
		}
	}
	if d.AfterReworded || len(d.NamedCalls) > 0 {
		w.Bool(d.AfterReworded)
	}
	if len(d.NamedCalls) > 0 {
		w.Array(len(d.NamedCalls))
		for _, a := range d.NamedCalls {
			w.EndText(a.AppendTo(w.BeginText()))
		}
	}
}

func writeEffect(w *codec.Writer, e *record.Effect) {
	if e == nil {
		w.Nil()
		return
	}
	w.Array(effectFields)
	w.Text(e.RunID)
	w.EndText(e.Address.AppendTo(w.BeginText()))
	w.Uint(e.Seq)
	w.Uint(uint64(e.Kind))
	w.Text(e.Name)
	writeHash(w, e.Input)
	w.Bool(e.InDoubt)
	w.Bool(e.NoOutput)
	w.Bytes(e.Output)
	w.Text(e.Artifact)
}

func writeReplaced(w *codec.Writer, r *record.Replaced) {
	if r == nil {
		w.Nil()
		return
	}
	w.Array(replacedFields)
	w.Uint(r.Seq)
	w.Uint(uint64(r.Status))
	w.Int(int64(r.Attempts))
}

func writeFork(w *codec.Writer, f *record.Fork) {
	if f == nil {
		w.Nil()
		return
	}
	w.Array(forkFields)
	w.Text(f.Keys)
	w.Array(len(f.Undone))
	for _, u := range f.Undone {
		w.Array(undoneFields)
		w.Text(u.Place)
		w.Int(int64(u.Times))
	}
	w.Array(len(f.Made))
	for _, m := range f.Made {
		w.Array(madeFields)
		w.Text(m.Place)
		writeHash(w, m.Input)
	}
	w.Array(len(f.Effects))
	for i := range f.Effects {
		writeEffect(w, &f.Effects[i])
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
	writeEffect(w, c.Effect)
	w.Text(c.IdempotencyKey)
	w.Text(c.Cause)
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
		w.Int(int64(c.Ordinal))
		w.Uint(uint64(c.Kind))
		w.Text(c.Name)
		writeHash(w, c.Input)
	}
}

// writeUsage writes an empty usage as nil. If the last four fields are all zero, it
// omits them, since most services do not report them.
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

// The range of the times that fit in int64 nanoseconds, in whole seconds.
const minSecond, maxSecond = math.MinInt64/int64(time.Second) + 1, math.MaxInt64/int64(time.Second) - 1

func isStorable(t time.Time) bool {
	return t.IsZero() || t.Unix() >= minSecond && t.Unix() <= maxSecond
}

func errTime(t time.Time) error {
	return fmt.Errorf("the time %v is outside the years 1678 to 2261", t)
}

// writeTime writes t, which must be storable, as nanoseconds since 1970. It writes
// the zero Time as nil.
func writeTime(w *codec.Writer, t time.Time) {
	if t.IsZero() {
		w.Nil()
		return
	}
	w.Int(t.UnixNano())
}
