package actors_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
)

// An agent that was cut off is entered again, so any effect in its handler would silently happen
// twice.
func TestOptionsAgainstASecondEffectAreNotForAgents(t *testing.T) {
	handler := func(context.Context, string) (string, error) { return "", nil }
	pay := func(context.Context, struct{ To string }) (string, error) { return "", nil }
	model := decorators.LLM("model", func(context.Context, actors.Request) (actors.Response, error) { return actors.Response{}, nil })
	for name, option := range map[string]actors.Option{
		"WithIrreversible": actors.WithIrreversible(),
		"WithInDoubt":      actors.WithInDoubt(core.InDoubtAsk),
	} {
		want := `actors: "payer": ` + name + " applies only to tools and models: an agent that was cut off is always entered again; give the option to the tool with the effect"
		assert.PanicsWithValue(t, want, func() { decorators.Agent("payer", "", handler, option) })
		assert.PanicsWithValue(t, want, func() { actors.NewAgent("payer", model, option) })
		assert.NotPanics(t, func() { decorators.Tool("payer", "", pay, option) })
	}
	assert.NotPanics(t, func() { decorators.Agent("payer", "", handler, actors.WithInDoubt(core.InDoubtRetry)) })
}
