package state_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A group that failed fast stays failed after a resume, and its stopped branches stay stopped.

// branches makes handlers for branches, each of which calls its own tool, and counts the calls.
type branches struct {
	mu  sync.Mutex
	ran map[string]int
}

func newBranches() *branches { return &branches{ran: make(map[string]int)} }

// tool returns a branch whose tool ends after d, or when its context ends.
func (b *branches) tool(name string, d time.Duration, end handler) handler {
	tool := toolOf(name, tryOnce, func(ctx context.Context) (string, error) {
		b.mu.Lock()
		b.ran[name]++
		b.mu.Unlock()
		select {
		case <-time.After(d):
			return end(ctx)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	return func(ctx context.Context) (string, error) { return execute(ctx, tool) }
}

func (b *branches) names() []string { return slices.Sorted(maps.Keys(b.ran)) }

// failingAgent returns an agent that runs the group and returns a description of how the group
// ended.
func failingAgent(g actors.Group, handlers ...handler) *definition {
	return agentOf(tryOnce, func(ctx context.Context) (string, error) {
		out, err := actors.Parallel(ctx, g, handlers...)
		var failed *actors.GroupError
		if !errors.As(err, &failed) {
			return "", fmt.Errorf("no failure of the group: %w", err)
		}
		var kept []string
		for i, o := range out {
			if !slices.Contains(failed.NotEnded, i+1) {
				kept = append(kept, o)
			}
		}
		v, _ := getting(ctx)
		return fmt.Sprint(err, "; not finished ", failed.NotEnded, "; results ", kept, "; value ", v), nil
	})
}

// requireStaysFailed runs the agent, cuts the records before the first one that keep rejects, and
// resumes the run. The resumed run must end in the same way. It returns the names of the tools that
// ran after the resume.
func requireStaysFailed(t *testing.T, b *branches, agent *definition, keep func(record.Record) bool, options ...state.Option) []string {
	t.Helper()
	s := memstore.New()
	p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
	want, err := run(t, s, p)
	require.NoError(t, err)
	<-time.After(time.Hour)
	left := killed(t, s, keep)
	b.ran = make(map[string]int)
	begin := time.Now()
	got, err := run(t, left, p, options...)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Zero(t, time.Since(begin), "the resumed run does not wait")
	return b.names()
}

// untilAgentEnds keeps everything before the agent's outcome.
func untilAgentEnds(r record.Record) bool { return r.Name != "a" || r.Status == record.StatusStarted }

func TestStoppedBranchesOfAFailedGroupAreNotStartedAgain(t *testing.T) {
	for name, keep := range map[string]func(record.Record) bool{
		"before the agent continued":       untilAgentEnds,
		"before the branches were stopped": func(r record.Record) bool { return r.Status != record.StatusInterrupted },
		"while the branches were stopped":  func(r record.Record) bool { return r.Status != record.StatusInterrupted || r.Name == "slow" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBranches()
				agent := failingAgent(actors.Group{Name: "g", Workers: 4},
					b.tool("slow", time.Minute, succeed), b.tool("quick", time.Second, succeed), b.tool("bad", 2*time.Second, refuse),
					b.tool("slower", time.Minute, succeed), b.tool("never", 0, succeed), b.tool("never too", 0, succeed))
				ran := requireStaysFailed(t, b, agent, keep)
				assert.Empty(t, ran)
			})
		})
	}
}

func TestFirstRecordedFailureIsTheCauseOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBranches(), memstore.New()
		var causes []string
		agent := failingAgent(actors.Group{Name: "g"},
			b.tool("second", 2*time.Second, refuse),
			func(ctx context.Context) (string, error) {
				_, err := b.tool("stopped", time.Minute, succeed)(ctx)
				causes = append(causes, err.Error())
				return "", err
			},
			b.tool("first", time.Second, func(context.Context) (string, error) { return "", errors.New("first") }),
		)
		p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
		_, err := run(t, s, p)
		require.NoError(t, err)
		left := killed(t, s, func(r record.Record) bool { return r.Name != "a" || r.Status == record.StatusStarted })
		out, err := run(t, left, p)
		require.NoError(t, err)
		assert.Contains(t, out, "1 of 3 branches failed; a/group:g/3/first: permanent: first")
		require.Len(t, causes, 1, "the branch that was stopped does not begin again")
	})
}

func TestBothRecordedFailuresOfAGroupAreRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBranches()
		deaf := toolOf("deaf", tryOnce, func(ctx context.Context) (string, error) {
			<-time.After(3 * time.Second)
			return "", core.Permanent(errors.New("late"))
		})
		agent := failingAgent(actors.Group{Name: "g"},
			func(ctx context.Context) (string, error) { return execute(ctx, deaf) },
			b.tool("bad", time.Second, refuse), b.tool("slow", time.Minute, succeed))
		assert.Empty(t, requireStaysFailed(t, b, agent, untilAgentEnds))
	})
}

func TestBranchThatFailedByItselfKeepsItsGroupFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBranches()
		look := b.tool("look", time.Second, succeed)
		agent := failingAgent(actors.Group{Name: "g"},
			b.tool("slow", time.Minute, succeed), b.tool("quick", time.Millisecond, succeed),
			func(ctx context.Context) (string, error) {
				if _, err := look(ctx); err != nil {
					return "", err
				}
				return "", errors.New("the value is not visible")
			})
		assert.Empty(t, requireStaysFailed(t, b, agent, untilAgentEnds))
	})
}

func TestBranchThatWentOnAfterAFailureFailsNoGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBranches(), memstore.New()
		first, second := b.tool("first", time.Second, refuse), b.tool("second", time.Second, succeed)
		p := func(ctx context.Context) (string, error) {
			out, err := actors.Parallel(ctx, actors.Group{Name: "g"},
				b.tool("slow", time.Minute, succeed),
				func(ctx context.Context) (string, error) {
					if _, err := first(ctx); err == nil {
						return "", errors.New("it should have failed")
					}
					return second(ctx)
				})
			return strings.Join(out, ","), err
		}
		want, err := run(t, s, p)
		require.NoError(t, err)
		for _, end := range []string{"first", "second"} {
			left := killed(t, s, func(r record.Record) bool { return r.Name != end || r.Status != record.StatusCompleted })
			b.ran = make(map[string]int)
			got, err := run(t, left, p)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	})
}

func TestStoppedBranchOfAFailedGroupMakesNoNewCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBranches()
		one, two := b.tool("one", time.Second, succeed), b.tool("two", time.Second, succeed)
		agent := failingAgent(actors.Group{Name: "g"},
			func(ctx context.Context) (string, error) {
				if _, err := one(ctx); err != nil {
					return "", err
				}
				return two(ctx)
			},
			b.tool("bad", time.Second+1, refuse))
		notTwo := func(r record.Record) bool { return untilAgentEnds(r) && r.Name != "two" }
		s := memstore.New()
		p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
		_, err := run(t, s, p)
		require.NoError(t, err)
		left := onlyThese(t, s, notTwo)
		b.ran = make(map[string]int)
		out, err := run(t, left, p)
		require.NoError(t, err)
		assert.Contains(t, out, "not finished [1]")
		assert.Empty(t, b.names())
		assert.Equal(t, snapshot.StatusCompleted, statusOf(t, left))
	})
}

// onlyThese returns a store that contains only the records of the run that keep accepts.
func onlyThese(t *testing.T, s snapshot.Store, keep func(record.Record) bool) snapshot.Store {
	t.Helper()
	loaded := testkit.LoadRun(t, s, runID)
	left := memstore.New()
	journal, err := left.Open(t.Context(), runID, snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	n := uint64(0)
	for _, r := range loaded.Records {
		if !keep(r) {
			continue
		}
		n++
		r.Seq = n
		require.NoError(t, journal.Append(r))
	}
	require.NoError(t, journal.Close(t.Context(), snapshot.End{Status: snapshot.StatusInterrupted}))
	return left
}

func statusOf(t *testing.T, s snapshot.Store) snapshot.Status {
	t.Helper()
	loaded := testkit.LoadRun(t, s, runID)
	return loaded.Status
}

func TestGroupFailedByAGroupInsideItStaysFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBranches()
		agent := failingAgent(actors.Group{Name: "outer"},
			b.tool("slow", time.Minute, succeed),
			func(ctx context.Context) (string, error) {
				_, err := actors.Parallel(ctx, actors.Group{Name: "inner"}, b.tool("stopped", time.Minute, succeed), b.tool("bad", time.Second, refuse))
				return "", err
			},
			b.tool("quick", time.Millisecond, succeed))
		assert.Empty(t, requireStaysFailed(t, b, agent, untilAgentEnds))
	})
}

func TestGroupStoppedByTheOneAroundItIsNotTheOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBranches()
		agent := failingAgent(actors.Group{Name: "outer"},
			func(ctx context.Context) (string, error) {
				_, err := actors.Parallel(ctx, actors.Group{Name: "inner", CollectAll: true}, b.tool("first", time.Second, refuse), b.tool("stopped", time.Minute, succeed))
				return "", err
			},
			b.tool("bad", 2*time.Second, refuse))
		assert.Empty(t, requireStaysFailed(t, b, agent, untilAgentEnds))
	})
}

func TestValueOfAFinishedCallInAStoppedBranchIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBranches()
		slow := b.tool("slow", time.Minute, succeed)
		agent := failingAgent(actors.Group{Name: "g"},
			func(ctx context.Context) (string, error) {
				execute(ctx, putting("kept"))
				return slow(ctx)
			},
			b.tool("bad", time.Second, refuse))
		assert.Empty(t, requireStaysFailed(t, b, agent, untilAgentEnds))
	})
}

func TestGroupOfMapStaysFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var ran atomic.Int64
		fails := define(record.KindTool, "fails", tryOnce, func(ctx context.Context, in string) (string, error) {
			ran.Add(1)
			if in == "bad" {
				return refuse(ctx)
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
			_, err := actors.Map(ctx, actors.Group{Name: "g"}, mapped{fails}, []string{"slow", "bad"})
			return fmt.Sprint(err), nil
		})
		p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
		want, err := run(t, s, p)
		require.NoError(t, err)
		ran.Store(0)
		got, err := run(t, killed(t, s, untilAgentEnds), p)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Zero(t, ran.Load())
	})
}

type mapped struct{ *definition }

func TestFailedGroupIsReplayedAndValidated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBranches(), memstore.New()
		agent := failingAgent(actors.Group{Name: "g", Workers: 3},
			b.tool("slow", time.Minute, succeed), b.tool("quick", time.Millisecond, succeed), b.tool("bad", time.Second, refuse), b.tool("never", 0, succeed))
		p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
		want, err := run(t, s, p)
		require.NoError(t, err)
		b.ran = make(map[string]int)

		differences, err := state.Validate(t.Context(), s, runID, func(ctx context.Context) error {
			out, err := p(ctx)
			assert.Equal(t, want, out)
			return err
		})
		require.NoError(t, err)
		assert.Empty(t, differences)

		st, err := state.Replay(t.Context(), killed(t, s, untilAgentEnds), runID)
		require.NoError(t, err)
		out, err := p(st.Context(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, want, out)
		require.NoError(t, st.Close())
		assert.Empty(t, b.names())
	})
}

func TestFailedGroupIsMadeAgainWithItsFailedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBranches(), memstore.New()
		broken := true
		p := func(ctx context.Context) (string, error) {
			return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
				out, err := actors.Parallel(ctx, actors.Group{Name: "g"},
					b.tool("slow", time.Minute, succeed), b.tool("quick", time.Millisecond, succeed),
					b.tool("bad", time.Second, func(ctx context.Context) (string, error) {
						if broken {
							return refuse(ctx)
						}
						return "mended", nil
					}))
				return strings.Join(out, ","), err
			}))
		}
		_, err := run(t, s, p)
		require.Error(t, err)
		broken, b.ran = false, make(map[string]int)
		out, err := run(t, s, p, state.WithRerunFailed())
		require.NoError(t, err)
		assert.Equal(t, "done,done,mended", out)
		assert.Equal(t, []string{"bad", "slow"}, b.names())
	})
}
