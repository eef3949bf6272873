package actors_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func finished(f actors.Finish, r actors.Response) actors.Response {
	r.Finish = f
	return r
}

// The error is the same when the answer is recalled, so an agent that checks for it takes
// the same branch.
func TestAnAnswerThatIsNotWholeIsAnErrorLiveAndOnReplay(t *testing.T) {
	for _, tc := range []struct {
		finish actors.Finish
		filter bool
		text   string
	}{
		{actors.FinishLength, false, "cut off by the token limit after 11 bytes"},
		{actors.FinishFilter, true, "withheld"},
		{actors.FinishError, false, "broke off the answer after 11 bytes"},
	} {
		t.Run(string(tc.finish), func(t *testing.T) {
			store := memstore.New()
			model := newScript(finished(tc.finish, says("Once upon a")))
			for range 2 {
				st, err := state.Open(t.Context(), store, "r")
				require.NoError(t, err)
				_, err = actors.NewAgent("assistant", model.llm()).Call(st.Context(t.Context()), actors.Ask("?"))
				require.ErrorContains(t, err, tc.text)
				require.ErrorIs(t, err, core.ErrPermanent)
				var unfinished *actors.UnfinishedError
				require.ErrorAs(t, err, &unfinished)
				assert.Equal(t, &actors.UnfinishedError{Finish: tc.finish, Partial: "Once upon a"}, unfinished)
				assert.Equal(t, tc.filter, errors.Is(err, actors.ErrFiltered))
				require.NoError(t, st.Close())
			}
			assert.Len(t, model.asked(), 1)
		})
	}
}

func TestAnEmptyAnswerIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		model := newScript(says(""), finished(actors.FinishToolCalls, says(" \n")), finished(actors.FinishToolCalls, says("Fine.")))
		answer, err := actors.NewAgent("assistant", model.llm()).Call(ctx, actors.Ask("?"))
		require.NoError(t, err)
		assert.Equal(t, "Fine.", answer.Text)
		assert.Equal(t, actors.FinishStop, answer.Finish)
		assert.Equal(t, 1, answer.Turns)
		assert.Equal(t, []string{"assistant", "assistant/model"}, addresses(t, st), "one call, three attempts")

		_, err = actors.NewAgent("assistant", newScript(says(""), says(""), says("")).llm()).Call(ctx, actors.Ask("?"))
		require.ErrorIs(t, err, core.ErrCondition)
		require.ErrorContains(t, err, "the answer is empty")
	})
}

func TestARefusalIsAnAnswerThatSaysSo(t *testing.T) {
	refusal := says("I cannot.")
	refusal.Message.Refusal = true
	_, ctx := testkit.Run(t)
	answer, err := actors.NewAgent("assistant", newScript(refusal).llm()).Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, actors.FinishRefusal, answer.Finish)
	assert.Equal(t, "I cannot.", answer.Text)
}

func TestToolCallsThatWereCutOffAreAnsweredWithAnError(t *testing.T) {
	st, ctx := testkit.Run(t)
	model := newScript(finished(actors.FinishLength, asks(call("echo", `{"n":1}`), call("echo", `{"n":`), call("echo", ``))), says("done"))
	answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, actors.FinishStop, answer.Finish)
	results := model.results()
	assert.Equal(t, actors.ToolResult("1", "1"), results[0])
	for _, result := range results[1:] {
		assert.True(t, result.IsError)
		assert.Contains(t, result.Text, "cut off by the token limit")
	}
	assert.ElementsMatch(t, []string{"assistant", "assistant/model", "assistant/echo", "assistant/refused_echo", "assistant/refused_echo#2", "assistant/model#2"}, addresses(t, st))
	sent := model.asked()[1].Messages[1].ToolCalls
	assert.Equal(t, []string{`{"n":1}`, `{}`, `{}`}, []string{sent[0].Arguments, sent[1].Arguments, sent[2].Arguments}, "services parse the arguments that are sent back")
}

func TestEnsureOfAnLLMLetsToolTurnsPass(t *testing.T) {
	_, ctx := testkit.Run(t)
	model := newScript(asks(call("echo", `{"n":1}`)), says("plain"), says("SHOUT"))
	llm := model.llm(actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})).
		Ensure(func(_ context.Context, _ actors.Request, resp actors.Response) error {
			if resp.Message.Text != "SHOUT" {
				return errors.New("louder")
			}
			return nil
		})
	answer, err := actors.NewAgent("assistant", llm, actors.WithTools(echo())).Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, "SHOUT", answer.Text)
	assert.PanicsWithValue(t, `core: "model": Ensure needs a function; it is nil`, func() { llm.Ensure(nil) })
}

func TestOptionsOfThePromptWinOverThoseOfTheAgent(t *testing.T) {
	model := newScript(says("a"), says("b"))
	agent := actors.NewAgent("assistant", model.llm(), actors.WithModelOptions(actors.ModelOptions{
		MaxTokens: 100, Temperature: new(0.5), ExtraBody: map[string]any{"a": 1, "b": 1},
	}))
	for _, o := range []actors.ModelOptions{{}, {MaxTokens: 5, Effort: "low", ExtraBody: map[string]any{"b": 2}}} {
		_, err := agent.Call(t.Context(), actors.Prompt{Text: "?", Options: o})
		require.NoError(t, err)
	}
	first, second := model.asked()[0].Options, model.asked()[1].Options
	assert.Equal(t, actors.ModelOptions{MaxTokens: 100, Temperature: new(0.5), ExtraBody: map[string]any{"a": 1, "b": 1}}, first)
	assert.Equal(t, actors.ModelOptions{MaxTokens: 5, Temperature: new(0.5), Effort: "low", ExtraBody: map[string]any{"a": 1, "b": 2}}, second)

	_, err := agent.Call(t.Context(), actors.Prompt{Text: "?", Options: actors.ModelOptions{MaxTokens: -1}})
	require.ErrorContains(t, err, "ModelOptions.MaxTokens is -1")
	require.ErrorIs(t, err, core.ErrPermanent)
	assert.Panics(t, func() {
		actors.NewAgent("a", model.llm(), actors.WithModelOptions(actors.ModelOptions{Temperature: new(-1.0)}))
	})
}

// A model that had to call a tool in every turn could never answer.
func TestAToolThatMustBeCalledIsCalledFirst(t *testing.T) {
	for _, choice := range []string{"required", "echo"} {
		model := newScript(asks(call("echo", `{"n":1}`)), says("done"))
		agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()), actors.WithModelOptions(actors.ModelOptions{ToolChoice: choice}))
		_, err := agent.Call(t.Context(), actors.Ask("?"))
		require.NoError(t, err)
		assert.Equal(t, choice, model.asked()[0].Options.ToolChoice)
		assert.Empty(t, model.asked()[1].Options.ToolChoice)
	}
	for _, choice := range []string{"auto", "none"} {
		model := newScript(asks(call("echo", `{"n":1}`)), says("done"))
		_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).
			Call(t.Context(), actors.Prompt{Text: "?", Options: actors.ModelOptions{ToolChoice: choice}})
		require.NoError(t, err)
		assert.Equal(t, choice, model.asked()[1].Options.ToolChoice)
	}
}

func TestAToolThatMustBeCalledIsOneOfTheAgents(t *testing.T) {
	model := newScript()
	const problem = `ModelOptions.ToolChoice is "ecko"; it must be auto, none, required, or one of the tools: echo`
	wrong := actors.ModelOptions{ToolChoice: "ecko"}
	assert.PanicsWithError(t, `actors: "a": WithModelOptions: actors: `+problem, func() {
		actors.NewAgent("a", model.llm(), actors.WithTools(echo()), actors.WithModelOptions(wrong))
	})
	_, err := actors.NewAgent("a", model.llm(), actors.WithTools(echo())).Call(t.Context(), actors.Prompt{Text: "?", Options: wrong})
	require.ErrorContains(t, err, problem)
	require.ErrorIs(t, err, core.ErrPermanent)
	assert.Empty(t, model.asked())
}

// A changed option changes the hash of the input.
func TestOptionsArePartOfTheInput(t *testing.T) {
	hash := func(o actors.ModelOptions) record.Hash {
		h, err := record.HashOf(actors.Request{Messages: []actors.Message{actors.User("?")}, Options: o})
		require.NoError(t, err)
		return h
	}
	assert.NotEqual(t, hash(actors.ModelOptions{}), hash(actors.ModelOptions{Temperature: new(0.0)}))
	assert.NotEqual(t, hash(actors.ModelOptions{MaxTokens: 1}), hash(actors.ModelOptions{MaxTokens: 2}))
}

func TestInstructionsAreBuiltForEachCallAndOnceOnly(t *testing.T) {
	store := memstore.New()
	model := newScript(asks(call("echo", `{"n":1}`)), says("done"))
	built := 0
	agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()),
		actors.WithInstructionsFunc(func(_ context.Context, p actors.Prompt) (string, error) {
			built++
			return "It is " + time.Now().String() + "; asked: " + p.Text, nil
		}))
	for range 2 { // the second time, all calls are recalled
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		answer, err := agent.Call(st.Context(t.Context()), actors.Ask("?"))
		require.NoError(t, err)
		assert.Equal(t, actors.RoleUser, answer.Messages[0].Role, "instructions are not part of the conversation")
		require.NoError(t, st.Close())
	}
	assert.Equal(t, 1, built)
	asked := model.asked()
	assert.Equal(t, asked[0].Messages[0], asked[1].Messages[0], "the same in every turn")
	assert.Contains(t, asked[0].Messages[0].Text, "; asked: ?")

	failing := actors.NewAgent("assistant", model.llm(), actors.WithInstructionsFunc(func(context.Context, actors.Prompt) (string, error) { return "", errBoom }))
	_, err := failing.Call(t.Context(), actors.Ask("?"))
	require.ErrorIs(t, err, errBoom)
}

func TestAPictureOfAToolReachesTheModel(t *testing.T) {
	picture := actors.Image("image/png", []byte("\x89PNG"))
	for name, tool := range map[string]actors.Function{
		"output": decorators.Tool("chart", "", func(context.Context, number) (actors.ToolOutput, error) {
			return actors.ToolOutput{Parts: []actors.Part{picture}}, nil
		}),
		"part":  decorators.Tool("chart", "", func(context.Context, number) (actors.Part, error) { return picture, nil }),
		"parts": decorators.Tool("chart", "", func(context.Context, number) ([]actors.Part, error) { return []actors.Part{picture}, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			model := newScript(asks(call("chart", `{"n":1}`)), says("nice"))
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			defer st.Close()
			_, err = actors.NewAgent("assistant", model.llm(), actors.WithTools(tool)).
				Call(st.Context(t.Context()), actors.Ask("?", picture))
			require.NoError(t, err)
			assert.Equal(t, []actors.Message{actors.ToolResult("1", "", picture)}, model.results())
			assert.Equal(t, actors.User("?", picture), model.asked()[0].Messages[0])
		})
	}
}
