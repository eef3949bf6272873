package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
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

// The error of a group is the same after a resume as it was live: its text may be the input of a
// later call, and the program may examine it.
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
	late := func(ctx context.Context) (int, error) { // succeeds although it was interrupted
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
		return 7, nil
	}
	good := func(context.Context) (int, error) { return 1, nil }
	within := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	ended := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	type branches []func(context.Context) (int, error)
	for name, c := range map[string]struct {
		group    actors.Group
		branches branches
		derive   func(context.Context) (context.Context, context.CancelFunc)
		timeout  bool
	}{
		"a timeout beside a failure":       {actors.Group{CollectAll: true, Timeout: time.Second}, branches{good, bad, slow}, nil, true},
		"a timeout":                        {actors.Group{Timeout: time.Second}, branches{good, slow}, nil, true},
		"a failure before a timeout":       {actors.Group{Timeout: time.Second}, branches{bad, slow}, nil, false},
		"the timeout of another group":     {actors.Group{}, branches{inner, slow}, nil, true},
		"a branch that calls Goexit":       {actors.Group{CollectAll: true}, branches{good, leave}, nil, false},
		"a deadline":                       {actors.Group{}, branches{good, slow}, within, false},
		"a deadline beside a failure":      {actors.Group{CollectAll: true}, branches{good, bad, slow}, within, false},
		"a context that has ended already": {actors.Group{}, branches{good, bad}, ended, false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				c.group.Name = "g"
				var seen []string
				report := decorators.Agent("report", "", func(_ context.Context, text string) (string, error) { return text, nil })
				agent := decorators.Agent("agent", "", func(ctx context.Context, _ string) (string, error) {
					groupContext := ctx
					if c.derive != nil {
						var cancel context.CancelFunc
						groupContext, cancel = c.derive(ctx)
						defer cancel()
					}
					out, err := actors.Parallel(groupContext, c.group, c.branches...)
					first, firstErr := actors.First(groupContext, actors.Group{Name: "first"}, late)
					if core.IsSuspension(err) {
						return "", err
					}
					var failed *actors.GroupError
					if errors.As(err, &failed) {
						failed = &actors.GroupError{Failed: make([]actors.BranchError, len(failed.Failed))}
					}
					seen = append(seen, fmt.Sprint(out, err, failed, first, firstErr))
					assert.Equal(t, c.timeout, errors.Is(err, core.ErrGroupTimeout))
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

// A model receives the same message about a tool that ended its goroutine, whether live or after a
// resume. What the tool has done is compensated at once.
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

// The loop over MapSeq yields the same branches and the same error after a resume as it did live,
// even if its group ends early.
func TestAResumedMapSeqYieldsTheSame(t *testing.T) {
	work := decorators.Agent("work", "", func(ctx context.Context, how string) (string, error) {
		switch how {
		case "bad":
			return "", core.Permanent(errors.New("bad"))
		case "late": // succeeds although it was interrupted
			<-ctx.Done()
		}
		return how, nil
	})
	for name, c := range map[string]struct {
		group  actors.Group
		inputs []string
		yields string
	}{
		"a timeout":                    {actors.Group{CollectAll: true, Timeout: time.Second}, []string{"good", "late"}, "1 good, 0 agent/group:g: group timeout"},
		"a timeout after a failure":    {actors.Group{CollectAll: true, Timeout: time.Second}, []string{"bad", "late"}, "1 agent/group:g/1: permanent: bad, 0 agent/group:g: group timeout: 1 of 2 branches failed; agent/group:g/1: permanent: bad"},
		"all branches have ended":      {actors.Group{CollectAll: true, Workers: 1}, []string{"bad", "good"}, "1 agent/group:g/1: permanent: bad, 2 good"},
		"a failure that ends the loop": {actors.Group{Workers: 1}, []string{"bad", "good"}, "1 agent/group:g/1: permanent: bad"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				c.group.Name = "g"
				use := decorators.Agent("use", "", func(_ context.Context, text string) (string, error) { return text, nil })
				agent := decorators.Agent("agent", "", func(ctx context.Context, _ string) (string, error) {
					var yielded []string
					for out, err := range actors.MapSeq(ctx, c.group, work, c.inputs) {
						text := out.Output
						if err != nil {
							text = err.Error()
						}
						yielded = append(yielded, fmt.Sprint(out.Branch, " ", text))
						if _, err := use.Call(ctx, text); err != nil {
							return "", err
						}
					}
					if _, err := core.Await[bool](ctx, "go on?"); err != nil {
						return "", err
					}
					return strings.Join(yielded, ", "), nil
				})
				store := memstore.New()
				call := func() (string, error) {
					st, err := state.Open(t.Context(), store, "run")
					require.NoError(t, err)
					out, err := agent.Call(st.Context(t.Context()), "x")
					require.NoError(t, st.Close())
					return out, err
				}
				_, err := call()
				require.ErrorIs(t, err, core.ErrAwaiting)
				require.NoError(t, state.Answer(t.Context(), store, "run", "agent?1", "ann", true))
				yielded, err := call()
				require.NoError(t, err)
				assert.Equal(t, c.yields, yielded)
			})
		})
	}
}
