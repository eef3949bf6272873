package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
)

// A Ticket is a customer's complaint.
type Ticket struct {
	Customer string  `json:"customer"`
	Order    string  `json:"order"`
	Text     string  `json:"text"`
	Amount   float64 `json:"amount"`
}

// supportJobs returns a function that makes support jobs.
func supportJobs(w *world) func() job {
	agent := supportAgent(w)
	number := 4700
	return func() job {
		number++
		t := Ticket{
			Customer: pick(w, []string{"Ada", "Grace", "Edsger", "Barbara", "Alan", "Radia"}),
			Order:    fmt.Sprintf("A-%d", number),
			Text:     pick(w, []string{"The parcel never arrived.", "The lamp came broken.", "I was charged twice.", "The wrong size was sent."}),
			Amount:   float64(int(20 + w.roll()*300)),
		}
		return job{"support", fmt.Sprintf("%s, order %s: %s", t.Customer, t.Order, t.Text), func(ctx context.Context) error {
			_, err := agent.Call(ctx, t)
			return err
		}}
	}
}

// approvalAbove is the largest refund, in euros, that needs no approval.
const approvalAbove = 120

// supportAgent returns an agent that classifies a ticket, refunds the amount (after approval, if
// the amount is large), and replies.
func supportAgent(w *world) actors.Agent[Ticket, string] {
	model := modelOf(w, "small_model")
	find := decorators.Tool("find_order", "Looks up an order.", func(ctx context.Context, t Ticket) (string, error) {
		return "shipped 9 days ago", w.askService(ctx, &httperror.Error{Code: 502, Excerpt: "bad gateway"}, errors.New("order service: unexpected answer"))
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 4, InitialDelay: time.Second}), actors.WithAttemptTimeout(3*time.Second))
	refund := decorators.Tool("refund", "Sends money back.", func(ctx context.Context, t Ticket) (string, error) {
		if w.roll() < 0.08 {
			return "", core.Permanent(errors.New("the customer's card has expired"))
		}
		return fmt.Sprintf("%.2f € sent", t.Amount), w.askService(ctx, &httperror.Error{Code: 503, After: 4 * time.Second, Excerpt: "payments are slow"})
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 6, InitialDelay: 2 * time.Second}), actors.WithAttemptTimeout(4*time.Second))

	return decorators.Agent("support_agent", "Answers a ticket.", func(ctx context.Context, t Ticket) (string, error) {
		if _, err := model.Call(ctx, prompt("Which kind of complaint is this? "+t.Text)); err != nil {
			return "", err
		}
		if _, err := find.Call(ctx, t); err != nil {
			return "", err
		}
		if t.Amount > approvalAbove {
			approved, err := core.Await[bool](ctx, fmt.Sprintf("Refund %.2f € to %s for order %s? “%s”", t.Amount, t.Customer, t.Order, t.Text))
			if err != nil {
				return "", err
			}
			if !approved {
				log(ctx, slog.LevelWarn, "the refund was declined", map[string]any{"order": t.Order})
				return "declined", nil
			}
		}
		sent, err := refund.Call(ctx, t)
		if err != nil {
			return "", err
		}
		_, err = model.Call(ctx, prompt("Tell "+t.Customer+": "+sent))
		return sent, err
	})
}

// modelOf returns a model that answers with one sentence, word by word.
func modelOf(w *world, name string) actors.LLM {
	return decorators.LLM(name, func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		if err := w.askModel(ctx); err != nil {
			return actors.Response{}, err
		}
		answer := pick(w, []string{
			"A delivery problem; the customer is patient.", "It is about money, and urgent.", "Three sources agree, one does not.", "Short, factual, with two open questions.",
		})
		for word := range strings.SplitAfterSeq(answer, " ") {
			if err := wait(ctx, 150*time.Millisecond); err != nil {
				return actors.Response{}, err
			}
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		}
		return actors.Response{Model: name, FinishReason: "stop", Message: actors.Assistant(answer)}, nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 6, InitialDelay: 1500 * time.Millisecond, MaxDelay: 20 * time.Second}))
}

func prompt(text string) actors.Request {
	return actors.Request{Messages: []actors.Message{actors.User(text)}}
}
