package stored

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// Runs is a [streamer.Source] that reads the runs in a store. It is safe for concurrent
// use, and need not be closed.
type Runs struct {
	store       snapshot.Store
	began       time.Time                // when New was called; runs created later have only new records
	interrupted atomic.Pointer[follower] // where the next call of Follow continues; nil if it starts anew
}

// New returns a source with the runs in the store.
func New(store snapshot.Store) *Runs { return &Runs{store: store, began: time.Now()} }

var _ streamer.Source = (*Runs)(nil)

// List implements [streamer.Source].
func (s *Runs) List(ctx context.Context, q streamer.Query) (page streamer.RunPage, err error) {
	f := filterOf(&q)
	for {
		part, err := s.store.List(ctx, f)
		switch {
		case errors.Is(err, snapshot.ErrFilter) && q.After != "":
			return page, fmt.Errorf("%w: after is %.50q: want the value of next in a page with the same order", streamer.ErrInvalid, q.After)
		case errors.Is(err, snapshot.ErrFilter):
			return page, fmt.Errorf("%w: %s", streamer.ErrInvalid, strings.TrimPrefix(err.Error(), snapshot.ErrFilter.Error()+": "))
		case err != nil:
			return page, err
		}
		for i := range part.Runs {
			page.Runs = append(page.Runs, infoOf(&part.Runs[i]))
		}
		if f.Count {
			page.Counts = make(map[string]int)
			for status, n := range part.Counts {
				page.Counts[string(status)] = n
			}
		}
		page.Next = part.Next
		if part.Next == "" || q.Limit == 0 || len(page.Runs) >= q.Limit {
			return page, nil
		}
		f.After, f.Limit, f.Count = part.Next, q.Limit-len(page.Runs), false // the store returned a short page: read on
	}
}

var sorts = map[string]snapshot.Sort{
	"start": snapshot.SortCreated, "end": snapshot.SortEnded, "duration": snapshot.SortDuration,
	"cost": snapshot.SortCost, "tokens": snapshot.SortTokens, "retries": snapshot.SortRetries,
}

func filterOf(q *streamer.Query) snapshot.Filter {
	f := snapshot.Filter{
		Tags: q.Tags, Pipeline: q.Pipeline, Program: q.Program, Version: q.Version, Parent: q.Parent, ErrorClass: q.ErrorClass,
		Text: q.Text, Asking: q.Asking, Since: q.Since, Until: q.Until, Only: q.Sees,
		Sort: sorts[q.Sort], Ascending: q.Ascending, Count: true, After: q.After, Limit: q.Limit,
	}
	for _, status := range q.Status {
		f.Status = append(f.Status, snapshot.Status(status))
	}
	return f
}

// Run implements [streamer.Source].
func (s *Runs) Run(ctx context.Context, runID string) (streamer.RunInfo, error) {
	if snapshot.CheckRunID(runID) != nil {
		return streamer.RunInfo{}, streamer.ErrNotFound
	}
	info, err := s.store.Info(ctx, runID)
	found := infoOf(&info)
	if err != nil {
		return found, sourceError(err)
	}
	if asked, err := state.Stopping(ctx, s.store, &info); err == nil && asked != nil {
		found.Stopping = stopOf(*asked)
	}
	return found, nil
}

// Records implements [streamer.Source].
func (s *Runs) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for rec, err := range s.store.Records(ctx, runID, after) {
			if !yield(rec, sourceError(err)) {
				return
			}
		}
	}
}

func infoOf(i *snapshot.Info) streamer.RunInfo {
	by, _ := caller.Of(&i.Metadata)
	info := streamer.RunInfo{
		RunID: i.RunID, ParentID: i.ParentID, CalledBy: by.RunID, Status: string(i.Status), Stop: stopOf(i.Stop),
		Description: i.Metadata.Description, Pipeline: i.Metadata.Pipeline, Tags: i.Metadata.Tags,
		Created: i.Created, Updated: i.Updated, Due: i.Due, Program: i.Program, Version: i.Version, Worker: i.Owner, LastSeq: i.LastSeq, Usage: i.Usage,
		Calls: i.Summary.Calls, Failed: i.Summary.Failed, Retries: i.Summary.Retries, Asking: i.Summary.Asking,
	}
	for _, q := range i.Summary.Questions {
		info.Questions = append(info.Questions, streamer.QuestionState{
			ID: q.ID, Awaits: q.Awaits, Text: q.Text, Address: askerOf(q.ID), Asked: q.Asked, Due: q.Due,
		})
	}
	if e := i.Summary.LastError; e != nil {
		info.LastError = &streamer.CallError{Class: e.Class, Message: e.Message, Time: e.Time}
		info.LastError.Address, _ = record.ParseAddress(e.Address)
		info.LastError.Name, _, _ = strings.Cut(e.Address[strings.LastIndexByte(e.Address, '/')+1:], "#")
	}
	return info
}

// askerOf returns the address of the call that asks a question. The question's ID begins with that
// address, followed by a question mark. Question marks inside addresses are escaped.
func askerOf(questionID string) record.Address {
	address, _, _ := strings.Cut(questionID, "?")
	a, _ := record.ParseAddress(address)
	return a
}

// Artifact implements [streamer.Source].
func (s *Runs) Artifact(ctx context.Context, reference string) ([]byte, error) {
	data, err := s.store.Get(ctx, reference)
	return data, sourceError(err)
}

// Answered implements [streamer.Source].
func (s *Runs) Answered(ctx context.Context, runID string) ([]string, error) {
	waiting, err := s.store.Messages(ctx, runID)
	var ids []string
	for i := range waiting {
		if m := &waiting[i]; m.IsAnswer() {
			ids = append(ids, m.Record.Name)
		}
	}
	return ids, sourceError(err)
}

// stopOf returns s as a [streamer.Stop], or nil if it is empty.
func stopOf(s snapshot.Stop) *streamer.Stop {
	if s == (snapshot.Stop{}) {
		return nil
	}
	return &streamer.Stop{Reason: string(s.Reason), By: s.By, Message: s.Message}
}

// sourceError translates an error from a store into an error of a [streamer.Source].
func sourceError(err error) error {
	if errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("%w: %w", streamer.ErrNotFound, err)
	}
	return err
}
