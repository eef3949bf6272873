package state_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/reprise-go/reprise/internal/testkit"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A decisionOn is an answer with fields of many types.
type decisionOn struct {
	Approved bool            `json:"approved"`
	Level    string          `json:"level" enum:"low,high"`
	Until    time.Time       `json:"until"`
	For      time.Duration   `json:"for,omitempty"`
	Note     string          `json:"note,omitempty"`
	Data     []byte          `json:"data,omitempty"`
	More     []decisionOn    `json:"more,omitempty"`
	Counts   map[int]uint8   `json:"counts,omitempty"`
	Any      any             `json:"any,omitempty"`
	Raw      json.RawMessage `json:"raw,omitempty"`
}

// askFor begins a run that asks for a T, and returns a function that resumes it and returns the
// answer.
func askFor[T any](t *testing.T) (s snapshot.Store, goOn func() (T, error)) {
	t.Helper()
	s = memstore.New()
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (T, error) { return core.Await[T](ctx, "well?") })
	goOn = func() (T, error) {
		st := openRun(t, s)
		defer func() { require.NoError(t, st.Close()) }()
		return ask.Call(st.Context(t.Context()), struct{}{})
	}
	_, err := goOn()
	require.ErrorIs(t, err, core.ErrAwaiting)
	return s, goOn
}

// assertFits first answers with the wrong values, which must be refused and not recorded, and then
// with the right one.
func assertFits[T any](t *testing.T, wrong map[string]string, right any, want T) {
	t.Helper()
	s, goOn := askFor[T](t)
	before := len(testkit.LoadRun(t, s, askedRun).Records)
	for text, message := range wrong {
		value, err := state.JSONAnswer([]byte(text))
		require.NoError(t, err)
		err = state.Answer(t.Context(), s, askedRun, question, "", value)
		require.ErrorIs(t, err, core.ErrUnfit, text)
		require.EqualError(t, err, "state: answer to ask?1 in run run-1: the answer does not fit: "+message)
	}
	waiting, err := s.Messages(t.Context(), askedRun)
	require.NoError(t, err)
	assert.Empty(t, waiting)
	assert.Len(t, testkit.LoadRun(t, s, askedRun).Records, before)
	require.NoError(t, state.Answer(t.Context(), s, askedRun, question, "", right))
	got, err := goOn()
	require.NoError(t, err)
	wanted, err := json.Marshal(want) // two equal times may have different locations
	require.NoError(t, err)
	given, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, string(wanted), string(given))
}

func TestAnAnswerThatDoesNotFitIsRefusedWithItsFields(t *testing.T) {
	assertFits(t, map[string]string{`"yes"`: "got a string, want a boolean", "null": "got null, want a boolean", "1": "got an integer, want a boolean"}, true, true)
	assertFits(t, map[string]string{"300": "got 300, want at most 127", "1.5": "got 1.5, want an integer (no fraction or exponent)"}, 7, int8(7))
	assertFits(t, map[string]string{`[1, "x"]`: "[1]: got a string, want an integer", `{}`: "got an object, want an array"}, []int{1, 2}, []int{1, 2})
	when := time.Date(2026, 11, 22, 8, 30, 0, 0, time.UTC)
	right := map[string]any{"approved": true, "level": "low", "until": "2026-11-22T08:30:00Z", "more": []any{map[string]any{"approved": false, "level": "high", "until": "2026-11-22T08:30:00Z"}}, "counts": map[string]any{"3": 4}}
	assertFits(t, map[string]string{
		`{"aproved": true, "level": "low", "until": "2026-11-22T08:30:00Z"}`:                "approved: required field is missing\n" + `aproved: unknown field; want one of "any", "approved", "counts", "data", "for", "level", "more", "note", "raw", "until"`,
		`{"approved": "yes", "level": "huge", "until": "soon"}`:                             `approved: got a string, want a boolean` + "\n" + `level: got "huge", want one of "low", "high"` + "\n" + `until: got "soon", want an RFC 3339 date-time such as "2006-01-02T15:04:05Z"`,
		`{"approved": true, "level": "low", "until": "2026-11-22T08:30:00Z", "more": [{}]}`: "more[0].approved: required field is missing\nmore[0].level: required field is missing\nmore[0].until: required field is missing",
		`true`: "got a boolean, want an object",
	}, right, decisionOn{Approved: true, Level: "low", Until: when, More: []decisionOn{{Level: "high", Until: when}}, Counts: map[int]uint8{3: 4}})
	whole := decisionOn{Approved: true, Level: "low", Until: when, For: time.Minute, Note: "n", Data: []byte("d"), Counts: map[int]uint8{1: 2}, Any: "x", Raw: json.RawMessage(`{"a":1}`)}
	assertFits(t, nil, whole, whole)
	assertFits(t, nil, nil, any(nil))
	assertFits[*bool](t, map[string]string{`"x"`: "got a string, want a boolean or null"}, nil, nil)
}

func TestATypeThatNobodyCanAnswerWithFailsTheCall(t *testing.T) {
	st := state.New()
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (bool, error) {
		_, err := core.Await[chan int](ctx, "well?")
		return false, err
	})
	_, err := ask.Call(st.Context(t.Context()), struct{}{})
	require.ErrorContains(t, err, "core: Await: nobody can answer with a chan int: schema: chan int: chan int has no schema")
	assert.Empty(t, testkit.Questions(t, st))
	require.NoError(t, st.Close())
}

func TestAQuestionAboutACallInDoubtDescribesTheCall(t *testing.T) {
	s := memstore.New()
	type order struct {
		Amount int    `json:"amount"`
		Memo   string `json:"memo"`
	}
	in := order{42, string(make([]byte, 1000))}
	pay, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtAsk}, func(ctx context.Context, _ order) (int, error) {
		state.From(ctx).Interrupt(snapshot.Stop{By: "ops"})
		return 0, ctx.Err()
	})
	require.NoError(t, err)
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (int, error) { return pay.Event().Execute(ctx, in) })
	var began time.Time
	for range 2 {
		st := openRun(t, s)
		_, err := agent.Call(st.Context(t.Context()), struct{}{})
		require.Error(t, err)
		require.NoError(t, st.Close())
	}
	for _, r := range testkit.LoadRun(t, s, askedRun).Records {
		if r.Address.String() == "agent/pay" && r.Status == record.StatusStarted {
			began = r.Time
		}
	}
	open, err := state.Questions(t.Context(), s, askedRun)
	require.NoError(t, err)
	require.Len(t, open, 1)
	call := open[0].InDoubt
	require.NotNil(t, call)
	assert.Equal(t, "pay", call.Name)
	assert.Equal(t, record.KindTool, call.Kind)
	assert.Equal(t, 1, call.Starts)
	assert.Equal(t, began, call.Began)
	var got order
	require.NoError(t, record.Decode(call.Input, &got))
	assert.Equal(t, in, got, "the input is kept, however long it is")
	assert.JSONEq(t, `{"type": "object", "properties": {
		"decision": {"type": "string", "enum": ["completed", "run_again", "failed"], "description": "whether the call took effect, and what happens to it"},
		"output": {"type": "integer"},
		"message": {"type": "string", "description": "why the call failed, if the decision is failed"}
	}, "required": ["decision"], "additionalProperties": false}`, string(open[0].Schema))

	for text, want := range map[string]string{
		`{"decision": "completed", "output": "x"}`: "the answer does not fit: got a string, want an integer (in the output)",
		`{"decision": "completed"}`:                `the answer does not fit: the decision "completed" needs the "output" of the call`,
		`{"decision": "done"}`:                     `the answer does not fit: decision: got "done", want one of "completed", "run_again", "failed"`,
		`{"decision": "failed", "mesage": "x"}`:    `the answer does not fit: "mesage": unknown field; want one of "decision", "output", "message"`,
		`true`:                                     `the answer does not fit: got a boolean, want an object such as {"decision": "run_again"}`,
	} {
		value, err := state.JSONAnswer([]byte(text))
		require.NoError(t, err)
		err = state.Answer(t.Context(), s, askedRun, open[0].ID, "", value)
		require.ErrorIs(t, err, core.ErrUnfit)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, state.Answer(t.Context(), s, askedRun, open[0].ID, "", state.InDoubtCompleted(7)))
	st := openRun(t, s)
	out, err := agent.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, err)
	assert.Equal(t, 7, out)
	require.NoError(t, st.Close())
}
