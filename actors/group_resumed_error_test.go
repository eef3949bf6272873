package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The error of a group is the same live and after a resume: its text may be the input of a later
// call, and the program may examine it.
func TestTheErrorOfAResumedGroupIsTheSame(t *testing.T) {
	inner := func(ctx context.Context) (int, error) { // a group with its own timeout
		_, err := actors.Parallel(ctx, actors.Group{Name: "inner", Timeout: time.Second}, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		return 0, err
	}
	bad := func(context.Context) (int, error) { return 0, core.Permanent(errors.New("bad")) }
	slow := func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	leave := func(context.Context) (int, error) {
		runtime.Goexit()
		return 0, nil
	}
	good := func(context.Context) (int, error) { return 1, nil }
	for name, c := range map[string]struct {
		group    actors.Group
		branches []func(context.Context) (int, error)
		timeout  bool
	}{
		"a timeout beside a failure":   {actors.Group{CollectAll: true, Timeout: time.Second}, []func(context.Context) (int, error){good, bad, slow}, true},
		"a timeout":                    {actors.Group{Timeout: time.Second}, []func(context.Context) (int, error){good, slow}, true},
		"a failure before a timeout":   {actors.Group{Timeout: time.Second}, []func(context.Context) (int, error){bad, slow}, false},
		"the timeout of another group": {actors.Group{}, []func(context.Context) (int, error){inner, slow}, false},
		"a branch that calls Goexit":   {actors.Group{CollectAll: true}, []func(context.Context) (int, error){good, leave}, false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				c.group.Name = "g"
				var seen []string
				report := decorators.Agent("report", "", func(_ context.Context, text string) (string, error) { return text, nil })
				agent := decorators.Agent("agent", "", func(ctx context.Context, _ string) (string, error) {
					_, err := actors.Parallel(ctx, c.group, c.branches...)
					var failed *actors.GroupError
					if !errors.As(err, &failed) {
						return "", err
					}
					seen = append(seen, fmt.Sprint(err, failed.NotEnded))
					assert.Equal(t, c.timeout, failed.Err != nil)
					if _, err := report.Call(ctx, err.Error()); err != nil {
						return "", err
					}
					_, err = core.Await[bool](ctx, "go on?")
					return "done", err
				})
				store := memstore.New()
				call := func() error {
					st, err := state.Open(t.Context(), store, "run")
					require.NoError(t, err)
					_, err = agent.Call(st.Context(t.Context()), "x")
					require.NoError(t, st.Close())
					return err
				}
				require.ErrorIs(t, call(), core.ErrAwaiting)
				require.NoError(t, state.Answer(t.Context(), store, "run", "agent?1", "ann", true))
				require.NoError(t, call())
				require.Len(t, seen, 2)
				assert.Equal(t, seen[0], seen[1])
			})
		})
	}
}

// A model is told the same about a tool that ended its goroutine, live and after a resume, and what
// the tool has done is compensated at once.
func TestAToolThatEndsItsGoroutineFailsLikeAnyOther(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var undone []string
		book := decorators.Tool("book", "", func(context.Context, struct{ What string }) (string, error) { return "booked", nil }).
			Compensate(func(_ context.Context, in struct{ What string }, _ string) error {
				undone = append(undone, in.What)
				return nil
			})
		travel := decorators.Agent("travel", "", func(ctx context.Context, _ struct{}) (string, error) {
			if _, err := book.Call(ctx, struct{ What string }{"a flight"}); err != nil {
				return "", err
			}
			runtime.Goexit()
			return "", nil
		})
		var told []string
		model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
			if last := req.Messages[len(req.Messages)-1]; last.Role == actors.RoleTool {
				told = append(told, last.Text)
				return actors.Response{Message: actors.Assistant("sorry")}, nil
			}
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: "travel", Arguments: "{}"}}}}, nil
		})
		assistant := actors.NewAgent("assistant", model, actors.WithTools(travel))
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ string) (string, error) {
			answer, err := assistant.Call(ctx, actors.Ask("go"))
			if err != nil {
				return "", err
			}
			_, err = core.Await[bool](ctx, "go on?")
			return answer.Text, err
		})
		store := memstore.New()
		call := func() error {
			st, err := state.Open(t.Context(), store, "run", state.WithCompensations(book))
			require.NoError(t, err)
			_, err = agent.Call(st.Context(t.Context()), "x")
			require.NoError(t, st.Close())
			return err
		}
		require.ErrorIs(t, call(), core.ErrAwaiting)
		assert.Equal(t, []string{"a flight"}, undone)
		require.Len(t, told, 1)
		assert.Contains(t, told[0], "the handler ended its goroutine")
		require.NoError(t, state.Answer(t.Context(), store, "run", "agent?1", "ann", true))
		require.NoError(t, call())
		assert.Equal(t, []string{"a flight"}, undone)
	})
}
