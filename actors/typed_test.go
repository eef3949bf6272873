package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

type report struct {
	Title  string   `json:"title"`
	Points []string `json:"points"`
}

type topic struct {
	Subject string `json:"subject"`
	Depth   int    `json:"depth,omitempty"`
}

func TestATypedAgentAnswersWithAValue(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		model := newScript(asks(call("echo", `{"n":1}`)), says(`{"title":"T","points":["a"]}`))
		agent := actors.NewTypedAgent[topic, report]("writer", model.llm(), actors.WithTools(echo()), actors.WithInstructions("Write."))
		got, err := agent.Call(ctx, topic{Subject: "tea & <b>"})
		require.NoError(t, err)
		assert.Equal(t, report{Title: "T", Points: []string{"a"}}, got)
		for _, req := range model.asked() {
			require.NotNil(t, req.Options.Format)
			assert.Equal(t, "answer", req.Options.Format.Name)
			assert.True(t, req.Options.Format.Strict)
			assert.JSONEq(t, `{"type":"object","properties":{"title":{"type":"string"},"points":{"type":"array","items":{"type":"string"}}},"required":["title","points"],"additionalProperties":false}`, string(req.Options.Format.Schema))
		}
		assert.Equal(t, actors.User(`{"subject":"tea & <b>"}`), model.asked()[0].Messages[1])
	})
}

func TestAnAnswerThatDoesNotFitIsFedBack(t *testing.T) {
	st, ctx := testkit.Run(t)
	model := newScript(says(`Here you are: {}`), says(`{"title":7,"points":[]}`), says(`{"title":"T","points":[]}`))
	got, err := actors.NewTypedAgent[string, report]("writer", model.llm()).Call(ctx, "?")
	require.NoError(t, err)
	assert.Equal(t, report{Title: "T", Points: []string{}}, got)
	assert.Equal(t, []string{"writer", "writer/model", "writer/model#2", "writer/model#3"}, addresses(t, st), "each request is a recorded call")
	last := model.asked()[2].Messages
	require.Len(t, last, 5)
	assert.Equal(t, actors.Assistant(`{"title":7,"points":[]}`), last[3])
	assert.Contains(t, last[4].Text, "title: got an integer, want a string")
}

func TestFeedbackHasABound(t *testing.T) {
	for opt, want := range map[int]int{0: 3, 1: 2, 4: 5} {
		store := memstore.New()
		var replies []actors.Response
		for range 9 {
			replies = append(replies, says(`{"title":"T"}`))
		}
		model := newScript(replies...)
		var opts []actors.Option
		if opt > 0 {
			opts = append(opts, actors.WithMaxCorrections(opt))
		}
		for range 2 { // first executed, then recalled
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			_, err = actors.NewTypedAgent[string, report]("writer", model.llm(), opts...).Call(st.Context(t.Context()), "?")
			var unfit *actors.AnswerError
			require.ErrorAs(t, err, &unfit)
			assert.Equal(t, want, unfit.Asked)
			assert.Contains(t, unfit.Problem, "points: required field is missing")
			require.ErrorIs(t, err, core.ErrPermanent)
			require.NoError(t, st.Close())
		}
		assert.Len(t, model.asked(), want)
	}
	assert.Panics(t, func() { actors.WithMaxCorrections(0)(nil) })
}

// A service that does not support formats refuses one request; the next request asks for a tool
// call.
func TestWithoutFormatsTheAnswerIsAToolCall(t *testing.T) {
	st, ctx := testkit.Run(t)
	var formats []bool
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		formats = append(formats, req.Options.Format.ByTool)
		if !req.Options.Format.ByTool {
			return actors.Response{}, core.Permanent(fmt.Errorf("400: %w", actors.ErrFormatUnsupported))
		}
		return says(`{"title":"T","points":[]}`), nil
	})
	_, err := actors.NewTypedAgent[string, report]("writer", llm).Call(ctx, "?")
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true}, formats)
	assert.Equal(t, []string{"writer/model failed", "writer/model#2 completed", "writer completed"}, settled(t, st))
}

func TestRefusalIsNotATypedAnswer(t *testing.T) {
	refusal := says("I cannot.")
	refusal.Message.Refusal = true
	store, model := memstore.New(), newScript(refusal)
	for range 2 { // the second time, the answer is recalled
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		_, err = actors.NewTypedAgent[string, report]("writer", model.llm()).Call(st.Context(t.Context()), "?")
		require.ErrorIs(t, err, actors.ErrRefused)
		require.NotErrorIs(t, err, actors.ErrFiltered)
		require.ErrorContains(t, err, "I cannot.")
		var unfinished *actors.UnfinishedError
		require.ErrorAs(t, err, &unfinished)
		assert.Equal(t, &actors.UnfinishedError{Finish: actors.FinishRefusal, Partial: "I cannot."}, unfinished)
		require.NoError(t, st.Close())
	}
	assert.Len(t, model.asked(), 1)
}

type asPrompt struct{ Who string }

func (p asPrompt) Prompt() actors.Prompt { return actors.Ask("Greet " + p.Who) }

func TestWhatATypedAgentIsAsked(t *testing.T) {
	model := newScript(says(`{"title":"","points":[]}`), says(`{"title":"","points":[]}`))
	_, err := actors.NewTypedAgent[asPrompt, report]("writer", model.llm()).Call(t.Context(), asPrompt{"Ada"})
	require.NoError(t, err)
	_, err = actors.NewTypedAgent[actors.Prompt, report]("writer", model.llm()).Call(t.Context(), actors.Prompt{Text: "?", History: []actors.Message{actors.User("a"), actors.Assistant("b")}})
	require.NoError(t, err)
	assert.Equal(t, "Greet Ada", model.asked()[0].Messages[0].Text)
	assert.Len(t, model.asked()[1].Messages, 3)
}

func TestATypedAgentIsAToolOfAnother(t *testing.T) {
	inner := actors.NewTypedAgent[topic, report]("writer", newScript(says(`{"title":"T","points":[]}`)).llm(), actors.WithDescription("Writes."))
	outer := newScript(asks(call("writer", `{"subject":"tea"}`)), says("done"))
	_, err := actors.NewAgent("chief", outer.llm(), actors.WithTools(inner)).Call(t.Context(), actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, []actors.Message{actors.ToolResult("1", `{"title":"T","points":[]}`)}, outer.results())
	assert.Equal(t, "Writes.", outer.asked()[0].Tools[0].Description)
}

func TestTypeThatIsNotAnObjectIsRefusedAtConstruction(t *testing.T) {
	model := newScript().llm()
	for name, make := range map[string]func(){
		"list": func() { actors.NewTypedAgent[string, []string]("writer", model) },
		"text": func() { actors.NewTypedAgent[string, string]("writer", model) },
		"func": func() { actors.NewTypedAgent[string, struct{ F func() }]("writer", model) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				require.ErrorContains(t, err, `the answer of "writer"`)
			}()
			make()
		})
	}
	assert.Nil(t, actors.NewTypedAgent[string, report]("writer", model).Describe().Parameters)
	answer := decorators.Tool("answer", "", func(context.Context, number) (int, error) { return 0, nil })
	assert.PanicsWithValue(t, `actors: the agent "writer" has a tool named "answer"; that name is reserved for the agent's answer`, func() {
		actors.NewTypedAgent[string, report]("writer", model, actors.WithTools(answer))
	})
}

func TestASchemaIsStrictOnlyIfServicesCanEnforceIt(t *testing.T) {
	strict := func(call func(actors.LLM) error) bool {
		model := newScript()
		_ = call(model.llm(actors.WithRetry(core.RetryConfig{MaxAttempts: 1})))
		return model.asked()[0].Options.Format.Strict
	}
	assert.True(t, strict(func(m actors.LLM) error {
		_, err := actors.NewTypedAgent[string, struct {
			Reports []report `json:"reports"`
		}]("a", m).Call(t.Context(), "?")
		return err
	}))
	assert.True(t, strict(func(m actors.LLM) error {
		_, err := actors.NewTypedAgent[string, topic]("a", m).Call(t.Context(), "?")
		return err
	}), "an optional field")
	assert.False(t, strict(func(m actors.LLM) error {
		_, err := actors.NewTypedAgent[string, map[string]int]("a", m).Call(t.Context(), "?")
		return err
	}), "any keys")
	assert.False(t, strict(func(m actors.LLM) error {
		_, err := actors.NewTypedAgent[string, struct {
			Raw json.RawMessage `json:"raw"`
		}]("a", m).Call(t.Context(), "?")
		return err
	}), "anything")
}
