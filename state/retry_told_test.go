package state_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A tool fails for good. The model is told about it and continues. A later call to the model fails
// for good, and so does the run. When the run is retried, the tool is not called again.
func TestRetryOfAnAgentWhoseToolHadFailed(t *testing.T) {
	for name, repaired := range map[string]bool{"the tool still fails": false, "the tool was repaired": true} {
		t.Run(name, func(t *testing.T) {
			store, toolFails, modelFails := memstore.New(), true, true
			find := decorators.Tool("find", "", func(context.Context, struct{}) (string, error) {
				if toolFails {
					return "", core.Permanent(errors.New("no connection"))
				}
				return "found", nil
			})
			other := decorators.Tool("other", "", func(context.Context, struct{}) (string, error) { return "other", nil })
			asks := func(id, tool string) actors.Response {
				return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: id, Name: tool, Arguments: "{}"}}}}
			}
			llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
				switch len(req.Messages) {
				case 1:
					return asks("c1", "find"), nil
				case 3:
					return asks("c2", "other"), nil
				}
				if modelFails {
					return actors.Response{}, core.Permanent(errors.New("the key is wrong"))
				}
				return actors.Response{Message: actors.Assistant("Done.")}, nil
			})
			run := func() (string, error) {
				st, err := state.Open(t.Context(), store, "r")
				require.NoError(t, err)
				answer, err := actors.NewAgent("agent", llm, actors.WithTools(find, other)).Call(st.Context(t.Context()), actors.Ask("Go."))
				require.NoError(t, st.Close())
				return answer.Text, err
			}
			_, err := run()
			require.ErrorContains(t, err, "the key is wrong")
			_, err = state.Retry(t.Context(), store, "r")
			require.NoError(t, err)
			toolFails, modelFails = !repaired, false
			out, err := run()
			require.NoError(t, err)
			assert.Equal(t, "Done.", out)
		})
	}
}

type viaPayment struct {
	Euros int    `json:"euros"`
	Via   string `json:"via"`
}

// The model pays with a card, which fails for good; it is told so, and pays by transfer. Later the
// model fails, and so does the run. When the run is retried, the card is not charged as well.
func TestRetryDoesNotMakeACallThatTheModelHasReplaced(t *testing.T) {
	for name, opts := range map[string][]actors.Option{"tool": nil, "irreversible tool": {actors.WithIrreversible()}} {
		t.Run(name, func(t *testing.T) {
			store, broken := memstore.New(), true
			var paid []viaPayment
			pay := decorators.Tool("pay", "", func(_ context.Context, in viaPayment) (string, error) {
				if broken && in.Via == "card" {
					return "", core.Permanent(errors.New("the card terminal is down"))
				}
				paid = append(paid, in)
				return "paid", nil
			}, opts...)
			asks := func(id, arguments string) actors.Response {
				return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: id, Name: "pay", Arguments: arguments}}}}
			}
			llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
				switch len(req.Messages) {
				case 1:
					return asks("c1", `{"euros":50,"via":"card"}`), nil
				case 3:
					return asks("c2", `{"euros":50,"via":"transfer"}`), nil
				}
				if broken {
					return actors.Response{}, core.Permanent(errors.New("the key is wrong"))
				}
				return actors.Response{Message: actors.Assistant("Paid.")}, nil
			})
			run := func() error {
				st, err := state.Open(t.Context(), store, "r")
				require.NoError(t, err)
				_, err = actors.NewAgent("agent", llm, actors.WithTools(pay)).Call(st.Context(t.Context()), actors.Ask("Pay 50 euros."))
				require.NoError(t, st.Close())
				return err
			}
			require.ErrorContains(t, run(), "the key is wrong")
			require.Equal(t, []viaPayment{{50, "transfer"}}, paid)
			_, err := state.Retry(t.Context(), store, "r")
			require.NoError(t, err)
			broken = false
			err = run()
			assert.Equal(t, []viaPayment{{50, "transfer"}}, paid, "50 euros are paid once")
			assert.NoError(t, err)
		})
	}
}
