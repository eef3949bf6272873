// Package waiting reports what a stored run is waiting for.
package waiting

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// For returns what a paused run is waiting for, such as "2 answers, the signal paid". answers
// reports whether that includes answers. The text is empty if the run is waiting only for its
// program. The run must not have been cancelled.
func For(ctx context.Context, store snapshot.Store, runID string) (text string, answers bool, err error) {
	posted, err := store.Messages(ctx, runID) // read first: answers are removed only once recorded
	if err != nil {
		return "", false, err
	}
	var l record.Ledger
	for r, err := range store.Records(ctx, runID, 0) {
		if err != nil {
			return "", false, err
		}
		l.Add(&r)
	}
	unanswered := 0
	var all []string
	for _, q := range l.Questions(true) {
		isAnswer := func(m snapshot.Message) bool { return m.IsAnswer() && m.Record.Name == q.ID }
		switch {
		case q.Awaits == record.AwaitSignal:
			all = append(all, "the signal "+q.Text)
		case q.Awaits == record.AwaitTime:
			all = append(all, q.Due.UTC().Format(time.RFC3339))
		case !slices.ContainsFunc(posted, isAnswer):
			unanswered++
		}
	}
	switch {
	case unanswered == 1:
		all = append([]string{"1 answer"}, all...)
	case unanswered > 1:
		all = append([]string{fmt.Sprintf("%d answers", unanswered)}, all...)
	}
	return strings.Join(all, ", "), unanswered > 0, nil
}

// Refusal returns why a request to resume a paused run would have no effect, which is what the run
// is waiting for. It returns "" if the run is waiting only for its program.
func Refusal(ctx context.Context, store snapshot.Store, runID string) (string, error) {
	waits, answers, err := For(ctx, store, runID)
	if err != nil || waits == "" {
		return "", err
	}
	why := "it is paused and waits for " + waits
	if answers {
		why += fmt.Sprintf("; to answer: POST /api/runs/%s/answer", runID)
	}
	return why, nil
}
