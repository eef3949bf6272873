package core_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// The program changes twice while a run handles three invoices. Each invoice
// keeps the rules that it began with.
func ExampleVersion() {
	// release returns the agent from one of three releases. The agent is interrupted, as by a
	// deployment, before it sends the invoice with the number deployBefore.
	release := func(rules, deployBefore int) func(context.Context, int) (string, error) {
		tax := define(record.KindTool, "tax", func(_ context.Context, percent int) (string, error) {
			return fmt.Sprintf("%d%% tax", percent), nil
		})
		send := define(record.KindTool, "send", func(ctx context.Context, invoice int) (string, error) {
			if invoice == deployBefore {
				state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
				return "", ctx.Err()
			}
			return "sent", nil
		})
		invoice := define(record.KindAgent, "invoice", func(ctx context.Context, number int) (string, error) {
			percent := 19 // the rate of the first release, which did not call Version
			if rules > 0 {
				switch core.Version(ctx, "use-new-tax-rules", rules) {
				case 1:
					percent = 16
				case 2:
					percent = 21
				}
			}
			taxed, err := tax.Event().Execute(ctx, percent)
			if err != nil {
				return "", err
			}
			sent, err := send.Event().Execute(ctx, number)
			return fmt.Sprintf("invoice %d: %s, %s", number, taxed, sent), err
		})
		return func(ctx context.Context, invoices int) (all string, err error) {
			for i := range invoices {
				line, err := invoice.Event().Execute(ctx, i+1)
				if err != nil {
					return all, err
				}
				all += line + "\n"
			}
			return all, nil
		}
	}

	store := memstore.New()
	for _, handler := range []func(context.Context, int) (string, error){release(0, 1), release(1, 2), release(2, 0)} {
		st, err := state.Open(context.Background(), store, "march")
		if err != nil {
			fmt.Println(err)
			return
		}
		out, err := define(record.KindAgent, "month", handler).Event().Execute(st.Context(context.Background()), 3)
		if errors.Is(err, core.ErrInterrupted) {
			fmt.Println("deploy")
		} else {
			fmt.Print(out)
		}
		if err := st.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// deploy
	// deploy
	// invoice 1: 19% tax, sent
	// invoice 2: 16% tax, sent
	// invoice 3: 21% tax, sent
}

func define(kind record.Kind, name string, handler func(context.Context, int) (string, error)) *core.Definition[int, string] {
	d, err := core.NewDefinition(core.Spec{Kind: kind, Name: name}, handler)
	if err != nil {
		panic(err)
	}
	return d
}
