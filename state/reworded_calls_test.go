package state_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// city is the input type of the tools.
type city struct {
	City string `json:"city"`
}

// reworded is a program whose agent asks a model three times and is interrupted once, before the
// third time.
type reworded struct {
	instructions string
	more         bool // another tool
	price        any  // what the tool returns
	stop         bool
	asked        int
}

func (p *reworded) agent() actors.Agent[actors.Prompt, actors.Answer] {
	llm := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		if p.asked++; len(req.Messages) < 6 {
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{actorstest.Call("price", city{"Oslo"})}}}, nil
		}
		if p.stop {
			p.stop = false
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			return actors.Response{}, ctx.Err()
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: "done"}}, nil
	})
	tools := []actors.Option{actors.WithInstructions(p.instructions), actors.WithTools(decorators.Tool("price", "", func(context.Context, city) (any, error) { return p.price, nil }))}
	if p.more {
		tools = append(tools, actors.WithTools(decorators.Tool("cancel", "", func(context.Context, city) (string, error) { return "", nil })))
	}
	return actors.NewAgent("assistant", llm, tools...)
}

func TestRewordedPromptsAndNewToolsAreTrustedAndReported(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *reworded)
		want   []string
	}{
		"unchanged":        {func(*reworded) {}, nil},
		"instructions":     {func(p *reworded) { p.instructions = "Be very brief." }, []string{"assistant/model", "assistant/model#2"}},
		"another tool":     {func(p *reworded) { p.more = true }, []string{"assistant/model", "assistant/model#2"}},
		"a tool's wording": {func(p *reworded) { p.price = 7 }, nil}, // the recorded output counts
	} {
		t.Run(name, func(t *testing.T) {
			store, err := filestore.New(t.TempDir())
			require.NoError(t, err)
			p := &reworded{instructions: "Be brief.", price: 12, stop: true}
			var console bytes.Buffer
			var recovered []record.Record
			run := func() (*state.ExecutionState, error) {
				st, err := state.Open(t.Context(), store, "run-1", state.WithPublisher(printer.New(&console)),
					state.WithPublisher(testkit.Publisher(func(r record.Record) {
						if r.Status == record.StatusRecovered && r.Kind == record.KindLLM {
							recovered = append(recovered, r)
						}
					})))
				require.NoError(t, err)
				_, err = p.agent().Call(st.Context(t.Context()), actors.Ask("What does it cost?"))
				require.NoError(t, st.Close())
				return st, err
			}
			_, err = run()
			require.ErrorIs(t, err, core.ErrInterrupted)
			tt.change(p)
			differences, err := state.Validate(t.Context(), store, "run-1", func(ctx context.Context) error {
				_, err := p.agent().Call(ctx, actors.Ask("What does it cost?"))
				return err
			})
			require.NoError(t, err)
			var validated []string
			for _, d := range differences {
				if d.Field == "request" {
					validated = append(validated, d.Address.String())
				}
			}
			assert.Equal(t, tt.want, validated)

			p.asked = 0
			st, err := run()
			require.NoError(t, err)
			assert.Equal(t, 1, p.asked, "recorded answers are used")
			var got []string
			for _, a := range st.Report().Reworded {
				got = append(got, a.String())
			}
			assert.Equal(t, tt.want, got)
			assert.Empty(t, st.Report().Diverged)
			require.Len(t, recovered, 2)
			for _, r := range recovered {
				text, err := json.Marshal(&r)
				require.NoError(t, err)
				assert.Equal(t, tt.want != nil, strings.Contains(string(text), `"reworded":true`), "as the dashboard gets it: %s", text)
			}
			warnings := 0
			for _, r := range testkit.Records(t, st) {
				if r.Kind == record.KindLog && r.Detail.Severity == slog.LevelWarn {
					warnings++
					assert.Contains(t, r.Message(), "reprise --dir DIR fork run-1 'assistant/model' NEW")
				}
			}
			assert.Equal(t, min(len(tt.want), 1), warnings, "one warning for the whole attempt")
			assert.Equal(t, warnings, strings.Count(console.String(), "reprise --dir DIR fork run-1 'assistant/model' NEW"), "%s", &console)

			_, err = run()
			require.NoError(t, err, "a finished agent is recalled as a whole")
		})
	}
}

func TestAnswerToARewordedPromptIsNotReportedAgain(t *testing.T) {
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	p := &reworded{instructions: "Be brief.", price: 12, stop: true}
	run := func() (*state.ExecutionState, error) {
		st, err := state.Open(t.Context(), store, "run-1")
		require.NoError(t, err)
		_, err = p.agent().Call(st.Context(t.Context()), actors.Ask("What does it cost?"))
		require.NoError(t, st.Close())
		return st, err
	}
	_, err = run()
	require.ErrorIs(t, err, core.ErrInterrupted)
	p.instructions = "Be very brief."
	_, err = run() // the third request is made with the new instructions
	require.NoError(t, err)
	differences, err := state.Validate(t.Context(), store, "run-1", func(ctx context.Context) error {
		_, err := p.agent().Call(ctx, actors.Ask("What does it cost?"))
		return err
	})
	require.NoError(t, err)
	var got []string
	for _, d := range differences {
		got = append(got, d.Address.String()+" "+d.Field)
	}
	assert.Equal(t, []string{"assistant/model request", "assistant/model#2 request"}, got, "the third request has not changed since it was answered")
}
