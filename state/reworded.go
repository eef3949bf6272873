package state

import (
	"fmt"
	"log/slog"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// rewordings holds the LLM calls that were answered from their records although their requests have
// changed, in parts that do not belong to a request's identity. run.mu guards it.
type rewordings struct {
	calls  map[record.Address]bool
	warned map[string]bool // scopes with a recorded warning
}

// rewords reports whether the request of a recalled LLM call has changed. r.mu must not be held,
// since encoding the input calls methods of the input's type.
func (r *run) rewords(c record.Claim, input engine.ClaimedInput) bool {
	if c.Kind != record.KindLLM {
		return false
	}
	r.mu.Lock()
	was, whole := r.restored.calls[c.Address], uint64(0)
	if was != nil && was.HasOutcome() && !was.NoStore && !was.differs(c.Input) {
		whole = was.whole
	}
	r.mu.Unlock()
	return whole > 0 && r.isReworded(whole, input)
}

// isReworded reports whether a call's request differs from the request in the record with the given
// number, in parts that do not belong to the request's identity. r.mu must not be held, since
// encoding the input calls methods of the input's type.
func (r *run) isReworded(number uint64, input engine.ClaimedInput) bool {
	was, err := r.restored.found.Record(number)
	if err != nil || was.Detail == nil {
		return false
	}
	if now, err := input.Whole(); err != nil || now == was.Detail.WholeInput {
		return false
	}
	for _, encode := range []func() ([]byte, error){input.Encode, input.EncodeBefore} {
		encoded, err := encode()
		if err != nil {
			return false
		}
		if now, err := codec.Hash(encoded); err != nil || now == was.Detail.WholeInput {
			return false
		}
	}
	return true
}

// reportReworded reports a call that is answered from its records although it is reworded. It adds
// the call to the Report, and records a warning for the first such call of each attempt. The
// warning is published with the next record, since nothing is published while a call is claimed.
func (r *run) reportReworded(s *engine.Scope, a record.Address) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.closed {
		return // nothing follows the last record
	}
	if r.reworded.calls == nil {
		r.reworded = rewordings{make(map[record.Address]bool), make(map[string]bool)}
	}
	r.reworded.calls[a] = true
	r.report.Reworded = append(r.report.Reworded, a)
	scope := s.Path()
	if r.reworded.warned[scope] {
		return
	}
	r.reworded.warned[scope] = true
	r.keep(&record.Record{
		Time: now(), Address: s.Address(), Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: fmt.Sprintf("%s was answered from its record, although instructions, descriptions of tools, "+
			"tools or options have changed; to ask the model again: reprise --dir DIR fork %s '%s' NEW. Further calls of this attempt are only counted", a, r.settings.RunID, a)},
	})
	_ = r.write() // an error is returned again when the next call begins
}
