package snapshot

import (
	"math"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A Summary describes a run's state when the run was last closed. It is part of the Info, so
// that lists can show it without reading records. The zero Summary describes a run without calls.
type Summary struct {
	Calls   int `json:"calls,omitempty"`   // over all generations
	Failed  int `json:"failed,omitempty"`  // how many of Calls failed permanently
	Retries int `json:"retries,omitempty"` // attempts that followed a failed one

	// Asking is the number of open questions. Questions holds the first of them, in the order in
	// which they were asked: at most 20, with at most 8 KiB of text in total.
	Asking    int            `json:"asking,omitempty"`
	Questions []OpenQuestion `json:"questions,omitempty"`

	LastError *Failure `json:"last_error,omitempty"` // see record.Ledger.LastError; nil if there is none
}

// An OpenQuestion is a question without an answer.
type OpenQuestion struct {
	ID     string           `json:"id"`
	Text   string           `json:"text"` // truncated to 500 bytes
	Awaits record.AwaitKind `json:"awaits,omitempty"`
	Asked  time.Time        `json:"asked_at"`
	Due    time.Time        `json:"due_at,omitzero"` // when the default answer applies; zero if there is no default
}

// A Failure is a failed attempt of a call.
type Failure struct {
	Address string    `json:"address"`
	Class   string    `json:"error_class"`
	Message string    `json:"message"` // truncated to 500 bytes
	Time    time.Time `json:"time"`
}

const (
	maxSummaryText      = 500
	maxSummaryQuestions = 20
	maxSummaryBytes     = 8 << 10
)

// SummaryOf returns the summary of the run whose records the ledger holds.
func SummaryOf(l *record.Ledger) Summary {
	counts := l.Counts()
	all := counts.All()
	s := Summary{Calls: all.Calls(), Failed: all.Failed, Retries: counts.Retries}
	size := 0
	for _, q := range l.Questions(false) {
		s.Asking++
		text := record.Truncate(q.Text, maxSummaryText)
		if size += len(q.ID) + len(text); len(s.Questions) < maxSummaryQuestions && size <= maxSummaryBytes {
			s.Questions = append(s.Questions, OpenQuestion{q.ID, text, q.Awaits, storableOr(q.Asked), storableOr(q.Due)})
		}
	}
	if e, failed := l.LastError(); failed {
		s.LastError = &Failure{
			record.Truncate(e.Address.String(), maxSummaryText), e.Class.String(), record.Truncate(e.Message(), maxSummaryText), storableOr(e.Time),
		}
	}
	return s
}

// storableOr returns t, or the zero Time if stores cannot store t.
func storableOr(t time.Time) time.Time {
	if isStorable(t) {
		return t
	}
	return time.Time{}
}

// Clone returns a deep copy of s.
func (s Summary) Clone() Summary {
	s.Questions = slices.Clone(s.Questions)
	if s.LastError != nil {
		last := *s.LastError
		s.LastError = &last
	}
	return s
}

// Equal reports whether s and t are equal.
func (s Summary) Equal(t Summary) bool {
	isSame := func(a, b OpenQuestion) bool {
		return a.ID == b.ID && a.Text == b.Text && a.Awaits == b.Awaits && a.Asked.Equal(b.Asked) && a.Due.Equal(b.Due)
	}
	if s.Calls != t.Calls || s.Failed != t.Failed || s.Retries != t.Retries || s.Asking != t.Asking ||
		!slices.EqualFunc(s.Questions, t.Questions, isSame) || (s.LastError == nil) != (t.LastError == nil) {
		return false
	}
	a, b := s.LastError, t.LastError
	return a == nil || a.Address == b.Address && a.Class == b.Class && a.Message == b.Message && a.Time.Equal(b.Time)
}

// write writes the zero Summary as nil.
func (s *Summary) write(w *codec.Writer) {
	if s.Equal(Summary{}) {
		w.Nil()
		return
	}
	w.Map(6)
	w.Key("calls").Int(int64(s.Calls))
	w.Key("failed").Int(int64(s.Failed))
	w.Key("retries").Int(int64(s.Retries))
	w.Key("asking").Int(int64(s.Asking))
	w.Key("questions").Array(len(s.Questions))
	for i := range s.Questions {
		q := &s.Questions[i]
		w.Map(5)
		w.Key("id").Text(q.ID)
		w.Key("text").Text(q.Text)
		w.Key("awaits").Int(int64(q.Awaits))
		writeTime(w.Key("asked_at"), q.Asked)
		writeTime(w.Key("due_at"), q.Due)
	}
	w.Text("last_error")
	if s.LastError == nil {
		w.Nil()
		return
	}
	w.Map(4)
	w.Key("address").Text(s.LastError.Address)
	w.Key("error_class").Text(s.LastError.Class)
	w.Key("message").Text(s.LastError.Message)
	writeTime(w.Key("time"), s.LastError.Time)
}

func readSummary(in *codec.Reader) (s Summary) {
	if in.Nil() {
		return s
	}
	for key := range in.Pairs() {
		switch key {
		case "calls":
			s.Calls = int(in.Int())
		case "failed":
			s.Failed = int(in.Int())
		case "retries":
			s.Retries = int(in.Int())
		case "asking":
			s.Asking = int(in.Int())
		case "questions":
			for n := in.Array(); n > 0 && in.Err() == nil; n-- {
				s.Questions = append(s.Questions, readOpenQuestion(in))
			}
		case "last_error":
			s.LastError = readFailure(in)
		default:
			in.Skip()
		}
	}
	return s
}

func readOpenQuestion(in *codec.Reader) (q OpenQuestion) {
	for key := range in.Pairs() {
		switch key {
		case "id":
			q.ID = in.Text()
		case "text":
			q.Text = in.Text()
		case "awaits":
			q.Awaits = record.AwaitKind(min(in.Uint(), math.MaxUint8)) //nolint:gosec // it fits
		case "asked_at":
			q.Asked = readTime(in)
		case "due_at":
			q.Due = readTime(in)
		default:
			in.Skip()
		}
	}
	return q
}

func readFailure(in *codec.Reader) *Failure {
	if in.Nil() {
		return nil
	}
	f := new(Failure)
	for key := range in.Pairs() {
		switch key {
		case "address":
			f.Address = in.Text()
		case "error_class":
			f.Class = in.Name()
		case "message":
			f.Message = in.Text()
		case "time":
			f.Time = readTime(in)
		default:
			in.Skip()
		}
	}
	return f
}
