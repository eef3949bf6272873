package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/state"
)

// talking returns an LLM that emits the words, one per second, and then answers with them.
func talking(words ...string) actors.LLM {
	return actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		for _, word := range words {
			if err := testkit.Pause(ctx, time.Second); err != nil {
				return actors.Response{}, err
			}
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		}
		return says(strings.Join(words, "")), nil
	})
}

func TestAStreamYieldsWhatIsSaidAndThenTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		var (
			answer actors.Answer
			shown  []string
		)
		begin := time.Now()
		for d, err := range actors.Stream(ctx, actors.NewAgent("assistant", talking("a ", "b ", "c")), actors.Ask("?"), &answer) {
			require.NoError(t, err)
			shown = append(shown, fmt.Sprintf("%v %s %v %q", time.Since(begin), d.Address, d.Part, d.Text))
		}
		assert.Equal(t, "a b c", answer.Text)
		assert.Equal(t, []string{
			`0s assistant/model begin ""`, `1s assistant/model text "a "`, `2s assistant/model text "b "`,
			`3s assistant/model text "c"`, `3s assistant/model end ""`,
		}, shown)
	})
}

// brokenActor is an actor defined by a program instead of this package.
type brokenActor struct{}

func (brokenActor) Event() core.ExecutionEvent[actors.Prompt, actors.Answer] { panic("no event") }

func TestStreamRefusesAMissingActorAndOutput(t *testing.T) {
	st, ctx := testkit.Run(t)
	var answer actors.Answer
	for _, err := range actors.Stream[actors.Prompt](ctx, nil, actors.Ask("?"), &answer) {
		require.EqualError(t, err, "actors: Stream: the actor is nil")
	}
	for _, err := range actors.Stream(ctx, actors.NewAgent("assistant", talking("a")), actors.Ask("?"), nil) {
		require.EqualError(t, err, "actors: Stream: out is nil; it receives the call's output")
	}
	assert.Empty(t, addresses(t, st), "no call was made")
	assert.PanicsWithValue(t, "no event", func() {
		for range actors.Stream(ctx, brokenActor{}, actors.Ask("?"), &answer) {
			t.Error("something was yielded")
		}
	})
}

func TestLLMThatDoesNotStreamIsShownInFull(t *testing.T) {
	asked := asks(call("echo", `{"n":1}`))
	asked.Message.Text, asked.Message.Reasoning = "Let me see.", "Hm."
	model := newScript(asked, says("done"))
	var shown []string
	var answer actors.Answer
	for d, err := range actors.Stream(t.Context(), actors.NewAgent("assistant", model.llm(), actors.WithTools(echo())), actors.Ask("?"), &answer) {
		require.NoError(t, err)
		shown = append(shown, strings.TrimSpace(fmt.Sprintf("%v %s %s", d.Part, d.Name, d.Text)))
	}
	assert.Equal(t, []string{"begin", "reasoning  Hm.", "text  Let me see.", `tool_call echo {"n":1}`, "end", "begin", "text  done", "end"}, shown)
}

func TestAFailureEndsAStream(t *testing.T) {
	failing := decorators.Agent("failing", "", func(ctx context.Context, _ number) (int, error) {
		live.Emit(ctx, live.Delta{Part: live.PartProgress, Text: "half"})
		return 0, errBoom
	})
	var out int
	var errs []error
	for d, err := range actors.Stream(t.Context(), failing, number{}, &out) {
		errs = append(errs, err)
		if err == nil {
			assert.Equal(t, "half", d.Text)
		}
	}
	require.Len(t, errs, 2)
	require.ErrorIs(t, errs[1], errBoom)
}

func TestLeavingTheLoopFailsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		var answer actors.Answer
		begin := time.Now()
		for range actors.Stream(ctx, actors.NewAgent("assistant", talking("a ", "b ", "c")), actors.Ask("?"), &answer) {
			break
		}
		assert.Equal(t, 3*time.Second, time.Since(begin))
		assert.Equal(t, "a b c", answer.Text)
		assert.Equal(t, []string{"assistant/model completed", "assistant completed"}, settled(t, st))
	}) // if a goroutine remained, the bubble would not end
}

func TestALoopThatPanicsLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer actors.Answer
		assert.PanicsWithValue(t, "oh", func() {
			for range actors.Stream(t.Context(), actors.NewAgent("assistant", talking("a")), actors.Ask("?"), &answer) {
				panic("oh")
			}
		})
	})
}

func TestASlowLoopHoldsUpNoCallAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ number) (string, error) {
			for i := range 1000 {
				live.Emit(ctx, live.Delta{Part: live.PartText, Text: fmt.Sprint(i, " ")})
			}
			ended.Store(time.Now().UnixNano())
			return "", nil
		})
		begin := time.Now().UnixNano()
		var (
			out    string
			shown  strings.Builder
			pieces int
		)
		for d, err := range actors.Stream(t.Context(), agent, number{}, &out) {
			require.NoError(t, err)
			shown.WriteString(d.Text)
			pieces++
			require.NoError(t, testkit.Pause(t.Context(), time.Hour))
		}
		assert.Equal(t, begin, ended.Load(), "the loop must not slow down the call")
		assert.Less(t, pieces, 1000, "adjacent deltas are joined")
		assert.True(t, strings.HasPrefix(shown.String(), "0 1 2 ") && strings.HasSuffix(shown.String(), "998 999 "))
		assert.Len(t, strings.Fields(shown.String()), 1000)
	})
}

func TestAStreamOfARecalledCallIsItsResult(t *testing.T) {
	store := memstore.New()
	model := newScript(says("done"))
	for _, want := range []int{3, 0} {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		var answer actors.Answer
		deltas := 0
		for _, err := range actors.Stream(st.Context(t.Context()), actors.NewAgent("assistant", model.llm()), actors.Ask("?"), &answer) {
			require.NoError(t, err)
			deltas++
		}
		assert.Equal(t, want, deltas)
		assert.Equal(t, "done", answer.Text)
		require.NoError(t, st.Close())
	}
}

func TestParallelToolsShowTheirProgress(t *testing.T) {
	tool := decorators.Tool("work", "", func(ctx context.Context, in number) (int, error) {
		live.Emit(ctx, live.Delta{Part: live.PartProgress, Text: fmt.Sprint(in.N)})
		return in.N, nil
	})
	model := newScript(asks(call("work", `{"n":1}`), call("work", `{"n":2}`)), says("done"))
	_, ctx := testkit.Run(t)
	progress := map[string]string{}
	var answer actors.Answer
	for d, err := range actors.Stream(ctx, actors.NewAgent("assistant", model.llm(), actors.WithTools(tool)), actors.Ask("?"), &answer) {
		require.NoError(t, err)
		if d.Part == live.PartProgress {
			progress[d.Address.String()] = d.Text
		}
	}
	assert.Equal(t, map[string]string{"assistant/work": "1", "assistant/work#2": "2"}, progress)
}

// The calls of a later attempt have different addresses, so their deltas would not replace those of
// an earlier attempt.
func TestAttemptOfAnAgentVoidsWhatCallsOfEarlierOnesHaveShown(t *testing.T) {
	_, ctx := testkit.Run(t)
	model := newScript(says("half"), says("whole"))
	attempts := 0
	agent := actors.NewAgent("assistant", model.llm(), actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})).
		Ensure(func(context.Context, actors.Prompt, actors.Answer) error {
			if attempts++; attempts == 1 {
				return errors.New("not good enough")
			}
			return nil
		})
	var shown []string
	var answer actors.Answer
	for d, err := range actors.Stream(ctx, agent, actors.Ask("?"), &answer) {
		require.NoError(t, err)
		shown = append(shown, d.Address.String()+" "+d.Part.String()+" "+d.Text)
	}
	assert.Equal(t, []string{
		"assistant/model begin ", "assistant/model text half", "assistant/model end ",
		"assistant begin ", "assistant end ",
		"assistant@2/model begin ", "assistant@2/model text whole", "assistant@2/model end ",
	}, shown)
}

func TestAttemptOfAToolVoidsWhatCallsOfEarlierOnesHaveShown(t *testing.T) {
	_, ctx := testkit.Run(t)
	model := newScript(says("half"), says("whole")).llm()
	tool := decorators.Tool("ask", "", func(ctx context.Context, _ number) (string, error) {
		live.Emit(ctx, live.Delta{Part: live.PartProgress, Text: "asks"})
		resp, err := model.Call(ctx, actors.Request{Messages: []actors.Message{actors.User("?")}})
		if err == nil && core.ScopeOf(ctx).Attempt() == 0 {
			err = core.Retryable(errBoom)
		}
		return resp.Message.Text, err
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	var shown []string
	var out string
	for d, err := range actors.Stream(ctx, tool, number{}, &out) {
		require.NoError(t, err)
		shown = append(shown, d.Address.String()+" "+d.Part.String()+" "+d.Text)
	}
	assert.Equal(t, []string{
		"ask progress asks", "ask/model begin ", "ask/model text half", "ask/model end ",
		"ask begin ", "ask end ", "ask progress asks",
		"ask@2/model begin ", "ask@2/model text whole", "ask@2/model end ",
	}, shown)
}

func TestDeltasOfToolCallsHaveTheIDThatTheModelGave(t *testing.T) {
	_, ctx := testkit.Run(t)
	model := newScript(asks(call("echo", `{"n":1}`), call("echo", `{"n":2}`)), says("done"))
	agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(echo()))
	var ids []string
	var answer actors.Answer
	for d, err := range actors.Stream(ctx, agent, actors.Ask("?"), &answer) {
		require.NoError(t, err)
		if d.Part == live.PartToolCall {
			ids = append(ids, d.ID)
		}
	}
	assert.Equal(t, []string{"1", "2"}, ids)
}

// The text that an agent or tool itself emits is complete when its attempt ends, even with a
// redaction, which holds back what may be the beginning of a secret.
func TestOwnTextOfAnAgentIsShownToItsEnd(t *testing.T) {
	talk := func(err error) func(context.Context, number) (int, error) {
		return func(ctx context.Context, _ number) (int, error) {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: "keys begin with "})
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: "sk-"})
			return 0, err
		}
	}
	rules, err := redact.New(`sk-[0-9a-f]{20}`)
	require.NoError(t, err)
	for name, call := range map[string]func(context.Context) (int, error){
		"agent": func(ctx context.Context) (int, error) {
			return decorators.Agent("a", "", talk(nil)).Call(ctx, number{})
		},
		"tool": func(ctx context.Context) (int, error) { return decorators.Tool("a", "", talk(nil)).Call(ctx, number{}) },
		"failure": func(ctx context.Context) (int, error) {
			return decorators.Agent("a", "", talk(errBoom)).Call(ctx, number{})
		},
	} {
		_, ctx := testkit.Run(t)
		var text strings.Builder
		var parts []live.Part
		_, err := call(live.Watch(ctx, live.Redact(rules, func(d live.Delta) {
			text.WriteString(d.Text)
			parts = append(parts, d.Part)
		})))
		assert.Equal(t, name == "failure", err != nil)
		assert.Equal(t, "keys begin with sk-", text.String(), name)
		assert.Equal(t, live.PartEnd, parts[len(parts)-1], name)
	}
}
