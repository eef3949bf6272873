package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
)

func TestCallOfAZeroActorIsAnError(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		out, err := actors.Tool[number, int]{}.Call(ctx, number{1})
		require.ErrorContains(t, err, "zero value")
		assert.Zero(t, out)

		_, err = actors.LLM{}.Call(ctx, actors.Request{})
		require.ErrorContains(t, err, "zero value")

		_, err = actors.Agent[number, int]{}.Call(ctx, number{1})
		require.ErrorContains(t, err, "zero value")

		_, err = actors.Tool[number, int]{}.Event().WithTag("x").Prepare(ctx, number{1}).Execute(ctx)
		require.ErrorContains(t, err, "zero value")

		_, err = actors.Map(ctx, actors.Group{Name: "g"}, actors.Tool[number, int]{}, upTo(2))
		require.ErrorContains(t, err, "zero value")
	})
}

func TestZeroActorHasNoName(t *testing.T) {
	assert.Empty(t, actors.Tool[number, int]{}.Name())
	assert.Empty(t, actors.LLM{}.Name())
	assert.Empty(t, actors.Agent[number, int]{}.Name())
	assert.Zero(t, actors.Tool[number, int]{}.Describe())
	assert.Zero(t, actors.Agent[number, int]{}.Describe())
	_, err := actors.Agent[number, int]{}.Prepare(t.Context(), `{}`)
	require.ErrorContains(t, err, "has no schema")
}

func TestZeroActorIsNotPartOfAToolSet(t *testing.T) {
	_, err := actors.NewToolSet(actors.Tool[number, int]{}, actors.Agent[number, int]{})
	require.ErrorContains(t, err, "it is a zero value")
}

// anything is a schema that allows everything.
type anything struct{}

func (anything) JSON() json.RawMessage          { return json.RawMessage(`{"type":"object"}`) }
func (anything) Validate(json.RawMessage) error { return nil }

func handle(context.Context, number) (int, error) { return 0, nil }

func TestWrongDefinitionPanicsAndSaysWhatToDo(t *testing.T) {
	invalid := actors.WithRetry(core.RetryConfig{MaxAttempts: -5})
	llm := newScript().llm()
	for name, tc := range map[string]struct {
		define func()
		want   string
	}{
		"tool without a name":       {func() { actors.NewTool("", "", anything{}, handle) }, "LLM services allow 1 to 64 letters, digits, underscores and dashes"},
		"tool with a long name":     {func() { actors.NewTool(strings.Repeat("a", 65), "", anything{}, handle) }, "LLM services allow 1 to 64"},
		"tool without a schema":     {func() { actors.NewTool("f", "", nil, handle) }, `tool "f" has no schema; decorators.Tool infers one`},
		"tool without a handler":    {func() { actors.NewTool[number, int]("f", "", anything{}, nil) }, `"f" has no handler: the function is nil`},
		"tool with invalid retry":   {func() { actors.NewTool("f", "", anything{}, handle, invalid) }, "RetryConfig.MaxAttempts is -5; want 1 or more"},
		"tool with agent's option":  {func() { actors.NewTool("f", "", anything{}, handle, actors.WithInstructions("x")) }, "WithInstructions applies only to NewAgent"},
		"LLM without a name":        {func() { actors.NewLLM("", newScript().respond) }, "the name is empty"},
		"LLM without a handler":     {func() { actors.NewLLM("m", nil) }, `"m" has no handler: the function is nil`},
		"LLM with agent's option":   {func() { newScript().llm(actors.WithTools()) }, "WithTools applies only to NewAgent"},
		"agent without a name":      {func() { actors.NewAgent("", llm) }, "LLM services allow 1 to 64"},
		"agent with an illegal one": {func() { actors.DefineAgent("a b", "", nil, handle) }, `"a b" cannot be the name of a function`},
		"agent without a handler":   {func() { actors.DefineAgent[number, int]("a", "", nil, nil) }, `"a" has no handler: the function is nil`},
		"agent without an LLM":      {func() { actors.NewAgent("a", actors.LLM{}) }, `agent "a" has the zero LLM; make one with`},
		"agent with invalid retry":  {func() { actors.NewAgent("a", llm, invalid) }, "RetryConfig.MaxAttempts is -5; want 1 or more"},
		"agent with a nil option":   {func() { actors.NewAgent("a", llm, nil) }, `"a": an option is nil`},
		"agent with a nil tool":     {func() { actors.NewAgent("a", llm, actors.WithTools(echo(), nil)) }, "function 2 of the tool set is nil"},
		"agent with two of a name":  {func() { actors.NewAgent("a", llm, actors.WithTools(echo(), block()), actors.WithTools(echo())) }, `two functions are named "echo"`},
		"no turns":                  {func() { actors.NewAgent("a", llm, actors.WithMaxTurns(0)) }, "WithMaxTurns(0): want 1 or more"},
		"no workers":                {func() { actors.NewAgent("a", llm, actors.WithToolWorkers(0)) }, "WithToolWorkers(0): want 1 or more"},
		"unknown policy for doubt":  {func() { newScript().llm(actors.WithInDoubt(99)) }, `Spec.InDoubt of "model" is 99`},
		"no time":                   {func() { newScript().llm(actors.WithAttemptTimeout(-2)) }, "WithAttemptTimeout(-2ns): want more than 0, or core.NoTimeout"},
		"a nil precondition":        {func() { echo().Require(nil) }, `"echo": Require needs a function`},
		"a nil postcondition":       {func() { llm.Ensure(nil) }, `"model": Ensure needs a function`},
		"a condition of nothing":    {func() { actors.LLM{}.Require(nil) }, "Require of an actor that was never defined"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, testkit.PanicText(t, tc.define), tc.want)
		})
	}
}

func TestToolSetIsOrderedAndImmutable(t *testing.T) {
	first, err := actors.NewToolSet(block())
	require.NoError(t, err)
	left, err := first.With(echo())
	require.NoError(t, err)
	right, err := first.With(failing())
	require.NoError(t, err)

	names := func(ts actors.ToolSet) (all []string) {
		for _, spec := range ts.Describe() {
			all = append(all, spec.Name)
		}
		return all
	}
	assert.Equal(t, []string{"block"}, names(first))
	assert.Equal(t, []string{"block", "echo"}, names(left))
	assert.Equal(t, []string{"block", "failing"}, names(right))
	assert.Equal(t, 2, left.Len())
	_, ok := left.Lookup("failing")
	assert.False(t, ok)
	f, ok := right.Lookup("failing")
	require.True(t, ok)
	assert.Equal(t, "failing", f.Describe().Name)
}

func TestZeroToolSetIsEmpty(t *testing.T) {
	var ts actors.ToolSet
	assert.Zero(t, ts.Len())
	assert.Empty(t, ts.Describe())
	_, ok := ts.Lookup("echo")
	assert.False(t, ok)
}

func TestEveryProblemOfAToolSetIsReported(t *testing.T) {
	unschemed := actors.DefineAgent("unschemed", "", nil, handle)
	_, err := actors.NewToolSet(nil, echo(), unschemed, echo())
	require.ErrorContains(t, err, "function 1 of the tool set is nil")
	require.ErrorContains(t, err, `"unschemed" cannot be given to a model: its input type has no JSON schema`)
	require.ErrorContains(t, err, `two functions are named "echo"; a model could not tell them apart`)
}

func TestConditionsApplyToTheCopyOnly(t *testing.T) {
	refuse := func(context.Context, number) error { return errBoom }
	plain := echo()
	strict := plain.Require(refuse)
	stricter := plain.Ensure(func(context.Context, number, int) error { return core.Permanent(errBoom) })

	_, err := plain.Call(t.Context(), number{1})
	require.NoError(t, err)
	_, err = strict.Call(t.Context(), number{1})
	require.ErrorIs(t, err, core.ErrPrecondition)
	_, err = stricter.Call(t.Context(), number{1})
	require.ErrorIs(t, err, core.ErrCondition)

	agent := actors.DefineAgent("a", "", nil, handle)
	_, err = agent.Require(refuse).Call(t.Context(), number{1})
	require.ErrorIs(t, err, core.ErrPrecondition)
	_, err = agent.Ensure(func(context.Context, number, int) error { return errBoom }).Call(t.Context(), number{1})
	require.ErrorIs(t, err, core.ErrCondition)
	_, err = agent.Call(t.Context(), number{1})
	require.NoError(t, err)

	llm := newScript(says("a"), says("b")).llm()
	_, err = llm.Require(func(context.Context, actors.Request) error { return errBoom }).Call(t.Context(), actors.Request{})
	require.ErrorIs(t, err, core.ErrPrecondition)
	_, err = llm.Call(t.Context(), actors.Request{})
	require.NoError(t, err)
}

func TestConditionsHoldForCallsOfAModel(t *testing.T) {
	tool := echo().Require(func(context.Context, number) error { return errors.New("n must be odd") })
	model := newScript(asks(call("echo", `{"n":2}`)), says("done"))
	_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(tool)).Call(t.Context(), actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, []actors.Message{errorResult("1", "n must be odd")}, model.results())
}

func TestNamesAreThoseThatLLMServicesAccept(t *testing.T) {
	for _, name := range []string{"a", "get_weather", "A-1", strings.Repeat("a", 64)} {
		require.NoError(t, actors.CheckFunctionName(name))
	}
	for _, name := range []string{"", " ", "a b", "a/b", "a.b", "ä", "a\n", strings.Repeat("a", 65)} {
		require.Error(t, actors.CheckFunctionName(name), "%q", name)
	}
}
