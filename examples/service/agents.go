package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
)

// A Topic is the input of the report agent.
type Topic struct {
	Topic    string `json:"topic"`
	Sections int    `json:"sections" jsonschema:"how many, from 1 to 20"`
}

// A Section is one part of a report.
type Section struct {
	Topic  string `json:"topic"`
	Number int    `json:"number"`
}

// write simulates a call to a service. It takes two seconds, and every third section fails the
// first time.
var write = decorators.Tool("write_section", "Writes one section.", func(ctx context.Context, in Section) (string, error) {
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if in.Number%3 == 0 && core.ScopeOf(ctx).Attempt() == 0 {
		return "", core.Retryable(fmt.Errorf("the service is busy"))
	}
	return fmt.Sprintf("%d. About %s.", in.Number, in.Topic), nil
}, actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: time.Second}))

var report = decorators.Agent("report", "Writes a report.", func(ctx context.Context, in Topic) (string, error) {
	if in.Sections < 1 || in.Sections > 20 {
		return "", core.Permanent(fmt.Errorf("sections is %d; want 1 to 20", in.Sections))
	}
	var sections []string
	for n := 1; n <= in.Sections; n++ {
		section, err := write.Call(ctx, Section{in.Topic, n})
		if err != nil {
			return "", err
		}
		sections = append(sections, section)
	}
	return strings.Join(sections, "\n"), nil
})

// An Order is the input of the refund agent.
type Order struct {
	Order string `json:"order"`
	Euros int    `json:"euros"`
}

var pay = decorators.Tool("pay", "Pays an amount back.", func(_ context.Context, in Order) (string, error) {
	return fmt.Sprintf("%d € paid back for order %s", in.Euros, in.Order), nil
})

// refund asks for approval. If there is no answer within a day, it does not pay.
var refund = decorators.Agent("refund", "Refunds an order.", func(ctx context.Context, in Order) (string, error) {
	ok, err := core.Await(ctx, fmt.Sprintf("Pay %d € back for order %s?", in.Euros, in.Order), core.AwaitDefault(24*time.Hour, false))
	if err != nil {
		return "", err
	}
	if !ok {
		return "nothing was paid", nil
	}
	return pay.Call(ctx, in)
})

// A Reminder is the input of the reminder agent.
type Reminder struct {
	Text    string `json:"text"`
	Seconds int    `json:"seconds"`
}

var reminder = decorators.Agent("reminder", "Reminds of something later.", func(ctx context.Context, in Reminder) (string, error) {
	if err := core.Sleep(ctx, time.Duration(in.Seconds)*time.Second); err != nil {
		return "", err
	}
	return "It is time for " + in.Text + ".", nil
})
