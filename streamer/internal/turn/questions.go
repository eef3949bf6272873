package turn

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// WireID returns a question's ID on the wire. Since it contains the run's ID, it is unique in a
// thread.
func WireID(runID, question string) string { return runID + ":" + question }

// QuestionID returns the ID that a question on the wire has in the run. ok is false if the question
// belongs to another run.
func QuestionID(runID, wire string) (id string, ok bool) {
	id, ok = strings.CutPrefix(wire, runID+":")
	return id, ok && id != ""
}

func (b *Builder) ask(r *record.Record) {
	if !r.Awaits().NeedsAnswer() {
		return
	}
	q := Question{ID: WireID(b.runID, r.Name), Text: b.runs.RedactText(r.Message()), Approval: isApproval(r)}
	q.asked = core.Question{ID: r.Name, Awaits: r.Awaits()}
	if r.Delay > 0 {
		q.Due = r.Time.Add(r.Delay)
	}
	if r.Detail != nil && json.Valid(r.Detail.Schema) {
		q.Schema = r.Detail.Schema
	}
	if r.Detail != nil {
		q.asked.Schema, q.asked.InDoubt = r.Detail.Schema, r.Detail.InDoubt
	}
	if r.Err != nil {
		q.Refused = b.errorText(r)
	}
	for _, c := range b.calls {
		if !c.address.IsZero() && (c.address == r.Address || r.Address.IsInside(c.address)) {
			q.Call = c.id
			q.Approval = q.Approval && c.address == r.Address
		}
	}
	q.Approval = q.Approval && q.Call != ""
	b.asked[r.Name] = q
}

// isApproval reports whether the question asks for approval of a tool call. Such a question is
// asked by a call that contains the tool call; see actors.WithApproval.
func isApproval(r *record.Record) bool {
	path := r.Address.String()
	return strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "approve_") && r.Awaits() == record.AwaitAnswer
}

// open returns the questions that are waiting for a person's answer.
func (b *Builder) open() (asked []Question) {
	for _, q := range b.ledger.Questions(false) {
		if known, ok := b.asked[q.ID]; ok {
			asked = append(asked, known)
		}
	}
	return asked
}

func (b *Builder) answered(ctx context.Context, r *record.Record) ([]Event, error) {
	q, ok := b.asked[r.Name]
	if !ok {
		return nil, nil
	}
	delete(b.asked, r.Name)
	data, err := b.runs.RecordJSON(ctx, r)
	if err != nil {
		return nil, err
	}
	return []Event{{Kind: Answered, Call: q.Call, Data: valid(data), Asked: []Question{q}}}, nil
}
