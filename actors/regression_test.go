package actors_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func answers(texts ...actors.Response) actors.LLM {
	n := 0
	return actors.NewLLM("m", func(context.Context, actors.Request) (actors.Response, error) {
		n++
		return texts[n-1], nil
	})
}

func TestTimedOutSubAgentIsFedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		block := decorators.Tool("block", "", func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		slow := decorators.Agent("slow", "", func(ctx context.Context, in struct{}) (string, error) {
			return block.Call(ctx, in)
		}, actors.WithAttemptTimeout(time.Second))
		llm := answers(
			actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: "slow"}}}},
			actors.Response{Message: actors.Assistant("gave up")})
		answer, err := actors.NewAgent("a", llm, actors.WithTools(slow)).Call(st.Context(t.Context()), actors.Ask("x"))
		require.NoError(t, err)
		assert.Equal(t, "gave up", answer.Text)
	})
}

func TestTimedOutAgentFailsItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		block := decorators.Tool("block", "", func(ctx context.Context, _ int2) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		slow := decorators.Agent("slow", "", func(ctx context.Context, in int2) (string, error) {
			return block.Call(ctx, in)
		}, actors.WithAttemptTimeout(time.Second))
		_, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "g"}, slow, make([]int2, 2))
		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
	})
}

type int2 struct{}

func TestSystemMessageOfTheHistoryIsKept(t *testing.T) {
	agent := actors.NewAgent("a", answers(actors.Response{Message: actors.Assistant("hi")}))
	history := []actors.Message{actors.System("be brief")}
	answer, err := agent.Call(t.Context(), actors.Prompt{Text: "x", History: history})
	require.NoError(t, err)
	assert.Equal(t, []actors.Message{actors.System("be brief"), actors.User("x"), actors.Assistant("hi")}, answer.Messages)
}

func TestBranchThatLeavesItsGoroutineHasFailed(t *testing.T) {
	out, err := actors.Parallel(t.Context(), actors.Group{Name: "g", Workers: 1, CollectAll: true},
		func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
		func(context.Context) (int, error) { return 2, nil })
	var failed *actors.GroupError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 1, failed.Failed[0].Branch)
	assert.Equal(t, []int{0, 2}, out, "another goroutine makes the other branches")
}

func TestPrepareOfTheZeroToolIsAnError(t *testing.T) {
	_, err := actors.Tool[int2, int]{}.Prepare(t.Context(), "{}")
	require.Error(t, err)
}

func TestResultOfAFailedBranchIsZero(t *testing.T) {
	out, err := actors.Parallel(t.Context(), actors.Group{Name: "g"}, func(ctx context.Context) (int, error) { return 5, errors.New("x") })
	require.Error(t, err)
	assert.Equal(t, []int{0}, out)
}

func TestRunWithASuspendedRootGroupIsInterrupted(t *testing.T) {
	st := state.New()
	ctx, cancel := context.WithCancel(t.Context())
	tool := decorators.Tool("block", "", func(ctx context.Context, _ int2) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	})
	_, err := actors.Map(st.Context(ctx), actors.Group{Name: "g"}, tool, make([]int2, 2))
	require.ErrorIs(t, err, core.ErrInterrupted)
	st.Close()
	assert.Equal(t, snapshot.StatusInterrupted, st.Status())
}

func TestRunWithAFailedRootGroupHasFailed(t *testing.T) {
	st := state.New()
	tool := decorators.Tool("f", "", func(ctx context.Context, _ int2) (string, error) {
		return "", errors.New("x")
	})
	_, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "g"}, tool, make([]int2, 2))
	require.Error(t, err)
	st.Close()
	assert.Equal(t, snapshot.StatusFailed, st.Status())
}

type bad struct{ actors.Function }

func (b bad) Prepare(context.Context, string) (actors.PreparedFunction, error) {
	return func(context.Context) (actors.ToolOutput, error) { panic("boom") }, nil
}

func TestBranchesThatWaitAreNotStartedAfterAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		started := 0
		branch := func(ctx context.Context) (int, error) {
			started++
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := actors.Parallel(st.Context(t.Context()), actors.Group{Name: "g", Workers: 1}, branch, branch, branch)
		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, 1, started)
	})
}

func TestInterruptedGroupIsSuspendedWhateverItsBranchesReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		branch := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err := actors.Parallel(st.Context(t.Context()), actors.Group{Name: "g"}, branch, branch, branch)
		var i *core.InterruptedError
		require.ErrorAs(t, err, &i)
	})
}

func TestBranchesStoppedByAnotherDidNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		defer st.Close()
		branch := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		_, err := actors.Parallel(st.Context(t.Context()), actors.Group{Name: "g"}, branch, branch, func(ctx context.Context) (int, error) { return 0, errors.New("x") })
		var i *actors.GroupError
		require.ErrorAs(t, err, &i)
		assert.Len(t, i.Failed, 1)
	})
}

type nothing struct{ actors.Function }

func (nothing) Prepare(context.Context, string) (actors.PreparedFunction, error) { return nil, nil }

func TestFunctionThatPreparesNothingIsFedBack(t *testing.T) {
	tool := decorators.Tool("f", "", func(context.Context, int2) (int, error) { return 1, nil })
	var got []actors.Message
	n := 0
	llm := actors.NewLLM("m", func(_ context.Context, req actors.Request) (actors.Response, error) {
		got = req.Messages
		if n++; n > 1 {
			return actors.Response{Message: actors.Assistant("x")}, nil
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: "f"}}}}, nil
	})
	_, err := actors.NewAgent("a", llm, actors.WithTools(nothing{tool})).Call(t.Context(), actors.Ask("x"))
	require.NoError(t, err)
	assert.Equal(t, actors.RoleTool, got[len(got)-1].Role)
}

func TestPanicOverARetryConfigurationNamesTheActor(t *testing.T) {
	text := testkit.PanicText(t, func() {
		decorators.Tool("get_weather", "", func(context.Context, int2) (int, error) { return 1, nil }, actors.WithRetry(core.RetryConfig{MaxAttempts: -5}))
	})
	assert.Contains(t, text, `"get_weather"`)
}

func TestPanicOfAFunctionIsFedBack(t *testing.T) {
	tool := decorators.Tool("f", "", func(context.Context, int2) (int, error) { return 1, nil })
	llm := answers(actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: "f"}, {ID: "2", Name: "f"}}}}, actors.Response{Message: actors.Assistant("x")})
	_, err := actors.NewAgent("a", llm, actors.WithTools(bad{tool})).Call(t.Context(), actors.Ask("x"))
	require.NoError(t, err)
}

func TestModelGetsTheInnermostError(t *testing.T) {
	tool := decorators.Tool("f", "", func(context.Context, int2) (int, error) { return 1, errors.New("boom") })
	ask := func(n string) actors.Response {
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: n, Arguments: "{}"}}}}
	}
	inner := decorators.Agent("inner", "", func(ctx context.Context, in int2) (int, error) { return tool.Call(ctx, in) })
	a, err := actors.NewAgent("a", answers(ask("inner"), actors.Response{Message: actors.Assistant("x")}), actors.WithTools(inner)).Call(t.Context(), actors.Ask("x"))
	require.NoError(t, err)
	assert.Equal(t, "error: boom", a.Messages[2].Text)
}

func TestHandlerThatChangesItsMessagesDoesNotChangeTheRun(t *testing.T) {
	var seen []string
	interrupts := true
	edits := actors.NewLLM("m", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		for i := range req.Messages {
			seen = append(seen, req.Messages[i].Text)
			req.Messages[i].Text = "changed"
		}
		if len(req.Messages) == 1 {
			return asks(call("echo", `{"n":1}`)), nil
		}
		if interrupts {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return actors.Response{}, ctx.Err()
		}
		return says("done"), nil
	})
	echo := decorators.Tool("echo", "", func(context.Context, number) (string, error) { return "one", nil })
	agent := actors.NewAgent("a", edits, actors.WithTools(echo))
	store := memstore.New()
	run := func() (actors.Answer, error) {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		answer, err := agent.Call(st.Context(t.Context()), actors.Ask("?"))
		require.NoError(t, st.Close())
		return answer, err
	}
	_, err := run()
	require.ErrorIs(t, err, core.ErrInterrupted)
	interrupts = false
	answer, err := run()
	require.NoError(t, err)
	assert.Equal(t, []string{"?", "?", "", "one", "?", "", "one"}, seen)
	assert.Equal(t, "?", answer.Messages[0].Text)
}
