package vocabulary

import "github.com/reprise-go/reprise/record"

// NoETL translates records into the events of NoETL's retry architecture: action_started,
// action_error, step_retry, step_retry_exhausted, step_failed_terminal, action_completed,
// step_completed and execution_failed. The fields of these events are execution_id (the run),
// node_id (the address), node_name, node_type, status and context. In the context of
// step_retry_exhausted, reason is the limit that was reached, such as exhausted or budget. As in
// NoETL, there is no such event for a step that is limited to one attempt. The context of
// step_retry contains delay_source if the service or a circuit breaker chose the delay.
//
// A compensation is translated into the same events as a step, with compensation as the node_type.
// Anything for which NoETL has no term is either a separate field of the context or a separate
// event: the field cached: true if a cache answered, and the events breaker_opened,
// breaker_half_opened and breaker_closed if the state of a circuit breaker changed.
func NoETL(r record.Record) []Event {
	if r.Kind == record.KindRun && r.Status == record.StatusFailed && !r.Replayed {
		return []Event{{"execution_failed", map[string]any{"execution_id": r.RunID, "status": "FAILED", "context": map[string]any{"error": errorText(&r)}}}}
	}
	if changed, ok := breakerEvent(&r); ok {
		changed.Fields["execution_id"] = r.RunID
		changed.Fields["node_id"] = r.Address.String()
		return []Event{changed}
	}
	if !isStep(&r) {
		return nil
	}
	event := func(name, status string, context map[string]any) Event {
		return Event{name, map[string]any{
			"execution_id": r.RunID, "node_id": r.Address.String(), "node_name": r.Name, "node_type": r.Kind.String(), "status": status, "context": context,
		}}
	}
	limit := maxAttempts(&r)
	switch r.Status {
	case record.StatusStarted:
		retry := map[string]any{"attempt": r.Attempt + 1, "max_attempts": limit, "is_retry": r.IsRetry()}
		return []Event{event("action_started", "STARTED", map[string]any{"retry": retry})}
	case record.StatusRetrying:
		next := map[string]any{"attempt": r.Attempt + 1, "max_attempts": limit, "delay_seconds": r.Delay.Seconds(), "last_error": errorText(&r)}
		if r.DelaySource != record.SourceBackoff {
			next["delay_source"] = r.DelaySource.String()
		}
		return []Event{event("step_retry", "PENDING", next)}
	case record.StatusCompleted:
		made := map[string]any{"attempt": r.TotalAttempts(), "success": true}
		if isCached(&r) {
			made["cached"] = true
		}
		return []Event{event("action_completed", "COMPLETED", made), event("step_completed", "COMPLETED", made)}
	case record.StatusFailed:
		return noetlFailure(&r, event, limit)
	}
	return nil
}

func noetlFailure(r *record.Record, event func(name, status string, context map[string]any) Event, limit any) (events []Event) {
	made := r.TotalAttempts()
	if made > 0 {
		events = append(events, event("action_error", "FAILED", map[string]any{"attempt": made, "error": errorText(r)}))
	}
	if r.WillRetry {
		return events
	}
	if r.Reason.IsExhaustion() && (r.MaxAttempts != 1 || r.Reason != record.ReasonExhausted) {
		events = append(events, event("step_retry_exhausted", "FAILED", map[string]any{
			"attempts": made, "max_attempts": limit, "last_error": errorText(r), "reason": r.Reason.String(),
		}))
	}
	return append(events, event("step_failed_terminal", "FAILED", map[string]any{"error": errorText(r), "reason": r.Reason.String()}))
}

// maxAttempts returns the maximum number of attempts, or nil if there is no limit.
func maxAttempts(r *record.Record) any {
	if r.MaxAttempts <= 0 {
		return nil
	}
	return int(r.MaxAttempts)
}
