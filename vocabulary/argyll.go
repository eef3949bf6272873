package vocabulary

import (
	"time"

	"github.com/reprise-go/reprise/record"
)

// Argyll has the events of Argyll's work items: work_started,
// work_not_completed, work_retry_scheduled, work_failed and work_succeeded.
// Their fields are flow_id (the run), step_id (the actor's name), token, error,
// and, of what is scheduled, retry_count and next_retry_at. The token names the
// work item and is the same for all its attempts; it is not that of
// core.ReceiptToken, which depends on the input too.
func Argyll(r record.Record) []Event {
	if !isStep(&r) {
		return nil
	}
	event := func(name string) Event {
		fields := map[string]any{"flow_id": r.RunID, "step_id": r.Name, "token": r.RunID + "/" + r.Address.WithoutAttempts()}
		if r.Err != nil {
			fields["error"] = r.Err.Error()
		}
		return Event{name, fields}
	}
	switch r.Status {
	case record.StatusStarted:
		return []Event{event("work_started")}
	case record.StatusRetrying:
		scheduled := event("work_retry_scheduled")
		scheduled.Fields["retry_count"] = r.Attempt
		scheduled.Fields["next_retry_at"] = nextAt(&r)
		return []Event{scheduled}
	case record.StatusCompleted:
		return []Event{event("work_succeeded")}
	case record.StatusFailed:
		switch {
		case r.WillRetry:
			return []Event{event("work_not_completed")}
		case gaveUp(&r):
			return []Event{event("work_not_completed"), event("work_failed")}
		}
		return []Event{event("work_failed")}
	}
	return nil
}

func nextAt(r *record.Record) string { return r.NextAttemptAt().UTC().Format(time.RFC3339Nano) }
