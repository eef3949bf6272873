package runner

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/snapshot"
)

// StartOptions specify how a run is started.
type StartOptions struct {
	Version  string    // version of the program; defaults to the version that was registered last
	Priority int       // among runs waiting for a slot, the one with the highest priority begins first
	At       time.Time // the earliest time to begin; zero means now
	Pinned   bool      // retention keeps the run
	Metadata snapshot.Metadata

	// Principal is who starts the run, for Options.MaxQueuedPerPrincipal. It is empty if unknown.
	Principal string
}

// Start stores a run of a program with its input, queues the run, and returns its Info. The run
// begins when it is due and a slot is free. The input either has the actor's input type or is JSON,
// as a json.RawMessage. If the run ID is empty, a random ID is used.
//
// Start is idempotent for a given run ID. If the run was started before with the same program and
// input, Start changes nothing and returns the run's Info. If it was started with another program
// or input, the error is [ErrStarted]. If the program is not registered, the error is
// [ErrNotRegistered]; if the input does not fit, it is [ErrInput]. If as many runs are waiting as
// Options allow, the error is [ErrTooMany]; after Serve's context has ended, it is [ErrStopping].
// In all these cases, nothing is stored. ErrTooMany and ErrStopping apply only to new runs: a run
// that was started before is returned as usual.
func (r *Runner) Start(ctx context.Context, name, runID string, input any, o StartOptions) (snapshot.Info, error) {
	info, _, err := r.StartOrGet(ctx, name, runID, input, o)
	return info, err
}

// StartOrGet is like Start, but also reports whether the run is new.
func (r *Runner) StartOrGet(ctx context.Context, name, runID string, input any, o StartOptions) (info snapshot.Info, isNew bool, err error) {
	p, err := r.find(name, o.Version)
	if err != nil {
		return snapshot.Info{}, false, err
	}
	return r.start(ctx, p, runID, input, o)
}

func (r *Runner) start(ctx context.Context, p *program, runID string, input any, o StartOptions) (info snapshot.Info, isNew bool, err error) {
	if o.Version != "" && o.Version != p.version {
		if p, err = r.find(p.name, o.Version); err != nil {
			return snapshot.Info{}, false, err
		}
	}
	if runID == "" {
		runID = p.name + "-" + strings.ToLower(rand.Text()[:16])
	}
	encoded, err := p.encode(input)
	if err != nil {
		return snapshot.Info{}, false, err
	}
	admitted, err := r.admit(ctx, runID, o.Principal)
	if err != nil {
		if _, missing := r.store.Info(ctx, runID); missing == nil { // a repeated start is not refused
			info, err = r.startedBefore(ctx, p, runID, encoded.data)
		}
		return info, false, err
	}
	ctx, cancel := outlast(ctx)
	defer cancel()
	info, isNew, err = r.startEncoded(ctx, p, runID, encoded, o)
	admitted(isNew)
	return info, isNew, err
}

// startEncoded starts a run regardless of the limits.
func (r *Runner) startEncoded(ctx context.Context, p *program, runID string, encoded encodedInput, o StartOptions) (info snapshot.Info, isNew bool, err error) {
	if r.options.Metadata != nil {
		o.Metadata = o.Metadata.Clone()
		r.options.Metadata(ctx, &o.Metadata)
	}
	run, err := newRun(p, runID, encoded, &o)
	if err != nil {
		return snapshot.Info{}, false, fmt.Errorf("runner: start run %s: %w", runID, err)
	}
	info, err = r.store.Create(ctx, run)
	switch {
	case errors.Is(err, snapshot.ErrExists):
		err = r.whileChanging(ctx, runID, func() (changing bool, err error) {
			info, err = r.startedBefore(ctx, p, runID, encoded.data)
			return errors.Is(err, snapshot.ErrNotFound), err // another start is still storing the run
		})
		return info, false, err
	case err != nil:
		return snapshot.Info{}, false, fmt.Errorf("runner: start run %s: %w", runID, err)
	}
	r.consider(ctx, &info, false, true)
	r.observe(Notice{Type: NoticeStarted, RunID: runID, Program: p.name, Version: p.version, Status: info.Status})
	return info, true, nil
}

// newRun returns a queued run. Its first record contains the input.
func newRun(p *program, runID string, encoded encodedInput, o *StartOptions) (*snapshot.Run, error) {
	if err := snapshot.CheckRunID(runID); err != nil {
		return nil, err
	}
	info := snapshot.Info{
		RunID: runID, Status: snapshot.StatusQueued, Metadata: o.Metadata, Due: o.At.UTC().Round(0),
		Program: p.name, Version: p.version, Priority: o.Priority, Pinned: o.Pinned,
	}
	if o.At.IsZero() {
		info.Due = time.Time{}
	}
	first := record.Record{
		RunID: runID, Seq: 1, Time: time.Now().UTC().Round(0), Name: p.name, Kind: record.KindRun, Status: record.StatusRecorded,
		Detail: &record.Detail{Input: encoded.data, InputArtifacts: encoded.artifacts, Message: "started as program " + p.String()},
	}
	return snapshot.NewRun(info, func(yield func(record.Record, error) bool) { yield(first, nil) })
}

// inputOf returns the encoded input that a run was started with.
func inputOf(run *snapshot.Run) ([]byte, error) {
	if run.Len() == 0 {
		return nil, errors.New("the run has no record of its input")
	}
	first, err := run.Record(1)
	if err != nil {
		return nil, err
	}
	if first.Kind != record.KindRun || first.Status != record.StatusRecorded || first.Detail == nil || len(first.Detail.Input) == 0 {
		return nil, errors.New("the first record does not contain the input: the run was not started by a runner")
	}
	return first.Detail.Input, nil
}

// startedBefore returns the Info of an existing run that is being started again.
func (r *Runner) startedBefore(ctx context.Context, p *program, runID string, encoded []byte) (snapshot.Info, error) {
	run, err := r.store.Load(ctx, runID)
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("runner: start run %s: the run exists, but cannot be loaded: %w", runID, err)
	}
	if run.Program != p.name {
		return snapshot.Info{}, fmt.Errorf("%w: run %s is of program %q, not %q", ErrStarted, runID, run.Program, p.name)
	}
	input, err := inputOf(run)
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("%w: run %s: %w", ErrStarted, runID, err)
	}
	if !bytes.Equal(input, encoded) {
		return snapshot.Info{}, fmt.Errorf("%w: run %s has the input %s, not %s", ErrStarted, runID, record.Preview(input), record.Preview(encoded))
	}
	r.consider(ctx, &run.Info, false, false) // the process that stored the run may have been killed before queuing it
	return run.Info, nil
}
