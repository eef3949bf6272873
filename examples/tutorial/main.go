package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

type Table struct {
	Guests int    `json:"guests" jsonschema:"how many people come"`
	At     string `json:"at" jsonschema:"the time, such as 19:30"`
}

// reserve has an external effect: it adds a line to a file.
func reserve(_ context.Context, in Table) (string, error) {
	f, err := os.OpenFile("reservations.txt", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, "table for %d at %s\n", in.Guests, in.At)
	return "reserved", errors.Join(err, f.Close())
}

type Mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// send fails until there is a file mail-is-up.
func send(_ context.Context, _ Mail) (string, error) {
	if _, err := os.Stat("mail-is-up"); err != nil {
		return "", core.Retryable(errors.New("the mail service is down"))
	}
	return "sent", nil
}

func host(model actors.LLM) actors.Agent[actors.Prompt, actors.Answer] {
	return actors.NewAgent("host", model, actors.WithTools(
		decorators.Tool("reserve", "Reserves a table.", reserve),
		decorators.Tool("send", "Sends a mail.", send,
			actors.WithRetry(core.RetryConfig{MaxAttempts: 20, InitialDelay: time.Second, MaxDelay: 10 * time.Second})),
	))
}

func main() {
	ctx := context.Background()
	store, err := filestore.New("reprise-data")
	if err != nil {
		log.Fatal(err)
	}
	st, err := state.Open(ctx, store, "dinner-1", state.WithPublisher(printer.New(os.Stdout)))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := host(model()).Call(st.Context(ctx), actors.Ask("A table for 4 at 19:30, please, and tell ann@example.com."))
	if err := errors.Join(err, st.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text)
}
