package actorstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

type fakeT struct {
	reported []string
	cleanups []func()
}

func (f *fakeT) Helper() {}
func (f *fakeT) Errorf(format string, args ...any) {
	f.reported = append(f.reported, fmt.Sprintf(format, args...))
}
func (f *fakeT) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }

type city struct {
	Name string `json:"name"`
}

func weather(failures int) actors.Tool[city, string] {
	return decorators.Tool("get_weather", "", func(_ context.Context, in city) (string, error) {
		if failures--; failures >= 0 {
			return "", core.Retryable(errors.New("busy"))
		}
		return "4 °C in " + in.Name, nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
}

func TestAScriptPlaysAnAgent(t *testing.T) {
	model := actorstest.NewScript(t,
		actorstest.Calls(actorstest.Call("get_weather", city{"Oslo"}), actorstest.Call("get_weather", `{"name":`)).Using(core.Usage{InputTokens: 5}),
		actorstest.Fail(core.Retryable(errors.New("overloaded"))),
		actorstest.Say("It is 4 °C.").Using(core.Usage{InputTokens: 7, OutputTokens: 2}),
	)
	st := state.New(state.WithRoundTrip())
	defer st.Close()
	agent := actors.NewAgent("assistant", model.LLM("model", actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})), actors.WithTools(weather(1)))
	words := 0
	ctx := live.Watch(st.Context(t.Context()), func(d live.Delta) {
		if d.Part == live.PartText {
			words++
		}
	})
	answer, err := agent.Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Equal(t, "It is 4 °C.", answer.Text)
	assert.Equal(t, 4, words)
	actorstest.CheckCalls(t, testkit.Records(t, st),
		"assistant/model completed",
		"assistant/get_weather completed after 2 attempts",
		"assistant/refused_get_weather failed", // its arguments do not fit the tool
		"assistant/model#2 completed after 2 attempts",
		"assistant completed",
	)
	assert.Equal(t, core.Usage{InputTokens: 12, OutputTokens: 2}, actorstest.Usage(testkit.Records(t, st)))
	requests := model.Requests()
	require.Len(t, requests, 3)
	assert.Equal(t, []actors.ToolCall{{ID: "call_1", Name: "get_weather", Arguments: `{"name":"Oslo"}`}, {ID: "call_2", Name: "get_weather", Arguments: `{}`}}, requests[1].Messages[1].ToolCalls)
}

func TestWhatTheScriptDoesNotExpectIsReported(t *testing.T) {
	fake := new(fakeT)
	model := actorstest.NewScript(fake, actorstest.Say("a"), actorstest.Say("b"))
	llm := model.LLM("model")
	_, err := llm.Call(t.Context(), actors.Request{})
	require.NoError(t, err)
	fake.cleanups[0]()
	assert.Equal(t, []string{"actorstest: the script stopped before step 2 of 2"}, fake.reported)
	_, _ = llm.Call(t.Context(), actors.Request{})
	_, err = llm.Call(t.Context(), actors.Request{})
	require.ErrorIs(t, err, actorstest.ErrScriptEnded)
	require.ErrorIs(t, err, core.ErrPermanent)
	assert.Len(t, fake.reported, 2)
	assert.Panics(t, func() { actorstest.Call("f", func() {}) })
}

func TestCheckCallsSaysWhatIsDifferent(t *testing.T) {
	st := state.New(state.WithRoundTrip())
	defer st.Close()
	_, err := weather(0).Call(st.Context(t.Context()), city{"Oslo"})
	require.NoError(t, err)
	fake := new(fakeT)
	actorstest.CheckCalls(fake, testkit.Records(t, st), "get_weather completed")
	assert.Empty(t, fake.reported)
	actorstest.CheckCalls(fake, testkit.Records(t, st), "get_weather failed")
	require.Len(t, fake.reported, 1)
	assert.Contains(t, fake.reported[0], "get_weather completed")
}

func Example() {
	model := actorstest.NewScript(new(fakeT), actorstest.Say("Hello."))
	st := state.New(state.WithRoundTrip())
	defer st.Close()
	answer, err := actors.NewAgent("assistant", model.LLM("model")).Call(st.Context(context.Background()), actors.Ask("Hi"))
	fmt.Println(answer.Text, err)
	records, err := st.Records(context.Background())
	if err != nil {
		panic(err)
	}
	for _, line := range actorstest.Endings(records) {
		fmt.Println(line)
	}
	// Output:
	// Hello. <nil>
	// assistant/model completed
	// assistant completed
}
