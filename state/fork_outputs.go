package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// set replaces outputs and answers in the records that the fork keeps.
func (f *fork) set(outputs map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(outputs)) {
		var err error
		if strings.Contains(key, "?") {
			err = f.setAnswer(key, outputs[key])
		} else {
			err = f.setOutput(key, outputs[key])
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", key, err)
		}
	}
	return nil
}

// setOutput sets the output of the call at the given path.
func (f *fork) setOutput(path string, value any) error {
	a, err := record.ParseAddress(path)
	if err != nil {
		return err
	}
	if a == f.address {
		f.keepForkedCall()
	}
	outcome := lastOutcome(f.kept, a)
	switch {
	case outcome == nil && lastOutcome(f.old.Records, a) != nil:
		return fmt.Errorf("the fork does not keep that call; set the output of %s itself, or of a call that ended before it", f.address)
	case outcome == nil:
		return fmt.Errorf("no call at that address has an outcome; want one of %s", f.listSettable())
	case outcome.Kind.IsParallel():
		return fmt.Errorf("a %v has no output of its own; set the outputs of the calls inside it", outcome.Kind)
	case outcome.Detail != nil && outcome.Detail.NoStore:
		return fmt.Errorf("its output must not be stored (WithNoStore): the call is made again whenever the run is resumed")
	}
	if value, err = fitOutput(outcome.Encoded(), value); err != nil {
		return err
	}
	encoded, err := record.Encode(value)
	if err != nil {
		return err
	}
	detail := record.Detail{}
	if outcome.Detail != nil {
		detail = *outcome.Detail
	}
	detail.Output, detail.Artifact, detail.SetInFork = encoded, "", true
	outcome.Status, outcome.Reason, outcome.Stage, outcome.Class, outcome.Err = record.StatusCompleted, 0, 0, 0, nil
	outcome.Detail = &detail
	return nil
}

// keepForkedCall keeps two records of the call at which the fork begins: its first record, which
// contains the input, and its outcome.
func (f *fork) keepForkedCall() {
	for i := range f.old.Records {
		r := f.old.Records[i]
		if r.Address != f.address || !r.Kind.IsCall() || r.Seq != f.first && !f.isLastOutcome(&r) {
			continue
		}
		withdrawCompensation(&r)
		renumber(&r, f.numbers)
		f.append(r)
	}
	f.whole = true
}

func (f *fork) isLastOutcome(r *record.Record) bool {
	last := lastOutcome(f.old.Records, f.address)
	return last != nil && last.Seq == r.Seq
}

// lastOutcome returns the call's latest outcome, or nil if it has none.
func lastOutcome(records []record.Record, a record.Address) *record.Record {
	for i := range slices.Backward(records) {
		if r := &records[i]; r.Address == a && r.IsOutcome() {
			return r
		}
	}
	return nil
}

// listSettable lists calls whose outputs can be set.
func (f *fork) listSettable() string {
	var calls []string
	for i := range f.kept {
		if r := &f.kept[i]; r.IsOutcome() && !r.Kind.IsParallel() {
			calls = append(calls, r.Address.String())
		}
	}
	calls = append(calls, f.address.String())
	if more := len(calls) - maxListed; more > 0 {
		calls = append(calls[:maxListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(calls, ", ")
}

// setAnswer sets the answer to the question.
func (f *fork) setAnswer(id string, value any) error {
	question, _ := lastAsked(f.old.Records, id)
	switch {
	case question == nil:
		return fmt.Errorf("it was never asked; %s", f.listQuestions())
	case !question.Awaits().NeedsAnswer():
		return fmt.Errorf("it waits for a time or a signal, not for an answer")
	case lastOutcome(f.kept, question.Address) != nil:
		return fmt.Errorf("the fork keeps the outcome of the call that asked it; fork at %s or at a call before it", question.Address)
	case !f.keepsAttempt(question):
		return fmt.Errorf("it is about an attempt of %s that the fork does not keep; the fork makes the call again, and asks again if the new attempt is in doubt", question.Address)
	}
	q := core.Question{ID: id, Awaits: question.Awaits(), Schema: question.Detail.Schema, InDoubt: question.Detail.InDoubt}
	encoded, err := q.Encode(value)
	if err != nil {
		return err
	}
	answer := answerRecord(now(), question.Address, id, "", encoded)
	answer.Detail.SetInFork = true
	kept, since := lastAsked(f.kept, id)
	if kept == nil {
		asked, detail := *question, *question.Detail
		detail.Unrecorded = nil // the call makes the same claims again
		asked.Detail = &detail
		f.append(asked)
	} else if before := firstAnswer(since, id); before != nil {
		before.Time, before.Detail = answer.Time, answer.Detail
		return nil
	}
	f.append(answer)
	return nil
}

// keepsAttempt reports whether the fork keeps the attempt that the question is about. It also
// returns true if the question is not about an attempt.
func (f *fork) keepsAttempt(question *record.Record) bool {
	about := question.Detail.InDoubt
	if about == nil || about.Effect != nil {
		return true
	}
	starts := 0
	for i := range f.kept {
		if r := &f.kept[i]; r.Address == question.Address && r.Status == record.StatusStarted && r.Kind.IsCall() {
			starts++
		}
	}
	return starts >= about.Starts
}

// append keeps one more record.
func (f *fork) append(r record.Record) {
	r.Seq, r.Generation = uint64(len(f.kept))+1, 1
	f.kept = append(f.kept, r)
}

// listQuestions lists the questions that were asked.
func (f *fork) listQuestions() string {
	var asked []string
	for i := range f.old.Records {
		if r := &f.old.Records[i]; r.Kind == record.KindQuestion && r.Awaits().NeedsAnswer() && !slices.Contains(asked, r.Name) {
			asked = append(asked, r.Name)
		}
	}
	if len(asked) == 0 {
		return "the run has asked none"
	}
	return "want one of " + strings.Join(asked, ", ")
}

// fitOutput converts the value to a form that can replace the recorded output. The output's type is
// not known, so only the kinds of parts that exist in both values are compared. A difference
// elsewhere is detected when a call decodes the value, and then stops the run.
func fitOutput(recorded []byte, value any) (any, error) {
	encoded, err := record.Encode(value)
	if err != nil {
		return nil, err
	}
	if len(recorded) == 0 {
		return value, nil
	}
	var was, is any
	if err := record.Decode(recorded, &was); err != nil {
		return nil, fmt.Errorf("its recorded output cannot be read: %w", err)
	}
	if err := record.Decode(encoded, &is); err != nil {
		return nil, err
	}
	return fit("", was, is)
}

// fit converts a decoded value, in the parameter is, to the form of a recorded value, in the
// parameter was. path locates the value in the output.
func fit(path string, was, is any) (any, error) {
	if was == nil || is == nil {
		return is, nil
	}
	switch was := was.(type) {
	case map[string]any:
		if is, ok := is.(map[string]any); ok {
			for name := range is {
				var err error
				if is[name], err = fit(strings.TrimPrefix(path+"."+name, "."), was[name], is[name]); err != nil {
					return nil, err
				}
			}
			return is, nil
		}
	case []any:
		if is, ok := is.([]any); ok {
			for i := range is {
				if len(was) == 0 {
					break
				}
				var err error
				if is[i], err = fit(path+"["+strconv.Itoa(i)+"]", was[0], is[i]); err != nil {
					return nil, err
				}
			}
			return is, nil
		}
	case time.Time:
		if text, ok := is.(string); ok {
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				return at, nil
			}
		} else if _, ok := is.(time.Time); ok {
			return is, nil
		}
	default:
		if kindOf(was) == kindOf(is) || kindOf(was) == "a number" && kindOf(is) == "an integer" {
			return is, nil
		}
	}
	if path == "" {
		path = "the output"
	}
	return nil, fmt.Errorf("%w: %s: got %s, but the record has %s", core.ErrUnfit, path, kindOf(is), kindOf(was))
}

// kindOf names the kind of a decoded value.
func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case int64, uint64:
		return "an integer"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	case time.Time:
		return "a time"
	}
	return "a string"
}
