package vocabulary

import (
	"time"

	"github.com/reprise-go/reprise/record"
)

// Argyll translates records into the events of Argyll's work items: work_started,
// work_not_completed, work_retry_scheduled, work_failed and work_succeeded. The fields of these
// events are flow_id (the run), step_id (the actor's name), token, error, and, in
// work_retry_scheduled, retry_count and next_retry_at. The token identifies the work item and is
// the same for all attempts. It is not the key from core.IdempotencyKey, which also depends on the
// input.
//
// Compensations are translated into the same events, with the prefix compensation_ instead of
// work_. Argyll's document defines only compensation_failed; the other names follow the same
// pattern. Argyll has no terms for caches and circuit breakers. If a cache answered, work_succeeded
// contains cached: true. The events breaker_opened, breaker_half_opened and breaker_closed report
// that the state of a step's circuit breaker has changed.
func Argyll(r record.Record) []Event {
	if changed, ok := breakerEvent(&r); ok {
		changed.Fields["flow_id"] = r.RunID
		changed.Fields["token"] = token(&r)
		return []Event{changed}
	}
	if !isStep(&r) {
		return nil
	}
	prefix := "work_"
	if r.Kind == record.KindCompensation {
		prefix = "compensation_"
	}
	event := func(name string) Event {
		fields := map[string]any{"flow_id": r.RunID, "step_id": r.Name, "token": token(&r)}
		if r.Err != nil {
			fields["error"] = r.Err.Error()
		}
		return Event{prefix + name, fields}
	}
	switch r.Status {
	case record.StatusStarted:
		return []Event{event("started")}
	case record.StatusRetrying:
		scheduled := event("retry_scheduled")
		scheduled.Fields["retry_count"] = r.Attempt
		scheduled.Fields["next_retry_at"] = nextAt(&r)
		return []Event{scheduled}
	case record.StatusCompleted:
		succeeded := event("succeeded")
		if isCached(&r) {
			succeeded.Fields["cached"] = true
		}
		return []Event{succeeded}
	case record.StatusFailed:
		switch {
		case r.WillRetry:
			return []Event{event("not_completed")}
		case r.Reason.IsExhaustion():
			return []Event{event("not_completed"), event("failed")}
		}
		return []Event{event("failed")}
	}
	return nil
}

func token(r *record.Record) string { return r.RunID + "/" + r.Address.WithoutAttempts() }

func nextAt(r *record.Record) string { return r.NextAttemptAt().UTC().Format(time.RFC3339Nano) }
