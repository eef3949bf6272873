package actors_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type optional struct {
	Title string `json:"title"`
	Note  string `json:"note,omitempty"`
}

const strictOptional = `{"type":"object","properties":{"title":{"type":"string"},"note":{"type":["string","null"]}},"required":["title","note"],"additionalProperties":false}`

func TestAnOptionalFieldOfATypedAnswerIsRequiredAndMayBeNull(t *testing.T) {
	model := newScript(says(`{"title":"T","note":null}`))
	got, err := actors.NewTypedAgent[string, optional]("writer", model.llm()).Call(t.Context(), "?")
	require.NoError(t, err)
	assert.Equal(t, optional{Title: "T"}, got)
	format := model.asked()[0].Options.Format
	assert.True(t, format.Strict)
	assert.Empty(t, format.Loose)
	assert.JSONEq(t, strictOptional, string(format.Schema))
}

func TestWhatPreventsStrictIsReported(t *testing.T) {
	type loose struct {
		Counts map[string]int `json:"counts"`
	}
	model := newScript(says(`{"counts":{"a":1}}`))
	_, err := actors.NewTypedAgent[string, loose]("writer", model.llm()).Call(t.Context(), "?")
	require.NoError(t, err)
	format := model.asked()[0].Options.Format
	assert.False(t, format.Strict)
	assert.Equal(t, "counts: its keys are unknown, as in a map; services enforce objects with known properties", format.Loose)

	const want = `actors: "writer": WithStrict: counts: its keys are unknown, as in a map; services enforce objects with known properties`
	assert.PanicsWithValue(t, want, func() { actors.NewTypedAgent[string, loose]("writer", model.llm(), actors.WithStrict()) })
	assert.PanicsWithValue(t, want, func() {
		decorators.Tool("writer", "", func(context.Context, loose) (int, error) { return 0, nil }, actors.WithStrict())
	})
	assert.Panics(t, func() { actors.NewAgent("a", model.llm(), actors.WithStrict()) })
	assert.Panics(t, func() { actors.NewAgent("a", model.llm(), actors.WithAnswerByTool()) })
	assert.PanicsWithValue(t, `actors: "a": WithMaxCorrections is not an option of NewAgent, whose answer is text; see NewTypedAgent`, func() {
		actors.NewAgent("a", model.llm(), actors.WithMaxCorrections(3))
	})
	assert.Panics(t, func() {
		actors.NewLLM("a", func(context.Context, actors.Request) (resp actors.Response, err error) { return }, actors.WithStrict())
	})
}

func TestAStrictToolTakesNullForAnAbsentField(t *testing.T) {
	var in []optional
	tool := decorators.Tool("note", "", func(_ context.Context, o optional) (string, error) {
		in = append(in, o)
		return "ok", nil
	}, actors.WithStrict())
	spec := tool.Describe()
	assert.True(t, spec.Strict)
	assert.JSONEq(t, strictOptional, string(spec.Parameters))
	model := newScript(asks(call("note", `{"title":"T","note":null}`), call("note", `{"title":"U"}`), call("note", `{"note":"N"}`)), says("done"))
	_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(tool), actors.WithToolWorkers(1)).Call(t.Context(), actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, []optional{{Title: "T"}, {Title: "U"}}, in)
	assert.Contains(t, model.results()[2].Text, "title: required field is missing")
}

func TestADocumentIsReadWhereverItIsInTheAnswer(t *testing.T) {
	const document = `{"title":"T","points":["a {b}"]}`
	for name, text := range map[string]string{
		"alone":               document,
		"fenced":              "```json\n" + document + "\n```",
		"after text":          "Here you are:\n" + document,
		"before text":         document + "\nAnything else?",
		"after thoughts":      "<think>Maybe {\"title\":\"X\",\"points\":[]}?</think>\n" + document,
		"thoughts not opened": "Maybe {\"title\":\"X\",\"points\":[]}?</think>" + document,
		"after a draft":       `{"title":"Draft","points":[]}` + " No: " + document,
		"after braces":        "A set {a, b} and {} and " + document,
		"before an example":   document + ` as in {"other":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			model := newScript(says(text))
			got, err := actors.NewTypedAgent[string, report]("writer", model.llm()).Call(ctx, "?")
			require.NoError(t, err)
			assert.Equal(t, report{Title: "T", Points: []string{"a {b}"}}, got)
			assert.Equal(t, []string{"writer", "writer/model"}, addresses(t, st), "no additional turn is needed")
		})
	}
}

func TestLookingForADocumentEnds(t *testing.T) {
	text := strings.Repeat("{", 200_000)
	model := newScript(says(text), says(text), says(text))
	_, err := actors.NewTypedAgent[string, report]("writer", model.llm()).Call(t.Context(), "?")
	var unfit *actors.AnswerError
	require.ErrorAs(t, err, &unfit)
	assert.Contains(t, unfit.Problem, "not valid JSON")
}

func TestTheAnswerByToolCanBeChosen(t *testing.T) {
	model := newScript(says(`{"title":"T","points":[]}`))
	_, err := actors.NewTypedAgent[string, report]("writer", model.llm(), actors.WithAnswerByTool()).Call(t.Context(), "?")
	require.NoError(t, err)
	assert.True(t, model.asked()[0].Options.Format.ByTool)
}

func TestTheTurnLimitOfATypedAgentSaysWhatIsTrue(t *testing.T) {
	store, model := memstore.New(), newScript(says("no"), says("no"))
	for range 2 { // first executed, then recalled
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		_, err = actors.NewTypedAgent[string, report]("writer", model.llm(), actors.WithMaxTurns(2), actors.WithMaxCorrections(5)).Call(st.Context(t.Context()), "?")
		require.ErrorIs(t, err, actors.ErrTurnLimit)
		require.ErrorContains(t, err, "the model's answer does not fit after 2 turns")
		require.NotContains(t, err.Error(), "asks for tools")
		var unfit *actors.AnswerError
		require.ErrorAs(t, err, &unfit)
		require.Equal(t, 2, unfit.Asked)
		require.NoError(t, st.Close())
	}
}

func TestARefusedFormatIsNotATurn(t *testing.T) {
	asked := 0
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		if asked++; !req.Options.Format.ByTool {
			return actors.Response{}, core.Permanent(errors.Join(actors.ErrFormatUnsupported))
		}
		return says(`{"title":"T","points":[]}`), nil
	})
	_, err := actors.NewTypedAgent[string, report]("writer", llm, actors.WithMaxTurns(1)).Call(t.Context(), "?")
	require.NoError(t, err)
	assert.Equal(t, 2, asked)
}

func TestACallThatCannotBeReadIsTheModelsMistake(t *testing.T) {
	malformed := actors.Response{Message: actors.Assistant("<function=echo>{n:1}"), Finish: actors.FinishMalformedCall, FinishReason: "tool_use_failed: no JSON"}
	model := newScript(malformed, asks(call("echo", `{"n":1}`)), says("done"))
	st, ctx := testkit.Run(t)
	answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, "done", answer.Text)
	assert.Equal(t, 3, answer.Turns)
	assert.Equal(t, []string{"assistant", "assistant/model", "assistant/model#2", "assistant/echo", "assistant/model#3"}, addresses(t, st))
	second := model.asked()[1].Messages
	require.Len(t, second, 3)
	assert.Equal(t, malformed.Message, second[1])
	assert.Contains(t, second[2].Text, "cannot be read (tool_use_failed: no JSON)")

	model = newScript(malformed, malformed)
	_, err = actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()), actors.WithMaxTurns(2)).Call(t.Context(), actors.Ask("?"))
	require.ErrorIs(t, err, actors.ErrTurnLimit)
	require.ErrorContains(t, err, "tool calls still cannot be read")
}

func TestInstructionPartsAreTheSystemMessage(t *testing.T) {
	cached := actors.Part{Text: "A long manual.", Extra: actors.Extra{"openrouter.ai": {"cache_control": map[string]any{"type": "ephemeral"}}}}
	model := newScript(says("done"))
	_, err := actors.NewAgent("assistant", model.llm(), actors.WithInstructionParts(cached)).Call(t.Context(), actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, actors.Message{Role: actors.RoleSystem, Parts: []actors.Part{cached}}, model.asked()[0].Messages[0])
	assert.Panics(t, func() {
		actors.NewAgent("a", model.llm(), actors.WithInstructionParts(actors.ImageURL("https://a.example/b.png")))
	})
}
