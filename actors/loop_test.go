package actors_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestAgentAnswersWithoutTools(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		model := newScript(says("4 °C"))
		answer, err := actors.NewAgent("assistant", model.llm()).Call(ctx, actors.Ask("How warm is it?"))

		require.NoError(t, err)
		assert.Equal(t, actors.Answer{
			Text:     "4 °C",
			Finish:   actors.FinishStop,
			Messages: []actors.Message{actors.User("How warm is it?"), actors.Assistant("4 °C")},
			Turns:    1,
		}, answer)
		assert.Equal(t, []actors.Request{{Messages: []actors.Message{actors.User("How warm is it?")}}}, model.asked())
	})
}

func TestAgentCallsAToolAndSendsTheResultToTheModel(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		wish := asks(call("echo", `{"n":7}`))
		model := newScript(wish, says("seven"))
		answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(ctx, actors.Ask("?"))

		require.NoError(t, err)
		assert.Equal(t, "seven", answer.Text)
		assert.Equal(t, 2, answer.Turns)
		told := []actors.Message{actors.User("?"), wish.Message, actors.ToolResult("1", "7")}
		assert.Equal(t, append(told, actors.Assistant("seven")), answer.Messages)

		requests := model.asked()
		require.Len(t, requests, 2)
		assert.Equal(t, told[:1], requests[0].Messages, "the first request must not change later")
		assert.Equal(t, told, requests[1].Messages)
		for _, req := range requests {
			assert.Equal(t, []actors.FunctionSpec{echo().Describe()}, req.Tools)
		}
	})
}

func TestEachCallOfTheLoopIsRecorded(t *testing.T) {
	st, ctx := testkit.Run(t)
	model := newScript(asks(call("echo", `{"n":1}`), call("echo", `{"n":2}`)), asks(call("echo", `{"n":3}`)), says("done"))
	agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()), actors.WithToolWorkers(1))
	_, err := agent.Call(ctx, actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, []string{
		"assistant/model completed",
		"assistant/echo completed",
		"assistant/echo#2 completed",
		"assistant/model#2 completed",
		"assistant/echo#3 completed",
		"assistant/model#3 completed",
		"assistant completed",
	}, settled(t, st))
}

func TestToolCallsOfOneTurnRunInParallelUpToToolWorkers(t *testing.T) {
	for _, tc := range []struct {
		name        string
		opts        []actors.Option
		calls, most int64
		want        time.Duration
	}{
		{"default of 8", nil, 17, 8, 3 * time.Second},
		{"one", []actors.Option{actors.WithToolWorkers(1)}, 3, 1, 3 * time.Second},
		{"three", []actors.Option{actors.WithToolWorkers(3)}, 7, 3, 3 * time.Second},
		{"more than calls", []actors.Option{actors.WithToolWorkers(50)}, 7, 7, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var inside gauge
				slow := decorators.Tool("slow", "", func(ctx context.Context, _ number) (int, error) {
					defer inside.enter()()
					return 0, testkit.Pause(ctx, time.Second)
				})
				var calls []actors.ToolCall
				for range tc.calls {
					calls = append(calls, call("slow", `{"n":1}`))
				}
				model := newScript(asks(calls...), says("done"))
				_, ctx := testkit.Run(t)
				start := time.Now()
				_, err := actors.NewAgent("assistant", model.llm(), append(tc.opts, actors.WithTools(slow))...).Call(ctx, actors.Ask("?"))

				require.NoError(t, err)
				assert.Equal(t, tc.calls, inside.total.Load())
				assert.Equal(t, tc.most, inside.most.Load())
				assert.Equal(t, tc.want, time.Since(start))
			})
		})
	}
}

func TestToolResultsAreInTheOrderOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowFirst := decorators.Tool("slow_first", "", func(ctx context.Context, in number) (int, error) {
			return in.N, testkit.Pause(ctx, time.Duration(10-in.N)*time.Second)
		})
		var (
			calls []actors.ToolCall
			want  []actors.Message
		)
		for n := range 8 {
			calls = append(calls, call("slow_first", fmt.Sprintf(`{"n":%d}`, n)))
			want = append(want, actors.ToolResult(strconv.Itoa(n+1), strconv.Itoa(n)))
		}
		model := newScript(asks(calls...), says("done"))
		_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(slowFirst)).Call(t.Context(), actors.Ask("?"))

		require.NoError(t, err)
		assert.Equal(t, want, model.results())
	})
}

func TestMistakesOfTheModelAreFedBackToIt(t *testing.T) {
	for _, tc := range []struct {
		name  string
		tools []actors.Function
		call  actors.ToolCall
		want  string
	}{
		{"unknown tool", []actors.Function{echo(), block()}, call("ecko", `{}`), `there is no tool "ecko"; there are: echo, block`},
		{"unknown tool where none are", nil, call("echo", `{}`), `there is no tool "echo"; there are no tools at all`},
		{"unknown field", []actors.Function{echo()}, call("echo", `{"m":1}`), "invalid arguments for echo: m: unknown field; want \"n\"\nn: required field is missing"},
		{"wrong type", []actors.Function{echo()}, call("echo", `{"n":"x"}`), `invalid arguments for echo: n: got a string, want an integer`},
		{"no arguments", []actors.Function{echo()}, call("echo", ``), "invalid arguments for echo: n: required field is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			model := newScript(asks(tc.call), says("sorry"))
			answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(tc.tools...)).Call(ctx, actors.Ask("?"))

			require.NoError(t, err)
			assert.Equal(t, "sorry", answer.Text)
			assert.Equal(t, []actors.Message{errorResult("1", tc.want)}, model.results())
			refused := "assistant/refused_" + tc.call.Name
			assert.Equal(t, []string{"assistant", "assistant/model", refused, "assistant/model#2"}, addresses(t, st), "no tool was called")
			rec := recordOf(t, st, refused)
			assert.Equal(t, record.StatusFailed, rec.Status)
			assert.EqualError(t, rec.Err, tc.want)
			assert.Equal(t, "1", rec.Detail.ToolCall)
		})
	}
}

func TestArgumentsThatAreNotJSONAreFedBack(t *testing.T) {
	for _, arguments := range []string{`{"n":`, `n=1`, `{"n":1} {"n":2}`, `{"n":1}}`, "\xff"} {
		t.Run(arguments, func(t *testing.T) {
			model := newScript(asks(call("echo", arguments)), says("sorry"))
			answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(t.Context(), actors.Ask("?"))

			require.NoError(t, err)
			assert.Equal(t, "sorry", answer.Text)
			require.Len(t, model.results(), 1)
			result := model.results()[0]
			assert.True(t, result.IsError)
			assert.Contains(t, result.Text, "error: invalid arguments for echo: ")
		})
	}
}

func TestOneMistakeDoesNotKeepTheOtherCallsOfATurn(t *testing.T) {
	model := newScript(asks(call("echo", `{"n":1}`), call("nothing", `{}`), call("echo", `{"n":3}`)), says("done"))
	st, ctx := testkit.Run(t)
	_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(ctx, actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, []actors.Message{
		actors.ToolResult("1", "1"),
		errorResult("2", `there is no tool "nothing"; there are: echo`),
		actors.ToolResult("3", "3"),
	}, model.results())
	assert.ElementsMatch(t, []string{"assistant", "assistant/model", "assistant/echo", "assistant/refused_nothing", "assistant/echo#2", "assistant/model#2"}, addresses(t, st))
	for address, id := range map[string]string{"assistant/echo": "1", "assistant/refused_nothing": "2", "assistant/echo#2": "3"} {
		assert.Equal(t, id, recordOf(t, st, address).Detail.ToolCall, address)
	}
}

func failing() actors.Tool[number, int] {
	return decorators.Tool("failing", "", func(context.Context, number) (int, error) { return 0, errBoom })
}

func TestToolThatFailsForGoodIsFedBack(t *testing.T) {
	st, ctx := testkit.Run(t)
	model := newScript(asks(call("failing", `{"n":1}`), call("echo", `{"n":2}`)), says("it does not work"))
	answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(failing(), echo())).Call(ctx, actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, "it does not work", answer.Text)
	assert.Equal(t, []actors.Message{
		errorResult("1", "boom"),
		actors.ToolResult("2", "2"),
	}, model.results())
	assert.Equal(t, record.StatusFailed, recordOf(t, st, "assistant/failing").Status)
	assert.Equal(t, record.StatusCompleted, recordOf(t, st, "assistant").Status)
}

func TestToolIsRetriedBeforeTheModelSeesItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		flaky := decorators.Tool("flaky", "", func(context.Context, number) (int, error) {
			if attempts++; attempts < 3 {
				return 0, core.Retryable(errBoom)
			}
			return attempts, nil
		})
		_, ctx := testkit.Run(t)
		model := newScript(asks(call("flaky", `{"n":1}`)), says("done"))
		_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(flaky)).Call(ctx, actors.Ask("?"))

		require.NoError(t, err)
		assert.Equal(t, []actors.Message{actors.ToolResult("1", "3")}, model.results())
	})
}

func TestPanickingToolIsFedBack(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		broken := decorators.Tool("broken", "", func(context.Context, number) (int, error) { panic("oh no") })
		model := newScript(asks(call("broken", `{"n":1}`), call("broken", `{"n":2}`)), says("done"))
		_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(broken)).Call(ctx, actors.Ask("?"))

		require.NoError(t, err)
		require.Len(t, model.results(), 2)
		for _, result := range model.results() {
			assert.True(t, result.IsError)
			assert.Contains(t, result.Text, "panic: oh no")
		}
	})
}

func TestStopOnToolErrorEndsTheAgent(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		model := newScript(asks(call("echo", `{"n":1}`), call("failing", `{"n":2}`)), says("never said"))
		agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(failing(), echo()), actors.WithStopOnToolError())
		_, err := agent.Call(ctx, actors.Ask("?"))

		require.ErrorIs(t, err, errBoom)
		var failed *core.CallError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "assistant", failed.Name)
		assert.Len(t, model.asked(), 1)
	})
}

func TestStopOnToolErrorLeavesTheModelItsMistakes(t *testing.T) {
	model := newScript(asks(call("echo", `{}`), call("nothing", `{}`)), says("sorry"))
	agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()), actors.WithStopOnToolError())
	answer, err := agent.Call(t.Context(), actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, "sorry", answer.Text)
}

func TestTurnLimitFailsTheAgentForGood(t *testing.T) {
	retried := actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay})
	for _, tc := range []struct {
		name string
		opts []actors.Option
		want int
	}{
		{"default of 10", []actors.Option{retried}, 10},
		{"one", []actors.Option{retried, actors.WithMaxTurns(1)}, 1},
		{"three", []actors.Option{retried, actors.WithMaxTurns(3)}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			both(t, func(t *testing.T, ctx context.Context) {
				model := newScript()
				for range 50 {
					model.responses = append(model.responses, asks(call("echo", `{"n":1}`)))
				}
				_, err := actors.NewAgent("assistant", model.llm(), append(tc.opts, actors.WithTools(echo()))...).Call(ctx, actors.Ask("?"))

				require.ErrorIs(t, err, actors.ErrTurnLimit)
				require.ErrorIs(t, err, core.ErrPermanent)
				require.ErrorContains(t, err, fmt.Sprintf("after %d turns", tc.want))
				require.ErrorContains(t, err, "WithMaxTurns")
				assert.Len(t, model.asked(), tc.want)
			})
		})
	}
}

func TestAnswerInTheLastTurnIsAnAnswer(t *testing.T) {
	model := newScript(asks(call("echo", `{"n":1}`)), says("just in time"))
	answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()), actors.WithMaxTurns(2)).Call(t.Context(), actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, "just in time", answer.Text)
}

func TestUsageIsSummedOverTheTurns(t *testing.T) {
	first := core.Usage{InputTokens: 10, OutputTokens: 2, Cost: 0.5}
	second := core.Usage{InputTokens: 20, OutputTokens: 3, Cost: 0.25}
	st, ctx := testkit.Run(t)
	model := newScript(using(first, asks(call("echo", `{"n":1}`))), using(second, says("done")))
	answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(ctx, actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, core.Usage{InputTokens: 30, OutputTokens: 5, Cost: 0.75}, answer.Usage)
	assert.Equal(t, first, recordOf(t, st, "assistant/model").Detail.Usage)
	assert.Equal(t, second, recordOf(t, st, "assistant/model#2").Detail.Usage)
}

func TestUsageOfAFailedAnswerIsCounted(t *testing.T) {
	spent := core.Usage{InputTokens: 10, OutputTokens: 2}
	llm := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Usage: spent}, errBoom
	})
	st, ctx := testkit.Run(t)
	_, err := llm.Call(ctx, actors.Request{})

	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, spent, recordOf(t, st, "model").Detail.Usage)
}

func TestInstructionsComeFirstAndAreNotPartOfTheAnswer(t *testing.T) {
	model := newScript(says("yes"), says("no"))
	agent := actors.NewAgent("assistant", model.llm(), actors.WithInstructions("Be brief."))
	first, err := agent.Call(t.Context(), actors.Ask("Is it warm?"))
	require.NoError(t, err)
	second, err := agent.Call(t.Context(), actors.Prompt{Text: "Is it cold?", History: first.Messages})
	require.NoError(t, err)

	told := []actors.Message{
		actors.System("Be brief."), actors.User("Is it warm?"), actors.Assistant("yes"), actors.User("Is it cold?"),
	}
	assert.Equal(t, told[:2], model.asked()[0].Messages)
	assert.Equal(t, told, model.asked()[1].Messages)
	assert.Equal(t, append(told[1:], actors.Assistant("no")), second.Messages)
	assert.Equal(t, 1, second.Turns, "only turns of this call are counted")
}

func TestSystemMessageOfTheHistoryIsAPartOfTheAnswer(t *testing.T) {
	history := []actors.Message{actors.System("Be kind.")}
	told := []actors.Message{actors.System("Be kind."), actors.User("?"), actors.Assistant("yes")}
	for name, opts := range map[string][]actors.Option{
		"with instructions":    {actors.WithInstructions("Be brief.")},
		"without instructions": nil,
	} {
		t.Run(name, func(t *testing.T) {
			agent := actors.NewAgent("assistant", newScript(says("yes")).llm(), opts...)
			answer, err := agent.Call(t.Context(), actors.Prompt{Text: "?", History: history})
			require.NoError(t, err)
			assert.Equal(t, told, answer.Messages)
		})
	}
}

func TestHistoryOfTheCallerIsNotChanged(t *testing.T) {
	history := make([]actors.Message, 1, 10)
	history[0] = actors.User("before")
	model := newScript(asks(call("echo", `{"n":1}`)), says("done"))
	_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(t.Context(), actors.Prompt{Text: "?", History: history})

	require.NoError(t, err)
	assert.Equal(t, make([]actors.Message, 9), history[1:10])
}

func TestFailureOfTheModelFailsTheAgent(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context) {
		model := newScript(asks(call("echo", `{"n":1}`)))
		answer, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())).Call(ctx, actors.Ask("?"))

		require.ErrorContains(t, err, "the script is over")
		assert.Zero(t, answer)
	})
}

func TestModelIsAskedAgainUntilItsAnswerIsAcceptable(t *testing.T) {
	model := newScript(says("perhaps"), says("yes"))
	llm := model.llm(actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay})).
		Ensure(func(_ context.Context, _ actors.Request, resp actors.Response) error {
			if resp.Message.Text != "yes" {
				return errors.New("want yes")
			}
			return nil
		})
	answer, err := actors.NewAgent("assistant", llm).Call(t.Context(), actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, "yes", answer.Text)
	assert.Equal(t, 1, answer.Turns)
}

type celsius float64

func (c celsius) ToolResult() string { return fmt.Sprintf("%.1f °C", float64(c)) }

type unkind struct{}

func (unkind) ToolResult() string { panic("no text") }

func TestOutputOfAToolIsTextForTheModel(t *testing.T) {
	type page struct {
		HTML string `json:"html"`
	}
	returning := func(out any) actors.Function {
		return decorators.Tool("tool", "", func(context.Context, struct{}) (any, error) { return out, nil })
	}
	for _, tc := range []struct {
		name string
		out  any
		want actors.Message
	}{
		{"a string as it is", `say "hi"`, actors.ToolResult("1", `say "hi"`)},
		{"by its own method", celsius(4), actors.ToolResult("1", "4.0 °C")},
		{"a number", 1.5, actors.ToolResult("1", "1.5")},
		{"a struct without escapes of HTML", page{"<b>&</b>"}, actors.ToolResult("1", `{"html":"<b>&</b>"}`)},
		{"nothing", nil, actors.ToolResult("1", "null")},
		{"what JSON cannot hold", make(chan int), errorResult("1", "actors: convert the output of tool to text: json: unsupported type: chan int")},
		{"a method that panics", unkind{}, errorResult("1", "actors: converting the output of tool to text panicked: no text")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model := newScript(asks(call("tool", `{}`)), says("done"))
			_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(returning(tc.out))).Call(t.Context(), actors.Ask("?"))

			require.NoError(t, err)
			assert.Equal(t, []actors.Message{tc.want}, model.results())
		})
	}
}

func TestAgentIsAToolOfAnother(t *testing.T) {
	st, ctx := testkit.Run(t)
	researcher := newScript(asks(call("echo", `{"n":4}`)), says("It is 4 °C."))
	inner := actors.NewAgent("inner", researcher.llm(), actors.WithTools(echo()), actors.WithDescription("Finds things out."))
	boss := newScript(asks(call("inner", `{"text":"How warm is it?"}`)), says("Wear a coat."))
	outer := actors.NewAgent("outer", boss.llm(), actors.WithTools(inner))
	answer, err := outer.Call(ctx, actors.Ask("What do I wear?"))

	require.NoError(t, err)
	assert.Equal(t, "Wear a coat.", answer.Text)
	assert.Equal(t, []actors.Message{actors.ToolResult("1", "It is 4 °C.")}, boss.results(), "the model gets only the text")
	assert.Equal(t, []actors.Message{actors.User("How warm is it?")}, researcher.asked()[0].Messages)
	assert.Equal(t, "Finds things out.", boss.asked()[0].Tools[0].Description)
	assert.Equal(t, []string{
		"outer", "outer/model", "outer/inner", "outer/inner/model", "outer/inner/echo", "outer/inner/model#2", "outer/model#2",
	}, addresses(t, st))
}

func TestAgentAsAToolChecksItsArguments(t *testing.T) {
	inner := actors.NewAgent("inner", newScript(says("never said")).llm())
	for _, arguments := range []string{``, `{}`, `null`, `"text"`, `{"text":null}`, `{"text":1}`, `{"text":"a","history":[]}`, `{"text":"a"} x`, `{`} {
		t.Run(arguments, func(t *testing.T) {
			_, err := inner.Prepare(t.Context(), arguments)
			var invalid *actors.ArgumentsError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, "inner", invalid.Function)
		})
	}
}

func TestFailureOfAnInnerAgentIsFedBack(t *testing.T) {
	inner := actors.NewAgent("inner", newScript(asks(call("failing", `{"n":1}`))).llm(), actors.WithTools(failing()), actors.WithStopOnToolError())
	boss := newScript(asks(call("inner", `{"text":"try"}`)), says("it does not work"))
	answer, err := actors.NewAgent("outer", boss.llm(), actors.WithTools(inner)).Call(t.Context(), actors.Ask("?"))

	require.NoError(t, err)
	assert.Equal(t, "it does not work", answer.Text)
	require.Len(t, boss.results(), 1)
	assert.True(t, boss.results()[0].IsError)
	assert.Contains(t, boss.results()[0].Text, "boom")
}

func TestInterruptDuringAToolCallSuspendsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		model := newScript(asks(call("echo", `{"n":1}`), call("block", `{"n":2}`)), says("never said"))
		agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo(), block()))
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"}) })
		start := time.Now()
		answer, err := agent.Call(ctx, actors.Ask("?"))

		var interrupted *core.InterruptedError
		require.ErrorAs(t, err, &interrupted)
		assert.Equal(t, record.InterruptUser, interrupted.Reason)
		assert.Equal(t, "deploy", interrupted.Message)
		assert.Equal(t, "ops", interrupted.By)
		assert.Zero(t, answer)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Len(t, model.asked(), 1, "the model is not asked again")
		assert.Equal(t, []string{
			"assistant/model completed", "assistant/echo completed", "assistant/block interrupted", "assistant interrupted",
		}, settled(t, st))
	})
}

func TestInterruptInsideAnInnerAgentSuspendsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		inner := actors.NewAgent("inner", newScript(asks(call("block", `{"n":1}`))).llm(), actors.WithTools(block()))
		boss := newScript(asks(call("inner", `{"text":"wait"}`)), says("never said"))
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := actors.NewAgent("outer", boss.llm(), actors.WithTools(inner)).Call(ctx, actors.Ask("?"))

		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Len(t, boss.asked(), 1)
		assert.Equal(t, []string{
			"outer/model completed", "outer/inner/model completed",
			"outer/inner/block interrupted", "outer/inner interrupted", "outer interrupted",
		}, settled(t, st))
	})
}

func TestToolThatEndsInSpiteOfAnInterruptIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		deaf := decorators.Tool("deaf", "", func(_ context.Context, in number) (int, error) {
			<-time.After(2 * time.Second)
			return in.N, nil
		})
		model := newScript(asks(call("deaf", `{"n":1}`)), says("never said"))
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(deaf)).Call(ctx, actors.Ask("?"))

		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, []string{
			"assistant/model completed", "assistant/deaf completed", "assistant interrupted",
		}, settled(t, st))
		assert.Len(t, model.asked(), 1)
	})
}

func TestAgentThatSwallowsAnInterruptDoesNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		swallowing := decorators.Agent("assistant", "", func(ctx context.Context, in number) (int, error) {
			_, _ = block().Call(ctx, in)
			return 42, nil
		})
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		out, err := swallowing.Call(ctx, number{1})

		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Zero(t, out)
		assert.Equal(t, []string{"assistant/block interrupted", "assistant interrupted"}, settled(t, st))
	})
}

func TestParallelToolCallsHaveTheSameAddressesInEveryRun(t *testing.T) {
	const calls = 12
	want := map[int]string{1: "assistant/where"}
	for n := 2; n <= calls; n++ {
		want[n] = fmt.Sprintf("assistant/where#%d", n)
	}
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			found := make([]string, calls+1)
			where := decorators.Tool("where", "", func(ctx context.Context, in number) (int, error) {
				found[in.N] = core.ScopeOf(ctx).Address().String()
				return in.N, testkit.Pause(ctx, rand.N(100*time.Millisecond))
			})
			var wishes []actors.ToolCall
			for n := 1; n <= calls; n++ {
				wishes = append(wishes, call("where", fmt.Sprintf(`{"n":%d}`, n)))
			}
			model := newScript(asks(wishes...), says("done"))
			_, ctx := testkit.Run(t)
			agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(where), actors.WithToolWorkers(1+rand.IntN(calls)))
			_, err := agent.Call(ctx, actors.Ask("?"))

			require.NoError(t, err)
			for n, address := range want {
				assert.Equal(t, address, found[n])
			}
		}
	})
}

func TestRetriedAgentMakesItsCallsAgain(t *testing.T) {
	st, ctx := testkit.Run(t)
	attempts := 0
	agent := decorators.Agent("assistant", "", func(ctx context.Context, in number) (int, error) {
		if _, err := echo().Call(ctx, in); err != nil {
			return 0, err
		}
		if attempts++; attempts == 1 {
			return 0, core.Retryable(errBoom)
		}
		_, err := actors.Map(ctx, actors.Group{Name: "again"}, echo(), []number{in})
		return 0, err
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}))
	_, err := agent.Call(ctx, number{1})

	require.NoError(t, err)
	assert.Equal(t, []string{"assistant", "assistant/echo", "assistant@2/echo", "assistant@2/group:again", "assistant@2/group:again/1"}, addresses(t, st))
}

func TestAModelLearnsAllThatWentWrongInATool(t *testing.T) {
	weather := testkit.Tool(t, "weather", core.RetryConfig{MaxAttempts: 1}, testkit.Fail(errBoom))
	flaky := testkit.Tool(t, "flaky", core.RetryConfig{InitialDelay: core.NoDelay}, testkit.Fail(core.Retryable(errors.New("busy"))))
	calls := func(d *testkit.Definition) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return testkit.Call(ctx, d) }
	}
	group := func(branches ...func(context.Context) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "g", CollectAll: true}, branches...)
			return "", err
		}
	}
	for name, tc := range map[string]struct {
		handler func(context.Context) (string, error)
		want    string
	}{
		"its own error":      {failWith("no"), "no"},
		"an error of a call": {calls(flaky), "busy"},
		"a group":            {group(calls(weather), failWith("no"), calls(flaky)), "3 of 3 branches failed; branch 1: boom; branch 2: no; branch 3: busy"},
		"a group in a group": {group(group(calls(weather), calls(flaky))), "1 of 1 branches failed; branch 1: 2 of 2 branches failed; branch 1: boom; branch 2: busy"},
		"an error of a call, and words around it": {func(ctx context.Context) (string, error) {
			_, err := testkit.Call(ctx, flaky)
			return "", fmt.Errorf("the flight is booked, the hotel is not: %w", err)
		}, "the flight is booked, the hotel is not: assistant/book/flaky: exhausted after 3 attempts: busy"},
		"errors of two calls": {func(ctx context.Context) (string, error) {
			_, first := testkit.Call(ctx, weather)
			_, second := testkit.Call(ctx, flaky)
			return "", errors.Join(first, second)
		}, "assistant/book/weather: permanent: boom\nassistant/book/flaky: exhausted after 3 attempts: busy"},
		"an error without end": {failWith(strings.Repeat("no ", 1<<20)), record.Truncate(strings.Repeat("no ", 1<<20), record.MessageLimit)},
	} {
		t.Run(name, func(t *testing.T) {
			book := decorators.Tool("book", "", func(ctx context.Context, _ struct{}) (string, error) { return tc.handler(ctx) },
				actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
			for _, opts := range [][]state.Option{nil, {state.WithRoundTrip()}} {
				_, ctx := testkit.Run(t, opts...)
				model := newScript(asks(call("book", `{}`)), says("sorry"))
				_, err := actors.NewAgent("assistant", model.llm(), actors.WithTools(book)).Call(ctx, actors.Ask("?"))
				require.NoError(t, err)
				assert.Equal(t, []actors.Message{errorResult("1", tc.want)}, model.results(), "through its recorded form: %v", opts != nil)
			}
		})
	}
}

// A model that does not know that a call is in doubt might just make the call again.
func TestAModelLearnsThatACallMayHaveTakenEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		policy core.InDoubtPolicy
		err    error
		answer state.InDoubtAnswer
		want   string
	}{
		"lost response":      {core.InDoubtFail, io.ErrUnexpectedEOF, state.InDoubtAnswer{}, "unexpected EOF (the call may have taken effect)"},
		"marked":             {core.InDoubtFail, core.InDoubt(errBoom), state.InDoubtAnswer{}, "boom (the call may have taken effect)"},
		"certainly failed":   {core.InDoubtFail, errBoom, state.InDoubtAnswer{}, "boom"},
		"failed as answered": {core.InDoubtAsk, io.ErrUnexpectedEOF, state.InDoubtFailed("nothing was paid"), "it was in doubt, and the answer says that it failed: nothing was paid"},
	} {
		for _, options := range [][]state.Option{nil, {state.WithRoundTrip()}} {
			t.Run(fmt.Sprint(name, ", through its recorded form: ", options != nil), func(t *testing.T) {
				store := memstore.New()
				model := newScript(asks(call("pay", `{}`)), says("sorry"))
				pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { return "", tc.err }, actors.WithInDoubt(tc.policy))
				for range 2 {
					st, err := state.Open(t.Context(), store, "run", options...)
					require.NoError(t, err)
					_, err = actors.NewAgent("assistant", model.llm(), actors.WithTools(pay)).Call(st.Context(t.Context()), actors.Ask("?"))
					require.NoError(t, st.Close())
					if !errors.Is(err, core.ErrAwaiting) {
						require.NoError(t, err)
						break
					}
					require.NoError(t, state.Answer(t.Context(), store, "run", "assistant/pay?in-doubt1", "", tc.answer))
				}
				assert.Equal(t, []actors.Message{errorResult("1", tc.want)}, model.results())
			})
		}
	}
}
