package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// hold waits until a run has stopped or asks a question, but not longer than HoldFor. Whenever the
// user has answered a question, hold waits up to HoldFor again. While hold waits, it reports to the
// client, as progress, the records whose numbers are higher than told.
func (s *server) hold(ctx context.Context, c caller, runID string, told uint64) (sdk.Result, error) {
	for {
		holding, cancel := context.WithTimeout(ctx, s.options.HoldFor)
		progress, err := s.follow(holding, c, runID, &told)
		isOver := holding.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !isOver:
			return nil, err
		case isOver, progress.continuesElsewhere:
			return textResult("The run %s is still running. Call %s with {\"run\": %q} to wait for its result.", runID, toolWait, runID), nil
		case len(progress.questions) == 0:
			return s.outcome(ctx, &progress.info)
		case !c.elicits:
			return s.openQuestions(ctx, runID)
		case c.modern:
			return &callResult{ResultType: "input_required", InputRequests: requestsOf(progress.questions), RequestState: stateOf(runID, max(told, progress.info.LastSeq))}, nil
		}
		declined, err := s.elicit(ctx, c, runID, progress.questions)
		if err != nil {
			return nil, err
		}
		if declined {
			return s.openQuestions(ctx, runID)
		}
	}
}

// A progress is the state that a run was in when follow returned.
type progress struct {
	info      snapshot.Info
	questions []core.Question // open questions that a person has to answer

	// continuesElsewhere means that the run was interrupted and continues by itself, but not in this
	// process, whose runner is stopping.
	continuesElsewhere bool
}

// follow waits until a run has stopped or needs an answer, or until ctx ends. If the run continues
// by itself, follow keeps waiting unless this process is about to end. It notifies the client of
// each of the run's records, since many clients give up on a request that makes no progress.
// Records from before the watch are read first, so that even a short run reports its progress.
func (s *server) follow(ctx context.Context, c caller, runID string, told *uint64) (p progress, err error) {
	isFirst := true
	for e, err := range s.runner.Store().Watch(ctx, snapshot.WatchOptions{RunID: runID, Records: true}) {
		switch {
		case err != nil:
			return p, err
		case e.Deleted:
			return p, invalid("the run %s was deleted", runID)
		}
		if isFirst && c.token != nil {
			err = s.tellStored(ctx, c, runID, told)
		}
		mayAsk := isFirst || !e.Info.Open || slices.ContainsFunc(e.Records, concernsQuestion)
		isFirst = false
		for i := range e.Records {
			c.tell(ctx, &e.Records[i], told)
		}
		p.info = e.Info
		if err != nil || hasStopped(&p.info) {
			return p, err
		}
		if p.continuesElsewhere = continuesByItself(&p.info) && s.runner.Ready(ctx) != nil; p.continuesElsewhere {
			return p, nil
		}
		if !mayAsk {
			continue // reading the questions of a long run takes time
		}
		if p.questions, err = s.questions(ctx, runID); err != nil {
			return p, err
		}
		if len(p.questions) > 0 {
			return p, s.tellStored(ctx, c, runID, told) // the run may have advanced since the event
		}
	}
	return p, ctx.Err()
}

// tellStored notifies a client of a run's stored records whose numbers are higher than
// *told.
func (s *server) tellStored(ctx context.Context, c caller, runID string, told *uint64) error {
	for r, err := range s.runner.Store().Records(ctx, runID, *told) {
		if err != nil {
			return err
		}
		c.tell(ctx, &r, told)
	}
	return nil
}

// tell notifies the client of a record if its number is higher than *told and the client wants
// progress reports.
func (c *caller) tell(ctx context.Context, r *record.Record, told *uint64) {
	if r.Seq <= *told {
		return
	}
	*told = r.Seq
	if c.token == nil {
		return
	}
	_ = c.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: c.token, Progress: float64(r.Seq), Message: progressMessage(r)}) // the client may be gone
}

// progressMessage describes a record in words.
func progressMessage(r *record.Record) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", strings.TrimSuffix(r.Kind.String(), "_call"), r.Name, r.Status)), " ") // a run may have no name
}

// hasStopped reports whether a run has ended, or was interrupted and does not continue by itself.
func hasStopped(info *snapshot.Info) bool {
	return !info.Open && (info.Status.HasEnded() || info.Status == snapshot.StatusInterrupted && !info.Stop.Reason.ContinuesByItself())
}

// continuesByItself reports whether a run was interrupted, for example by the end of its process,
// and will be continued by a runner.
func continuesByItself(info *snapshot.Info) bool {
	return info.Status == snapshot.StatusInterrupted && !info.Open && info.Stop.Reason.ContinuesByItself()
}

// concernsQuestion reports whether a record may have changed which questions are open.
func concernsQuestion(r record.Record) bool { return r.Awaits() != 0 || r.Kind == record.KindAnswer }

// questions returns a run's open questions that a person has to answer.
func (s *server) questions(ctx context.Context, runID string) ([]core.Question, error) {
	open, err := s.runner.Questions(ctx, runID)
	return slices.DeleteFunc(open, func(q core.Question) bool { return !q.Awaits.NeedsAnswer() }), err
}
