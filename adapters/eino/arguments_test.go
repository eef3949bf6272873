package eino_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/eino"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// renaming returns an agent whose graph changes the arguments that its model gives.
func renaming(t *testing.T, greeter *greet, opts ...actors.Option) func(context.Context) (string, error) {
	all, err := eino.Tools(t.Context(), []tool.BaseTool{greeter.tool(t)}, opts...)
	require.NoError(t, err)
	agent, err := react.NewAgent(t.Context(), &react.AgentConfig{
		ToolCallingModel: durable(t, "guide", newGuide()),
		ToolsConfig: compose.ToolsNodeConfig{Tools: all, ToolArgumentsHandler: func(_ context.Context, _, arguments string) (string, error) {
			return strings.Replace(arguments, "max", "moritz", 1), nil
		}},
		MaxStep: 40,
	})
	require.NoError(t, err)
	return generated(agent)
}

func TestArgumentsThatAGraphHasChangedReachTheTool(t *testing.T) {
	greeter := new(greet)
	_, st, err := opened(t, memstore.New(), renaming(t, greeter))
	require.NoError(t, err)
	assert.Equal(t, []string{"moritz 0 0", "moritz 0 1", "moritz 1 0", "moritz 1 1"}, sorted(greeter.greeted))
	assert.Equal(t, []string{"greet hello moritz 0 0", "greet#2 hello moritz 0 1", "greet#3 hello moritz 1 0", "greet#4 hello moritz 1 1"}, results(t, st))
}

func TestArgumentsThatAPersonHasChangedReachTheTool(t *testing.T) {
	store, greeter := memstore.New(), new(greet)
	approved := actors.WithApproval(actors.ApprovalIf(func(arguments string) bool { return strings.Contains(arguments, "max 0 1") }))
	_, _, err := opened(t, store, renaming(t, greeter, approved))
	require.True(t, core.IsSuspension(err), err)
	questions, err := state.Questions(t.Context(), store, "a")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	changed, err := actors.ApproveWith(`{"name":"eve"}`)
	require.NoError(t, err)
	require.NoError(t, state.Answer(t.Context(), store, "a", questions[0].ID, "max", changed))
	_, _, err = opened(t, store, renaming(t, greeter, approved))
	require.NoError(t, err)
	assert.Equal(t, []string{"eve", "moritz 0 0", "moritz 1 0", "moritz 1 1"}, sorted(greeter.greeted))
}
