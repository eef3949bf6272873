package state_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type forecast struct {
	Temp  int      `json:"temp"`
	Winds []string `json:"winds"`
}

// planner calls a weather tool twice, asks a person, and returns a plan made from the results.
type planner struct {
	store *memstore.Store
	asked int // how often the weather tool ran
}

func (p *planner) run(t *testing.T, runID string) (string, error) {
	t.Helper()
	weather := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "weather"}, func(_ context.Context, city string) (forecast, error) {
		p.asked++
		return forecast{Temp: 10, Winds: []string{city}}, nil
	})
	approve := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "approve"}, func(ctx context.Context, _ string) (bool, error) {
		return core.Await[bool](ctx, "go?")
	})
	plan := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "plan"}, func(ctx context.Context, _ string) (string, error) {
		oslo, err := weather.Event().Execute(ctx, "Oslo")
		if err != nil {
			return "", err
		}
		bergen, err := weather.Event().Execute(ctx, "Bergen")
		if err != nil {
			return "", err
		}
		ok, err := approve.Event().Execute(ctx, "trip")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(oslo.Temp, oslo.Winds, bergen.Temp, bergen.Winds, ok), nil
	})
	st, err := state.Open(t.Context(), p.store, runID)
	require.NoError(t, err)
	out, err := plan.Event().Execute(st.Context(t.Context()), "in")
	require.NoError(t, st.Close())
	testkit.LoadRun(t, p.store, runID)
	return out, err
}

func newPlanner(t *testing.T) *planner {
	t.Helper()
	p := &planner{store: memstore.New()}
	_, err := p.run(t, "old")
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, state.Answer(t.Context(), p.store, "old", "plan/approve?1", "", true))
	out, err := p.run(t, "old")
	require.NoError(t, err)
	require.Equal(t, "10 [Oslo] 10 [Bergen] true", out)
	return p
}

func (p *planner) fork(t *testing.T, at, id string, outputs map[string]any) error {
	return state.Fork(t.Context(), p.store, "old", testkit.Address(t, at), id, state.ForkOptions{Outputs: outputs})
}

func TestForkSetsOutputsAndAnswers(t *testing.T) {
	json := func(text string) any {
		v, err := state.JSONAnswer([]byte(text))
		require.NoError(t, err)
		return v
	}
	for name, c := range map[string]struct {
		at      string
		outputs map[string]any
		want    string
		asked   int // how often the weather tool runs in the fork
		awaits  bool
	}{
		"of a call before": {at: "plan/approve", outputs: map[string]any{"plan/weather": forecast{Temp: -4}, "plan/approve?1": true}, want: "-4 [] 10 [Bergen] true"},
		"of the call at which it begins": {
			at: "plan/weather#2", outputs: map[string]any{"plan/weather#2": json(`{"temp": 31, "winds": ["S", "W"]}`)},
			want: "10 [Oslo] 31 [S W] ", awaits: true,
		},
		"of both": {
			at: "plan/weather#2", outputs: map[string]any{"plan/weather": json(`{"temp": 1}`), "plan/weather#2": json(`{"temp": 2}`), "plan/approve?1": false},
			want: "1 [] 2 [] false",
		},
		"the answer alone":        {at: "plan/approve", outputs: map[string]any{"plan/approve?1": false}, want: "10 [Oslo] 10 [Bergen] false"},
		"the answer, from before": {at: "plan/weather#2", outputs: map[string]any{"plan/approve?1": false}, want: "10 [Oslo] 10 [Bergen] false", asked: 1},
		"of the agent":            {at: "plan", outputs: map[string]any{"plan": "stay at home"}, want: "stay at home"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner(t)
			require.NoError(t, p.fork(t, c.at, "new", c.outputs))
			p.asked = 0
			out, err := p.run(t, "new")
			if c.awaits {
				require.ErrorIs(t, err, core.ErrAwaiting)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.want, out)
			}
			assert.Equal(t, c.asked, p.asked, "a call whose output was set is not made")
			set := 0
			for _, r := range testkit.LoadRun(t, p.store, "new").Records {
				if r.Detail != nil && r.Detail.SetInFork {
					set++
				}
			}
			assert.Equal(t, len(c.outputs), set, "the records with outputs that were set")
		})
	}
}

func TestForkRefusesAnOutputThatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		at      string
		outputs map[string]any
		want    string
	}{
		"another kind":         {"plan/approve", map[string]any{"plan/weather": "hot"}, `set plan/weather: the answer does not fit: the output: got a string, but the record has an object`},
		"another kind inside":  {"plan/approve", map[string]any{"plan/weather": map[string]any{"temp": "hot"}}, "temp: got a string, but the record has an integer"},
		"another kind of item": {"plan/approve", map[string]any{"plan/weather": map[string]any{"winds": []any{7}}}, "winds[0]: got an integer, but the record has a string"},
		"no whole number":      {"plan/approve", map[string]any{"plan/weather": map[string]any{"temp": 1.5}}, "temp: got a number, but the record has an integer"},
		"not kept":             {"plan/weather", map[string]any{"plan/weather#2": forecast{}}, "the fork does not keep that call; set the output of plan/weather itself"},
		"no such call":         {"plan/weather#2", map[string]any{"plan/nobody": 1}, "no call at that address has an outcome; want one of plan/weather, plan/weather#2"},
		"no address":           {"plan/weather#2", map[string]any{"plan//x": 1}, `address "plan//x"`},
		"not asked":            {"plan/approve", map[string]any{"plan/approve?2": true}, "it was never asked; want one of plan/approve?1"},
		"no answer":            {"plan/approve", map[string]any{"plan/approve?1": "perhaps"}, "the answer does not fit"},
		"nothing to encode":    {"plan/approve", map[string]any{"plan/weather": func() {}}, "func"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner(t)
			require.ErrorContains(t, p.fork(t, c.at, "new", c.outputs), c.want)
			_, err := p.store.Load(t.Context(), "new")
			require.Error(t, err, "no fork is created")
		})
	}
}

// A call whose output was set does not repeat its effect. No later call leads to a question about
// that effect.
func TestEffectOfACallWithASetOutputStands(t *testing.T) {
	store := memstore.New()
	b := buyer{bank: new(bank), attempts: [][]string{{"1", "2"}}}
	_, _, _, err := b.run(t, store, "parent", inOrder(t, nil))
	require.NoError(t, err)
	require.NoError(t, state.Fork(t.Context(), store, "parent", testkit.Address(t, "order/pay#2"), "fork", state.ForkOptions{
		Outputs: map[string]any{"order/pay#2": "another receipt"},
	}))
	out, report, _, err := b.run(t, store, "fork", inOrder(t, nil))
	require.NoError(t, err)
	assert.Equal(t, "1#1 another receipt", out)
	assert.Equal(t, "1 2", b.amounts())
	assert.Empty(t, report.LeftOver)
}

// A decision about one attempt says nothing about the attempt that the fork makes.
func TestForkRefusesADecisionAboutAnAttemptThatItDoesNotKeep(t *testing.T) {
	store, paid := memstore.New(), 0
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtAsk}, func(ctx context.Context, _ string) (string, error) {
		paid++
		_, err := core.Step(ctx, "sent", func(context.Context) (bool, error) { return true, nil })
		return "", errors.Join(err, io.ErrUnexpectedEOF)
	})
	program := func(runID string) (string, error) {
		st, err := state.Open(t.Context(), store, runID)
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), pay)
		require.NoError(t, st.Close())
		return out, err
	}
	_, err := program("old")
	require.ErrorIs(t, err, core.ErrAwaiting)
	fork := func(at string) error {
		return state.Fork(t.Context(), store, "old", testkit.Address(t, at), "new", state.ForkOptions{
			Effects: state.RepeatEffects, Outputs: map[string]any{"pay?in-doubt1": state.InDoubtCompleted("receipt 7")},
		})
	}
	require.ErrorContains(t, fork("pay"), "set pay?in-doubt1: it is about an attempt of pay that the fork does not keep")
	require.NoError(t, fork("pay/step:sent"))
	out, err := program("new")
	require.NoError(t, err)
	assert.Equal(t, "receipt 7", out)
	assert.Equal(t, 1, paid, "the fork keeps the attempt, and has the decision")
}

// A question about an attempt is asked even if the records contain an answer to it, as those of old
// forks do: nobody has seen how this attempt ended.
func TestAnswerOnRecordIsNotAboutALaterAttempt(t *testing.T) {
	store, paid := memstore.New(), 0
	encoded, err := record.Encode(state.InDoubtRunAgain())
	require.NoError(t, err)
	run, err := (&snapshot.Snapshot{
		Info: snapshot.Info{RunID: "r", Status: snapshot.StatusInterrupted, Generation: 1, LastSeq: 2},
		Records: []record.Record{
			{RunID: "r", Seq: 1, Generation: 1, Address: testkit.Address(t, "pay"), Name: "pay?in-doubt1", Kind: record.KindQuestion, Status: record.StatusAwaiting, Detail: &record.Detail{Awaits: record.AwaitDecision}},
			{RunID: "r", Seq: 2, Generation: 1, Address: testkit.Address(t, "pay"), Name: "pay?in-doubt1", Kind: record.KindAnswer, Status: record.StatusRecorded, Detail: &record.Detail{Output: encoded}},
		},
	}).Run()
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "r", state.WithDivergence(state.DivergenceRerun))
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtAsk}, func(context.Context, string) (string, error) {
		paid++
		return "", io.ErrUnexpectedEOF
	}))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	assert.Equal(t, 1, paid)
	open, err := state.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	require.Len(t, open, 1)
	assert.Contains(t, open[0].Refused, "it was given before the attempt was made")
}
