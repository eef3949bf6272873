package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/internal/misfit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/streamer"
)

// threads provides the conversations of a runner's programs.
type threads struct {
	control *Control // gives access to the runner
	program string   // the program that answers in new threads; empty if there is none
}

var _ streamer.Threads = (*threads)(nil)

// FirstRun implements [streamer.Threads].
func (*threads) FirstRun(thread string) string { return thread + "-0001" }

// Send implements [streamer.Threads].
func (t *threads) Send(ctx context.Context, thread string, m streamer.ThreadMessage) (turn streamer.ThreadTurn, isNew bool, err error) {
	prompt, err := promptOf(&m)
	if err != nil {
		return turn, false, fmt.Errorf("%w: %w", streamer.ErrInvalid, err)
	}
	r := t.control.runner
	next, err := conversation.Next(ctx, r.Store(), thread, prompt, m.Turn)
	if errors.Is(err, conversation.ErrPending) {
		return turn, false, fmt.Errorf("%w: the last turn has not ended%s", streamer.ErrConflict, t.pending(ctx, thread))
	} else if err != nil {
		return turn, false, convertThreadError(err)
	}
	program, err := t.answeringProgram(ctx, thread, m.Program, &next)
	if err != nil {
		return turn, false, err
	}
	if m.ID != "" {
		next.Metadata.Custom[conversation.MessageKey] = m.ID
	}
	info, isNew, err := r.StartOrGet(ctx, program, next.RunID, next.Input, runner.StartOptions{Metadata: next.Metadata, Principal: m.Principal})
	if err != nil {
		return turn, false, convertError(err)
	}
	return streamer.ThreadTurn{Turn: next.Number, RunID: next.RunID, Program: program, Status: string(info.Status), ID: m.ID}, isNew, nil
}

// pending says which run is the last turn of a thread, and how the thread continues. It returns "" if
// that is not known.
func (t *threads) pending(ctx context.Context, thread string) string {
	store := t.control.runner.Store()
	turns, err := conversation.Read(ctx, store, thread, 1)
	if err != nil {
		return ""
	}
	info, err := store.Info(ctx, turns[len(turns)-1].RunID)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf(": run %s is %s", info.RunID, info.Status)
	switch {
	case info.Status == snapshot.StatusPaused && info.Summary.Asking > 0:
		text += "; answer its questions or cancel it"
	case info.Status == snapshot.StatusPaused:
		text += "; send the signal that it waits for, wait, or cancel it"
	case info.Status == snapshot.StatusInterrupted && !info.Stop.Reason.ContinuesByItself():
		text += fmt.Sprintf(" (%s); resume it or cancel it", info.Stop.Reason)
	}
	return text
}

// answeringProgram returns the program that answers. That is the first of these that exists: the
// program that was asked for, the program of the turn if the turn was started before, the program
// of the previous turn, and the program for new threads.
func (t *threads) answeringProgram(ctx context.Context, thread, asked string, next *conversation.Turn) (string, error) {
	if asked == "" {
		store := t.control.runner.Store()
		info, err := store.Info(ctx, next.RunID)
		switch {
		case err == nil:
			asked = info.Program
		case !errors.Is(err, snapshot.ErrNotFound):
			return "", convertThreadError(err)
		case next.Number > 1:
			turns, err := conversation.Read(ctx, store, thread, 1)
			if err != nil {
				return "", convertThreadError(err)
			}
			asked = turns[len(turns)-1].Program
		}
	}
	program, known := cmp.Or(asked, t.program), t.conversations()
	switch {
	case program == "":
		return "", fmt.Errorf(`%w: program is needed, such as {"text": "hello", "program": "assistant"}; %s`, streamer.ErrInvalid, wantOneOf(known))
	case slices.Contains(known, program):
		return program, nil
	case !slices.Contains(t.control.runner.Programs(), program):
		return "", fmt.Errorf("%w: there is no program %q; %s", streamer.ErrNotFound, record.Truncate(program, maxMessageID), wantOneOf(known))
	}
	return "", fmt.Errorf("%w: program %q is not a conversation; %s", streamer.ErrInvalid, record.Truncate(program, maxMessageID), wantOneOf(known))
}

// conversations returns the names of the programs that can answer in threads.
func (t *threads) conversations() []string {
	var names []string
	for _, p := range t.control.runner.Describe() {
		if p.InputType == reflect.TypeFor[conversation.Input]() {
			names = append(names, p.Name)
		}
	}
	return names
}

func wantOneOf(conversations []string) string {
	if len(conversations) == 0 {
		return "no program here is one: see conversation.NewProgram"
	}
	return fmt.Sprintf("want one of %v", conversations)
}

// maxMessageID is the maximum length of a message ID, in bytes.
const maxMessageID = 256

func promptOf(m *streamer.ThreadMessage) (actors.Prompt, error) {
	prompt := actors.Prompt{Text: m.Text}
	if len(m.ID) > maxMessageID {
		return prompt, fmt.Errorf("id has %d bytes; want at most %d", len(m.ID), maxMessageID)
	}
	if len(m.Parts) == 0 {
		return prompt, nil
	}
	d := json.NewDecoder(bytes.NewReader(m.Parts))
	d.DisallowUnknownFields()
	if err := d.Decode(&prompt.Parts); err != nil {
		return prompt, fmt.Errorf(`parts: %w; want such as [{"mime": "image/png", "data": "…"}], with the data in base64`, misfit.Explain(err))
	}
	return prompt, nil
}

// Turns implements [streamer.Threads].
func (t *threads) Turns(ctx context.Context, thread string, limit int) ([]streamer.ThreadTurn, error) {
	states, err := conversation.Read(ctx, t.control.runner.Store(), thread, limit)
	if err != nil {
		return nil, convertThreadError(err)
	}
	turns := make([]streamer.ThreadTurn, len(states))
	for i, s := range states {
		turns[i] = streamer.ThreadTurn{Turn: s.Number, RunID: s.RunID, Program: s.Program, Status: string(s.Status), Text: s.Text, Answer: s.Answer, Error: s.Error, ID: s.Message}
	}
	return turns, nil
}

// convertThreadError converts errors from package conversation to the errors that
// [streamer.Threads] specifies.
func convertThreadError(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return fmt.Errorf("%w: %w", streamer.ErrNotFound, err)
	case errors.Is(err, snapshot.ErrUnavailable), errors.Is(err, snapshot.ErrCorrupt), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return convertError(err)
	}
	return fmt.Errorf("%w: %s", streamer.ErrInvalid, strings.ReplaceAll(err.Error(), "snapshot: ", ""))
}
