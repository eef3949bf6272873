package printer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// call writes the record of a call. Since the calls inside a branch of a group have their own
// lines, the branch itself has lines only if it does not succeed.
func (t *text) call(r *record.Record) {
	if r.Kind == record.KindBranch && (r.Status == record.StatusStarted || isSuccess(r)) {
		return
	}
	switch r.Status {
	case record.StatusStarted:
		t.begin(t.kindMark(r.Kind))
		t.label(r)
		t.tag("", "STARTED")
		if r.IsRetry() {
			t.add(" (retry ", ordinal(r), ")")
		}
		if r.Detail != nil && r.Detail.Branches > 0 {
			t.add(" ", count(r.Detail.Branches, "branch", "branches"))
		}
		switch r.Reason {
		case record.ReasonLost:
			t.add(" again: the process ended during it")
		case record.ReasonRetry:
			t.add(" again: it had failed for good")
		case record.ReasonInDoubt: // only for a compensation
			t.add(" it may have taken effect")
		default:
		}
	case record.StatusRetrying:
		t.beginContinuation(mark{t.retry, warning})
		t.retrying(r)
	default:
		t.begin(t.statusMark(r.Status))
		t.label(r)
		t.ending(r)
	}
	t.finish(r)
	if r.Reason == record.ReasonPermanent && r.Message() != "" { // the message says how to have such an error retried
		t.beginContinuation(mark{t.note, faint})
		t.message("", r.Message())
		t.end()
	}
	switch question := awaitedQuestion(r); {
	case r.IsOutcome() && r.IsRetry():
		t.total(r)
	case isRecalledFailure(r) && t.asked == questionNew:
		t.retryHint(r.RunID)
	case question != "" && t.asked == questionNew && r.Awaits() != record.AwaitTime:
		t.listHint(r.RunID)
	}
}

// ordinal returns the attempt's number and, if known, the maximum: "2/3".
func ordinal(r *record.Record) string {
	n := strconv.Itoa(r.Attempt + 1)
	if r.MaxAttempts > 0 {
		n += "/" + strconv.Itoa(r.MaxAttempts)
	}
	return n
}

func (t *text) retrying(r *record.Record) {
	t.add("Retrying (attempt ", ordinal(r), ")")
	if r.Delay > 0 {
		t.add(" in ", duration(r.Delay), "...")
	} else {
		t.add(" at once...")
	}
	switch r.DelaySource {
	case record.SourceServer:
		t.add(" (asked by the service)")
	case record.SourceBreaker:
		t.add(" (circuit breaker open)")
	}
}

// ending writes the status of an attempt or a call after the label.
func (t *text) ending(r *record.Record) {
	switch r.Status {
	case record.StatusCompleted:
		if r.IsRetry() {
			t.tag(good, "COMPLETED after ", count(r.TotalAttempts(), "attempt", "attempts"))
			t.add(" (", duration(r.Elapsed), " total)")
		} else {
			t.tag(good, "COMPLETED")
			if r.Detail != nil && r.Detail.Cached {
				t.add(" from the cache")
			}
			t.add(" (", duration(r.Duration), ")")
		}
		t.origin(r)
		t.usage(r)
		t.attributes(r)
	case record.StatusFailed:
		t.failure(r)
	case record.StatusInterrupted:
		t.tag(paused, "INTERRUPTED")
		t.interrupt(r)
	case record.StatusAwaiting:
		t.tag(paused, "AWAITING")
		t.awaiting(r)
	case record.StatusRecovered:
		t.tag(faint, "RECOVERED from history")
		t.cause(r.Err)
	default:
		t.state(r)
	}
}

// origin adds where an output comes from if the handler did not return it: another call, an
// answer, the system in which the call was looked up, or whoever forked the run.
func (t *text) origin(r *record.Record) {
	if isSet(r) {
		t.add(" - set when the run was forked")
		return
	}
	t.message(" - ", r.Message())
}

func isSet(r *record.Record) bool { return r.Detail != nil && r.Detail.SetInFork }

func (t *text) failure(r *record.Record) {
	switch {
	case r.WillRetry || r.Reason == record.ReasonNone || r.Reason == record.ReasonExhausted:
		t.tag(bad, "FAILED")
	case r.TotalAttempts() > 1:
		t.tag(bad, "FAILED: ", words(r.Reason), " after ", count(r.TotalAttempts(), "attempt", "attempts"))
	default:
		t.tag(bad, "FAILED: ", words(r.Reason))
	}
	t.times(r)
	t.usage(r)
	t.attributes(r)
	if r.Reason == record.ReasonPanic && r.Err != nil {
		t.message(" - ", strings.TrimPrefix(fmt.Sprint(r.Err), "panic: ")) // the tag already reports the panic
		return
	}
	t.cause(r.Err)
}

// times adds the attempt's duration. If the call was retried and no other line will show its total
// time, times adds the total time, too.
func (t *text) times(r *record.Record) {
	took := r.Duration
	if !r.IsRetry() {
		if took == 0 { // the call failed before the first attempt
			took = r.Elapsed
		}
		t.add(" (", duration(took), ")")
		return
	}
	if r.WillRetry || r.Reason == record.ReasonExhausted {
		t.add(" (", duration(took), ")")
		return
	}
	t.add(" (")
	if took > 0 { // zero if the call failed while waiting for the attempt
		t.add(duration(took), ", ")
	}
	t.add(duration(r.Elapsed), " total)")
}

// total writes the line that follows the outcome of a retried call.
func (t *text) total(r *record.Record) {
	switch {
	case r.Status == record.StatusCompleted:
		t.beginContinuation(mark{t.retry, good})
		t.add("Recovered after ", count(r.Attempt, "retry", "retries"))
		t.end()
	case r.Reason == record.ReasonExhausted:
		t.begin(t.statusMark(r.Status))
		t.label(r)
		t.tag(bad, "EXHAUSTED all ", count(r.TotalAttempts(), "attempt", "attempts"))
		t.add(" (", duration(r.Elapsed), " total)")
		t.end()
	}
}

// interrupt adds the reason for an interruption, and who requested it, as in "user by terminal:
// Ctrl-C".
func (t *text) interrupt(r *record.Record) {
	e := r.Interrupt()
	if e == nil {
		t.cause(r.Err)
		return
	}
	if r.Status != record.StatusCancelled || e.Reason != record.InterruptCancel { // the status already says this
		t.message(" ", strings.ReplaceAll(string(e.Reason), "_", " "))
	}
	t.message(" by ", e.By)
	t.message(": ", e.Message)
	var d *core.DivergenceError
	switch {
	case errors.As(e.Cause, &d):
		t.message(": ", d.Difference())
	case e.Cause != nil:
		t.message(": ", fmt.Sprint(e.Cause))
	}
}
