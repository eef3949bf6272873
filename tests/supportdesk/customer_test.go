package supportdesk

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/streamer"
)

// A plan contains what the customer and the approver do about a ticket, and the expected outcome.
type plan struct {
	text     string
	approves bool
	call     *Call // nil for none
	cancels  bool  // whether the run is cancelled while it waits for the call
	kind     string
	status   string
	paid     int // euros that are paid back, out of 40
	reversed bool
	letters  int
}

// plans are the plans that tickets use, in turn.
var plans = []plan{
	{text: "where is it?", status: "completed", kind: "answered", letters: 1},
	{text: "I want my money back", approves: true, call: &Call{Said: "thanks"}, status: "completed", kind: "refunded", paid: 40, letters: 1},
	{text: "I want my money back", status: "completed", kind: "refused", letters: 1},
	{text: "I want my money back", approves: true, call: &Call{Keeps: true}, status: "failed", reversed: true},
	{text: "I want my money back", approves: true, cancels: true, status: "cancelled", reversed: true},
	{text: "I want my money back, without a letter", approves: true, call: &Call{Said: "thanks"}, status: "failed", reversed: true},
}

// open sends the ticket to the webhook, and tries again until it is accepted.
func (s *supervisor) open(ctx context.Context, id string, p *plan) error {
	body, err := json.Marshal(Ticket{ID: id, Customer: "ann", Text: p.text, Euros: 40})
	if err != nil {
		return err
	}
	return s.try(ctx, func() error { return s.hook(ctx, body, hex.EncodeToString(sign(body))) })
}

func (s *supervisor) hook(ctx context.Context, body []byte, signature string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"hooks/tickets", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Signature", signature)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusAccepted {
		return &streamer.StatusError{Code: resp.StatusCode}
	}
	return nil
}

// attend opens a ticket and executes its plan until the ticket's run has ended.
func (s *supervisor) attend(ctx context.Context, id string, p *plan) error {
	if err := s.open(ctx, id, p); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if p.call != nil { // the signal arrives before the desk waits for it
		if err := s.called(ctx, id, *p.call); err != nil {
			return fmt.Errorf("call: %w", err)
		}
	}
	stream := &streamer.Client{URL: s.url, Run: id, UntilEnd: true, MaxDelay: maxDelay}
	for event, err := range stream.Events(ctx) {
		if err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		if event.Name != "run_paused" {
			continue
		}
		asked, err := s.answer(ctx, id, id, p.approves)
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if p.cancels && !asked {
			err := s.try(ctx, func() error { return s.client().Cancel(ctx, id, streamer.Stop{By: "ops"}) })
			if err != nil {
				return fmt.Errorf("cancel: %w", err)
			}
		}
	}
	return ctx.Err()
}

// called sends, twice, the signal that the customer has called.
func (s *supervisor) called(ctx context.Context, id string, call Call) error {
	value, err := json.Marshal(call)
	if err != nil {
		return err
	}
	signal := streamer.Signal{Name: "called", Value: value, ID: "call-" + id}
	for range 2 {
		err := s.try(ctx, func() error { return s.client().Signal(ctx, id, signal) })
		if err != nil && !errors.Is(err, streamer.ErrConflict) { // the first signal was received, and the run has ended
			return err
		}
	}
	return nil
}

// answer answers a run's questions about a refund, and reports whether the run asks or has asked
// any.
func (s *supervisor) answer(ctx context.Context, runID, reference string, approves bool) (asked bool, err error) {
	var state streamer.RunState
	if err := s.try(ctx, func() (err error) {
		state, _, err = s.client().State(ctx, runID)
		return err
	}); err != nil {
		return false, err
	}
	approval := actors.Disapprove("it is too old")
	if approves {
		s.outside.approve(reference)
		approval = actors.Approve()
	}
	for _, question := range state.Questions {
		err := s.try(ctx, func() error { return s.client().Answer(ctx, runID, question.ID, "boss", approval) })
		if err != nil && !errors.Is(err, streamer.ErrConflict) { // the first answer was received
			return false, err
		}
	}
	return len(state.Questions) > 0 || state.Status != "paused", nil
}

// chat sends a text to a thread, waits until its turn has ended, and returns the turn.
func (s *supervisor) chat(ctx context.Context, thread, text string, number int) (streamer.ThreadTurn, error) {
	var turn streamer.ThreadTurn
	if err := s.try(ctx, func() (err error) {
		turn, err = s.client().Send(ctx, thread, streamer.ThreadMessage{Text: text, Turn: number})
		return err
	}); err != nil {
		return turn, fmt.Errorf("send: %w", err)
	}
	stream := &streamer.Client{URL: s.url, Run: turn.RunID, UntilEnd: true, MaxDelay: maxDelay}
	for event, err := range stream.Events(ctx) {
		if err != nil {
			return turn, fmt.Errorf("follow: %w", err)
		}
		if event.Name == "run_paused" {
			if _, err := s.answer(ctx, turn.RunID, strings.Fields(text)[1], true); err != nil {
				return turn, fmt.Errorf("answer: %w", err)
			}
		}
	}
	return turn, ctx.Err()
}

// check compares the result of a ticket with its plan and with the ledger.
func (s *supervisor) check(t *testing.T, id string, p *plan, result streamer.Result) {
	t.Helper()
	euros, payouts, letters, surveys, forbidden := s.outside.paid(id)
	assert.Equal(t, p.status, result.Status, id)
	assert.Equal(t, p.paid, euros, "%s: euros paid and not reversed", id)
	assert.LessOrEqual(t, payouts, 1, "%s was paid twice", id)
	if p.reversed {
		assert.Equal(t, 1, payouts, "%s was paid before it was reversed", id)
	}
	assert.Equal(t, p.letters, letters, "%s: its letters", id)
	assert.Empty(t, forbidden, id)
	if p.status != "completed" {
		return
	}
	var out Outcome
	require.NoError(t, json.Unmarshal(result.Output, &out))
	assert.Equal(t, p.kind, out.Kind, id)
	if p.call != nil {
		assert.Equal(t, p.call.Said, out.Said, id)
	}
	assert.Equal(t, out.Surveyed, surveys > 0, "%s: surveys; version 2 asks once", id)
	assert.LessOrEqual(t, surveys, 1, id)
}
