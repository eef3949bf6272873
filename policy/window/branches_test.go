package window_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/window"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A model that calls the window in parallel branches has a memory for each branch. If the branches
// shared one, a resumed branch would find the summary of another branch, and would not make its own
// again.
func TestBranchesThatCallAWindowAreResumed(t *testing.T) {
	for name, of := range map[string]func(window actors.LLM) actors.Agent[actors.Prompt, string]{
		"in a model": func(window actors.LLM) actors.Agent[actors.Prompt, string] {
			vote := actors.NewLLM("vote", func(ctx context.Context, req actors.Request) (actors.Response, error) {
				ask := func(ctx context.Context) (actors.Response, error) { return window.Call(ctx, req) }
				all, err := actors.Parallel(ctx, actors.Group{Name: "votes"}, ask, ask, ask)
				if err != nil {
					return actors.Response{}, err
				}
				return all[0], nil
			})
			agent := actors.NewAgent("agent", vote, actors.WithInstructions("Look."))
			return decorators.Agent("outer", "", func(ctx context.Context, p actors.Prompt) (string, error) {
				answer, err := agent.Call(ctx, p)
				return answer.Text, err
			})
		},
		"in an agent": func(window actors.LLM) actors.Agent[actors.Prompt, string] {
			return decorators.Agent("outer", "", func(ctx context.Context, p actors.Prompt) (string, error) {
				req := actors.Request{Messages: append([]actors.Message{actors.System("Look.")}, p.History...)}
				all, err := actors.Map(ctx, actors.Group{Name: "samples"}, window, []actors.Request{req, req, req})
				if err != nil {
					return "", err
				}
				return all[0].Message.Text, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) { testResumed(t, of) })
	}
}

func testResumed(t *testing.T, of func(window actors.LLM) actors.Agent[actors.Prompt, string]) {
	var made atomic.Int64
	sum := actors.NewLLM("summarizer", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant(fmt.Sprint("summary ", made.Add(1)))}, nil
	})
	model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("yes")}, nil
	})
	w := window.New("w", window.Options{Tokens: 4_000, Summarizer: sum}, model)
	agent := of(w)
	call := func(store snapshot.Store) error {
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		defer func() { assert.NoError(t, st.Close()) }()
		_, err = agent.Call(st.Context(t.Context()), actors.Prompt{Text: "Go.", History: history("what")})
		return err
	}
	store := memstore.New()
	require.NoError(t, call(store))
	require.EqualValues(t, 3, made.Load())
	for records, cut := range actorstest.AfterEachRecord(t, store, "run") {
		require.NoError(t, call(cut), "after %d records", len(records))
	}
}
