package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

const effectsFile = "effects.txt"

// Trip is the input of the agent.
type Trip struct {
	To string `json:"to"`
}

// work starts or resumes the run. The program is the same in both cases.
func work(ctx context.Context, dir string) error {
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	st, err := state.Open(ctx, store, runID, state.WithPublisher(printer.New(os.Stdout)), state.WithArtifacts(store))
	if err != nil {
		return err
	}
	booked, callErr := travelAgent(dir).Call(st.Context(ctx), Trip{To: "Oslo"})
	if err := errors.Join(callErr, st.Close()); err != nil {
		return err
	}
	fmt.Printf("%s (%s)\n", booked, formatReport(st.Report()))
	return nil
}

// formatReport describes how much of the run was done by earlier processes.
func formatReport(r state.Report) string {
	calls := "calls"
	if r.Restored == 1 {
		calls = "call"
	}
	return fmt.Sprintf("%d %s restored, %d executed", r.Restored, calls, r.Executed)
}

// travelAgent returns an agent that books a trip, pays for it and sends a mail, in this order.
func travelAgent(dir string) actors.Agent[Trip, string] {
	effect := func(name string) error { return appendLine(filepath.Join(dir, effectsFile), name) }
	book := decorators.Tool("book_flight", "Books a flight.", func(_ context.Context, in Trip) (string, error) {
		return "flight to " + in.To, effect("flight-booked")
	})
	pay := decorators.Tool("pay", "Pays for a booking.", func(_ context.Context, booking Trip) (string, error) {
		if countRefusals(filepath.Join(dir, effectsFile)) < 2 {
			return "", core.Retryable(errors.Join(errors.New("the payment service is busy"), effect("payment-refused")))
		}
		return "paid", effect("payment-made")
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: time.Second, Jitter: core.NoJitter}))
	mail := decorators.Tool("send_mail", "Sends the confirmation.", func(_ context.Context, in Trip) (string, error) {
		return "sent", effect("mail-sent")
	})
	return decorators.Agent("travel_agent", "Books trips.", func(ctx context.Context, in Trip) (string, error) {
		flight, err := book.Call(ctx, in)
		if err != nil {
			return "", err
		}
		if _, err := pay.Call(ctx, in); err != nil {
			return "", err
		}
		if _, err := mail.Call(ctx, in); err != nil {
			return "", err
		}
		return "Booked: " + flight, nil
	})
}

// countRefusals returns how often the payment service has refused.
func countRefusals(file string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "payment-refused")
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
