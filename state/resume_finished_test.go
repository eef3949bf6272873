package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A run that is killed after any of its records and then resumed must end like one that was never
// killed. The only difference may be which branches have not ended.

// killedAnywhere runs the agent to its end. Then, for each record, it copies the run as if it had
// been killed after that record, resumes the copy, opens it once more and replays it. It calls
// check with the result of the first run and of each resume.
func killedAnywhere(t *testing.T, agent *definition, check func(t *testing.T, before, out string, err error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
		out, err := run(t, s, p)
		check(t, "never", out, err)
		<-time.After(time.Hour)
		records := testkit.LoadRun(t, s, runID).Records
		for n := range records {
			left, kept := killed(t, s, func(record.Record) bool { n--; return n >= -1 }), 0
			for range testkit.LoadRun(t, left, runID).Records {
				kept++
			}
			at := fmt.Sprintf("after %d of %d records", kept, len(records))
			out, err := run(t, left, p)
			check(t, at, out, err)
			again, err2 := run(t, left, p)
			assert.Equal(t, out, again, at)
			assert.Equal(t, fmt.Sprint(err), fmt.Sprint(err2), at)
			replayed, err := state.Replay(t.Context(), left, runID)
			require.NoError(t, err, at)
			strict, err3 := p(replayed.Context(t.Context()))
			assert.Equal(t, out, strict, at)
			assert.Equal(t, err2 == nil, err3 == nil, at)
			require.NoError(t, replayed.Close())
			<-time.After(time.Hour)
		}
	})
}

// waits returns the handler of a tool that takes the given number of seconds and returns its name.
func waits(name string, seconds int, err error) handler {
	tool := toolOf(name, core.RetryConfig{InitialDelay: core.NoDelay, MaxAttempts: 9}, func(ctx context.Context) (string, error) {
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
			return name, err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	return func(ctx context.Context) (string, error) { return execute(ctx, tool) }
}

func TestFirstHasTheSameWinnerAfterAnyCrash(t *testing.T) {
	agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
		first, err := actors.First(ctx, actors.Group{Name: "g"}, waits("slow", 60, nil), waits("bad", 1, errBad), waits("quick", 2, nil))
		if err != nil {
			return "", err
		}
		second, err := execute(ctx, toolOf("after", retryAtOnce, func(context.Context) (string, error) { return first, nil }))
		return first + second, err
	})
	killedAnywhere(t, agent, func(t *testing.T, at, out string, err error) {
		require.NoError(t, err, at)
		assert.Equal(t, "quickquick", out, at)
	})
}

var errBad = errors.New("bad")

func TestResultsComeInTheRecordedOrderAfterAnyCrash(t *testing.T) {
	for name, stop := range map[string]int{"to the end": 99, "stopped early": 2} {
		t.Run(name, func(t *testing.T) {
			item := define(record.KindTool, "item", core.RetryConfig{InitialDelay: core.NoDelay, MaxAttempts: 9}, func(ctx context.Context, in string) (string, error) {
				select {
				case <-time.After(time.Duration(10-len(in)) * time.Second):
					return in, nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
				var order []string
				for f, err := range actors.MapSeq(ctx, actors.Group{Name: "g", Workers: 2}, item, []string{"x", "xx", "xxx", "xxxx"}) {
					if err != nil {
						return "", err
					}
					// The calls depend on the order, so a different order would be a divergence.
					told, err := execute(ctx, toolOf(fmt.Sprint("tell", f.Branch), retryAtOnce, func(context.Context) (string, error) { return f.Output, nil }))
					if err != nil {
						return "", err
					}
					if order = append(order, told); len(order) == stop {
						break
					}
				}
				return strings.Join(order, " "), nil
			})
			killedAnywhere(t, agent, func(t *testing.T, at, out string, err error) {
				require.NoError(t, err, at)
				assert.Len(t, strings.Fields(out), min(stop, 4), at)
			})
		})
	}
}

func TestGroupThatTimedOutStaysFailedAfterAnyCrash(t *testing.T) {
	agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
		_, err := actors.Parallel(ctx, actors.Group{Name: "g", Timeout: 5 * time.Second}, waits("quick", 1, nil), waits("slow", 60, nil))
		if !errors.Is(err, core.ErrGroupTimeout) {
			return "", fmt.Errorf("another end: %w", err)
		}
		return execute(ctx, toolOf("after", retryAtOnce, func(context.Context) (string, error) { return "handled", nil }))
	})
	killedAnywhere(t, agent, func(t *testing.T, at, out string, err error) {
		require.NoError(t, err, at)
		assert.Equal(t, "handled", out, at)
	})
}

// The loop leaves the group because it cannot continue. The group must not complete until all its
// branches have ended.
func TestGroupContinuesAfterTheBodyOfItsLoopWasSuspended(t *testing.T) {
	type page struct {
		N int `json:"n"`
	}
	for name, act := range map[string]func(ctx context.Context, again bool) error{
		"asks": func(ctx context.Context, _ bool) error {
			_, err := core.Await[string](ctx, "publish?")
			return err
		},
		"interrupted": func(ctx context.Context, again bool) error {
			if !again {
				state.From(ctx).Interrupt(snapshot.Stop{})
				return errBad
			}
			return nil
		},
	} {
		for _, atRoot := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", at the root: ", atRoot), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, fetched, asked := memstore.New(), map[int]int{}, map[int]bool{}
					fetch := decorators.Tool("fetch", "", func(ctx context.Context, p page) (int, error) {
						fetched[p.N]++
						select {
						case <-time.After(time.Duration(p.N) * time.Second):
							return p.N, nil
						case <-ctx.Done():
							return 0, ctx.Err()
						}
					})
					publish := decorators.Tool("publish", "", func(ctx context.Context, p page) (int, error) {
						again := asked[p.N]
						asked[p.N] = true
						return p.N, act(ctx, again)
					})
					program := func(ctx context.Context, _ struct{}) (order []int, err error) {
						for out, err := range actors.MapSeq(ctx, actors.Group{Name: "pages", Workers: 1}, fetch, []page{{3}, {1}, {2}}) {
							if err != nil {
								return nil, err
							}
							n, err := publish.Call(ctx, page{out.Output})
							if err != nil {
								return nil, err
							}
							order = append(order, n)
						}
						return order, nil
					}
					if !atRoot {
						program = decorators.Agent("a", "", program).Call
					}
					for range 3 { // one suspension for each page
						st, err := state.Open(t.Context(), store, "r", state.WithWait())
						require.NoError(t, err)
						_, err = program(st.Context(t.Context()), struct{}{})
						require.ErrorIs(t, err, core.ErrInterrupted)
						require.NoError(t, st.Close())
						questions, err := state.Questions(t.Context(), store, "r")
						require.NoError(t, err)
						for _, q := range questions {
							require.NoError(t, state.Answer(t.Context(), store, "r", q.ID, "ann", "yes"))
						}
					}
					st, err := state.Open(t.Context(), store, "r", state.WithWait())
					require.NoError(t, err)
					order, err := program(st.Context(t.Context()), struct{}{})
					require.NoError(t, errors.Join(err, st.Close()))
					assert.Equal(t, []int{3, 1, 2}, order)
					if name == "asks" { // an interrupt cuts off the running branch
						assert.Equal(t, map[int]int{1: 1, 2: 1, 3: 1}, fetched)
					}
				})
			})
		}
	}
}
