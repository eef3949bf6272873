package eino_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A repeater is a guide whose calls all have the same ID. It notes the IDs in its last request.
type repeater struct {
	*guide
	id   string
	sent *[]string
}

func (r repeater) WithTools(infos []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	with, err := r.guide.WithTools(infos)
	return repeater{with.(*guide), r.id, r.sent}, err
}

func (r repeater) Generate(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	*r.sent = nil
	for _, m := range input {
		for _, c := range m.ToolCalls {
			*r.sent = append(*r.sent, "call "+c.ID)
		}
		if m.Role == schema.Tool {
			*r.sent = append(*r.sent, "result "+m.ToolCallID)
		}
	}
	m, err := r.guide.Generate(ctx, input, opts...)
	if err == nil {
		for i := range m.ToolCalls {
			m.ToolCalls[i].ID = r.id
		}
	}
	return m, err
}

// generated returns a function that calls the agent.
func generated(agent *react.Agent) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		answer, err := agent.Generate(ctx, ask)
		if err != nil {
			return "", err
		}
		return answer.Content, nil
	}
}

// Gemini's component uses the name of the tool as the ID. Other services send no ID.
func TestCallsOfAMessageWithTheSameIDAreMadeOnceEach(t *testing.T) {
	for _, id := range []string{"greet", "call_0", ""} {
		t.Run(fmt.Sprintf("%q", id), func(t *testing.T) {
			build := func() (repeater, *greet, func(context.Context) (string, error)) {
				r, greeter := repeater{newGuide(), id, new([]string)}, new(greet)
				return r, greeter, inAgent(generated(reactAgent(t, r, greeter.tool(t))))
			}
			store := memstore.New()
			r, greeter, call := build()
			_, st, err := opened(t, store, call)
			require.NoError(t, err)
			assert.Equal(t, []string{"max 0 0", "max 0 1", "max 1 0", "max 1 1"}, sorted(greeter.greeted))
			assert.Equal(t, []string{
				"assistant/greet hello max 0 0", "assistant/greet#2 hello max 0 1", "assistant/greet#3 hello max 1 0", "assistant/greet#4 hello max 1 1",
			}, results(t, st), "in the order of the messages")
			turn := []string{"call " + id, "call " + id, "result " + id, "result " + id}
			assert.Equal(t, append(turn, turn...), *r.sent, "the model gets the IDs that it gave")

			cuts(t, store, func(cut *memstore.Store, outcomes map[string]bool) {
				_, greeter, call := build()
				out, again, err := opened(t, cut, call)
				require.NoError(t, err)
				assert.Equal(t, "bye", out)
				assert.Equal(t, results(t, st), results(t, again))
				done := 0
				for address := range outcomes {
					if strings.HasPrefix(address, "assistant/greet") {
						done++
					}
				}
				if !outcomes["assistant"] {
					assert.Len(t, greeter.greeted, 4-done, "%v", outcomes)
				}
			})
		})
	}
}

// results returns the address and the output of each call to a tool.
func results(t *testing.T, st *state.ExecutionState) (all []string) {
	records, err := st.Records(t.Context())
	require.NoError(t, err)
	for _, r := range records {
		if r.Kind == record.KindTool && r.Status == record.StatusCompleted {
			var out string
			require.NoError(t, record.Decode(r.Encoded(), &out))
			all = append(all, r.Address.String()+" "+out)
		}
	}
	return sorted(all)
}
