package wire

import (
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// Name returns the name of the event for a record.
func Name(r *record.Record) string {
	if r.Kind != record.KindRun {
		return r.Status.String()
	}
	if r.Status == record.StatusAwaiting {
		return "run_paused"
	}
	return "run_" + r.Status.String()
}

// Gap is the data of a "gap" event.
type Gap struct {
	RunID  string `json:"run_id,omitempty"` // empty in the stream of all runs
	Missed uint64 `json:"missed"`
}

// JSON encodes the record as one line of at most limit bytes. If the record is too long, JSON cuts
// the texts that users wrote, and adds the key "truncated" to the metadata. The limit must be at
// least 4 KB.
func JSON(r *record.Record, limit int) []byte {
	data, err := r.MarshalJSON() // json.Marshal would scan the result again
	if err == nil && len(data) <= limit {
		return data
	}
	text := limit / 64 // JSON may encode one byte as six
	cut := record.Record{
		RunID: r.RunID, Seq: r.Seq, Generation: r.Generation, Ordinal: r.Ordinal, Time: r.Time,
		Address: r.Address, Name: CutText(r.Name, text),
		Kind: r.Kind, Status: r.Status, Reason: r.Reason, Stage: r.Stage, Class: r.Class,
		DelaySource: r.DelaySource, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, WillRetry: r.WillRetry,
		Replayed: r.Replayed, Duration: r.Duration, Elapsed: r.Elapsed, Delay: r.Delay,
		Detail: &record.Detail{Metadata: map[string]any{"truncated": "the record is too long for an event"}},
	}
	if r.Err != nil {
		cut.Err = cutError(CutText(fmt.Sprint(r.Err), text)) // Sprint recovers if the Error method panics
	}
	if r.Detail != nil {
		cut.Detail.Usage = r.Detail.Usage
		cut.Detail.Branches = r.Detail.Branches
		cut.Detail.Message = CutText(r.Detail.Message, text)
	}
	if data, err = cut.MarshalJSON(); err == nil && len(data) <= limit {
		return data
	}
	cut.RunID, cut.Name, cut.Address, cut.Err = CutText(r.RunID, text), "", record.Address{}, nil
	cut.Detail.Message = ""
	if data, err = cut.MarshalJSON(); err != nil {
		return []byte(`{}`) // strings and numbers can always be encoded
	}
	return data
}

// cutError is the text of an error that was too long.
type cutError string

func (e cutError) Error() string { return string(e) }

// CutText returns s if it has at most limit bytes. Otherwise it returns the beginning of s,
// cut at a rune boundary, and an ellipsis.
func CutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}
