package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// A run that was stopped and resumed must end as if it had never been stopped.

const runID = "run-1"

type (
	definition   = core.Definition[string, string]
	inputHandler = core.Handler[string, string]
	body         = func(context.Context) (string, error)
)

var (
	tryOnce     = core.RetryConfig{MaxAttempts: 1}
	retryAtOnce = core.RetryConfig{InitialDelay: core.NoDelay}
	retryHourly = core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter}
)

func define(kind record.Kind, name string, retry core.RetryConfig, h inputHandler) *definition {
	d, err := core.NewDefinition(core.Spec{Kind: kind, Name: name, Retry: &retry}, h)
	if err != nil {
		panic(err)
	}
	return d
}

func toolOf(name string, retry core.RetryConfig, h handler) *definition {
	return define(record.KindTool, name, retry, func(ctx context.Context, _ string) (string, error) { return h(ctx) })
}

func agentOf(retry core.RetryConfig, h handler) *definition {
	return define(record.KindAgent, "a", retry, func(ctx context.Context, _ string) (string, error) { return h(ctx) })
}

func execute(ctx context.Context, d *definition) (string, error) {
	return d.Event().Execute(ctx, "in")
}

// run opens the stored run, runs the program in it, and closes the run.
func run(t *testing.T, s snapshot.Store, p body, options ...state.Option) (string, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, runID, options...)
	require.NoError(t, err)
	out, err := p(st.Context(t.Context()))
	require.NoError(t, st.Close())
	return out, err
}

// killed returns a store with the run in the state that it would have if its process were killed
// now, or before the first record that keep rejects.
func killed(t *testing.T, s snapshot.Store, keep func(record.Record) bool) snapshot.Store {
	t.Helper()
	loaded := testkit.LoadRun(t, s, runID)
	left := memstore.New()
	journal, err := left.Open(t.Context(), runID, snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	for _, r := range loaded.Records {
		if !keep(r) {
			break
		}
		require.NoError(t, journal.Append(r))
	}
	require.NoError(t, journal.Close(t.Context(), snapshot.End{Status: snapshot.StatusRunning}))
	return left
}

func everyRecord(record.Record) bool { return true }

// requireSameAfterKill runs the program to its end. It then resumes a copy of the run as it was
// when the program first called kill. Both must have the same output.
func requireSameAfterKill(t *testing.T, p func(ctx context.Context, kill func()) (string, error)) {
	t.Helper()
	s := memstore.New()
	var left snapshot.Store
	kill := func() {
		if left == nil {
			left = killed(t, s, everyRecord)
		}
	}
	again := func(ctx context.Context) (string, error) { return p(ctx, kill) }
	want, err := run(t, s, again)
	require.NoError(t, err)
	require.NotNil(t, left)
	got, err := run(t, left, again)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func askingFor(question string) handler {
	return func(ctx context.Context) (string, error) { return core.Await[string](ctx, question) }
}

func questions(t *testing.T, s snapshot.Store) []string {
	t.Helper()
	open, err := state.Questions(t.Context(), s, runID)
	require.NoError(t, err)
	var texts []string
	for _, q := range open {
		texts = append(texts, q.Text)
	}
	return texts
}

// answerAll answers every open question with the question's text.
func answerAll(t *testing.T, s snapshot.Store) {
	t.Helper()
	open, err := state.Questions(t.Context(), s, runID)
	require.NoError(t, err)
	for _, q := range open {
		require.NoError(t, state.Answer(t.Context(), s, runID, q.ID, "", "to "+q.Text))
	}
}

func TestAnswerToAPreconditionIsNotUsedForTheHandler(t *testing.T) {
	for name, retry := range map[string]core.RetryConfig{"first attempt": tryOnce, "second attempt": retryAtOnce} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			pay := func(ctx context.Context) (string, error) {
				return execute(ctx, toolOf("pay", retry, func(ctx context.Context) (string, error) {
					if retry.MaxAttempts != 1 && core.ScopeOf(ctx).Attempt() == 0 {
						return beBusy(ctx)
					}
					return askingFor("which account?")(ctx)
				}).Require(func(ctx context.Context, _ string) error {
					_, err := askingFor("may I pay?")(ctx)
					return err
				}))
			}
			run(t, s, pay)
			require.Equal(t, []string{"may I pay?"}, questions(t, s))
			answerAll(t, s)
			run(t, s, pay)
			require.Equal(t, []string{"which account?"}, questions(t, s))
			answerAll(t, s)
			out, err := run(t, s, pay)
			require.NoError(t, err)
			assert.Equal(t, "to which account?", out)
		})
	}
}

func TestAnswersOfBranchesStayWithTheirBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		first := 1
		p := func(ctx context.Context) (string, error) {
			branch := func(i int) handler {
				return func(ctx context.Context) (string, error) {
					if i != first {
						<-time.After(time.Millisecond)
					}
					return askingFor(fmt.Sprint("delete ", i, "?"))(ctx)
				}
			}
			out, err := actors.Parallel(ctx, actors.Group{Name: "g"}, branch(1), branch(2))
			return strings.Join(out, ","), err
		}
		agent := func(ctx context.Context) (string, error) { return execute(ctx, agentOf(tryOnce, p)) }
		run(t, s, agent)
		require.Len(t, questions(t, s), 2)
		answerAll(t, s)
		first = 2
		out, err := run(t, s, agent)
		require.NoError(t, err)
		assert.Equal(t, "to delete 1?,to delete 2?", out)
	})
}

func TestCallsOfAPreconditionAreNotThoseOfTheHandler(t *testing.T) {
	look := define(record.KindTool, "look", tryOnce, func(_ context.Context, in string) (string, error) { return "seen " + in, nil })
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			out, err := look.Event().Execute(ctx, "handler")
			kill()
			return out, err
		}).Require(func(ctx context.Context, _ string) error {
			_, err := look.Event().Execute(ctx, "precondition")
			return err
		}))
	})
}

func TestCallOfAnInterruptedToolIsNotThatOfItsPrecondition(t *testing.T) {
	s := memstore.New()
	stop, charged := true, false
	bank := define(record.KindTool, "bank", tryOnce, func(_ context.Context, in string) (string, error) {
		charged = charged || in == "charge"
		return in, nil
	})
	pay := toolOf("pay", tryOnce, func(ctx context.Context) (string, error) {
		if stop {
			interrupt(state.From(ctx))
			return "", ctx.Err()
		}
		return bank.Event().Execute(ctx, "charge")
	}).Require(func(ctx context.Context, _ string) error {
		_, err := bank.Event().Execute(ctx, "balance")
		return err
	})
	p := func(ctx context.Context) (string, error) { return execute(ctx, pay) }
	run(t, s, p)
	stop = false
	out, err := run(t, s, p)
	require.NoError(t, err)
	assert.Equal(t, "charge", out)
	assert.True(t, charged)
}

func TestResumedCallHeedsAnInterruptBeforeIt(t *testing.T) {
	s := memstore.New()
	ran := 0
	p := func(ctx context.Context) (string, error) {
		return execute(ctx, toolOf("t", retryAtOnce, func(ctx context.Context) (string, error) {
			ran++
			interrupt(state.From(ctx))
			return beBusy(ctx)
		}))
	}
	run(t, s, p)
	for range 10 {
		_, err := run(t, s, func(ctx context.Context) (string, error) {
			interrupt(state.From(ctx))
			return p(ctx)
		})
		requireInterruptedByOps(t, err)
	}
	assert.Equal(t, 1, ran)
}

func TestResumedCallHeedsItsCancelledContext(t *testing.T) {
	s := memstore.New()
	ran := 0
	busy := toolOf("t", retryAtOnce, func(ctx context.Context) (string, error) { ran++; return beBusy(ctx) })
	run(t, s, func(ctx context.Context) (string, error) { return execute(ctx, busy) })
	left := killed(t, s, func(r record.Record) bool { return r.Seq <= 5 })
	ran = 0
	_, err := run(t, left, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return execute(ctx, busy)
	})
	require.Error(t, err)
	assert.Zero(t, ran)
}

func TestStrictReplayOfAnEmptyForkExecutesNothing(t *testing.T) {
	s := memstore.New()
	ran := 0
	pay := toolOf("pay", tryOnce, func(context.Context) (string, error) { ran++; return "", nil })
	run(t, s, func(ctx context.Context) (string, error) { return execute(ctx, pay) })
	at, err := record.ParseAddress("pay")
	require.NoError(t, err)
	require.NoError(t, state.Fork(t.Context(), s, runID, at, "fork", state.ForkOptions{}))
	st, err := state.Replay(t.Context(), s, "fork")
	require.NoError(t, err)
	defer st.Close()
	_, err = execute(st.Context(t.Context()), pay)
	require.ErrorIs(t, err, core.ErrNotRecorded)
	require.ErrorContains(t, err, "pay: core: the call has no recorded outcome")
	assert.Equal(t, 1, ran)
}

func TestRetryTimeoutThatIsOverAfterAResumeNamesNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		busy := func(limit time.Duration) body {
			cfg := core.RetryConfig{Jitter: core.NoJitter, InitialDelay: time.Minute, RetryTimeout: limit}
			return func(ctx context.Context) (string, error) { return execute(ctx, toolOf("t", cfg, beBusy)) }
		}
		_, err := run(t, s, func(ctx context.Context) (string, error) {
			time.AfterFunc(10*time.Second, func() { interrupt(state.From(ctx)) })
			return busy(time.Hour)(ctx)
		})
		requireInterruptedByOps(t, err)
		_, err = run(t, s, busy(30*time.Second))
		var failed *core.CallError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, record.ReasonRetryTimeout, failed.Reason)
		assert.Equal(t, "RetryTimeout of 30s is over", failed.Detail)
	})
}

// requireReplayedAtOnce replays a call of the agent and checks that the replay does not wait.
func requireReplayedAtOnce(t *testing.T, s snapshot.Store, agent *definition) {
	t.Helper()
	st, err := state.Replay(t.Context(), s, runID)
	require.NoError(t, err)
	defer st.Close()
	begin := time.Now()
	_, err = execute(st.Context(t.Context()), agent)
	require.Error(t, err)
	assert.Zero(t, time.Since(begin))
}

func TestStrictReplayWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		agent := agentOf(retryHourly, beBusy)
		run(t, s, func(ctx context.Context) (string, error) {
			time.AfterFunc(time.Minute, func() { interrupt(state.From(ctx)) })
			return execute(ctx, agent)
		})
		requireReplayedAtOnce(t, s, agent)
	})
}

func TestStrictReplayDoesNotRetryWhatIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		retry := retryHourly
		retry.RetryOn = []core.Matcher{core.MatchAny()}
		agent := agentOf(retry, func(ctx context.Context) (string, error) {
			return execute(ctx, toolOf("t", tryOnce, succeed))
		})
		run(t, s, func(ctx context.Context) (string, error) { return execute(ctx, agent) })
		left := killed(t, s, func(r record.Record) bool { return r.Kind != record.KindTool })
		requireReplayedAtOnce(t, left, agent)
	})
}

func TestValidateOfUnchangedCodeWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		retry := core.RetryConfig{MaxAttempts: 10, InitialDelay: 10 * time.Minute, MaxDelay: time.Hour, RetryTimeout: 25 * time.Minute, Jitter: core.NoJitter}
		agent := agentOf(retry, beBusy)
		p := func(ctx context.Context) (string, error) { return execute(ctx, agent) }
		run(t, s, p)
		begin := time.Now()
		differences, err := state.Validate(t.Context(), s, runID, func(ctx context.Context) error {
			_, err := p(ctx)
			return err
		})
		require.NoError(t, err)
		assert.Empty(t, differences)
		assert.Zero(t, time.Since(begin))
	})
}

func TestRunOpenedWithoutACallKeepsItsStatus(t *testing.T) {
	for want, h := range map[snapshot.Status]handler{
		snapshot.StatusFailed: refuse,
		snapshot.StatusPaused: askingFor("?"),
		snapshot.StatusInterrupted: func(ctx context.Context) (string, error) {
			interrupt(state.From(ctx))
			return "", ctx.Err()
		},
	} {
		s := memstore.New()
		nothing := func(context.Context) (string, error) { return "", nil }
		for _, p := range []body{func(ctx context.Context) (string, error) { return execute(ctx, toolOf("t", tryOnce, h)) }, nothing} {
			run(t, s, p)
			page, err := s.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			require.Len(t, page.Runs, 1)
			assert.Equal(t, want, page.Runs[0].Status)
		}
	}
}

func TestRerunOfAFailedCallHasABudgetOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var left snapshot.Store
		broken := true
		retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: 10 * time.Second, MaxDelay: time.Minute, RetryTimeout: 20 * time.Second, Jitter: core.NoJitter}
		p := func(ctx context.Context) (string, error) {
			return execute(ctx, toolOf("t", retry, func(ctx context.Context) (string, error) {
				if !broken && left == nil {
					left = killed(t, s, everyRecord)
				}
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(5 * time.Second):
				}
				if broken {
					return beBusy(ctx)
				}
				return "ok", nil
			}))
		}
		_, err := run(t, s, p)
		require.Error(t, err)
		broken = false
		run(t, s, p, state.WithRerunFailed())
		require.NotNil(t, left)
		out, err := run(t, left, p)
		require.NoError(t, err)
		assert.Equal(t, "ok", out)
	})
}

func TestRerunRecallsWhatSucceededInTheFailedAttempt(t *testing.T) {
	s := memstore.New()
	broken := true
	var ran []string
	leaf := func(name string, h handler) *definition {
		return toolOf(name, tryOnce, func(ctx context.Context) (string, error) {
			ran = append(ran, core.ScopeOf(ctx).Address().String())
			return h(ctx)
		})
	}
	retry := core.RetryConfig{InitialDelay: core.NoDelay, MaxAttempts: 2, RetryOn: []core.Matcher{core.MatchAny()}}
	p := func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(retry, func(ctx context.Context) (string, error) {
			execute(ctx, leaf("good", succeed))
			if broken {
				return execute(ctx, leaf("bad", func(context.Context) (string, error) { return "", errors.New("broken") }))
			}
			return execute(ctx, leaf("bad", succeed))
		}))
	}
	run(t, s, p)
	broken, ran = false, nil
	_, err := run(t, s, p, state.WithRerunFailed())
	require.NoError(t, err)
	assert.Equal(t, []string{"a@2/bad"}, ran)
}

func TestCrashesDoNotCountAgainstMaxAttempts(t *testing.T) {
	var s snapshot.Store = memstore.New()
	ran := 0
	for range 12 {
		left := s
		run(t, s, func(ctx context.Context) (string, error) {
			return execute(ctx, agentOf(retryAtOnce, func(ctx context.Context) (string, error) {
				return execute(ctx, toolOf("t", retryAtOnce, func(context.Context) (string, error) {
					ran++
					left = killed(t, s, everyRecord)
					return "", nil
				}))
			}))
		})
		s = left
	}
	assert.Equal(t, 10, ran, "the run is interrupted after five losses, and each resume allows five more")
}

func TestLastErrorIsKeptWhenAResumedWaitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		busy := toolOf("t", retryHourly, beBusy)
		run(t, s, func(ctx context.Context) (string, error) {
			time.AfterFunc(time.Minute, func() { interrupt(state.From(ctx)) })
			return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) { return execute(ctx, busy) }))
		})
		run(t, s, func(ctx context.Context) (string, error) {
			return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Minute, cancel)
				_, err := execute(ctx, busy)
				assert.True(t, core.IsSuspension(err) || strings.Contains(err.Error(), "busy"), "%v", err)
				return "", err
			}))
		})
	})
}

func TestRunContinuesWithTheOriginalCode(t *testing.T) {
	for name, options := range map[string][]state.Option{"divergence": {state.WithDivergence(state.DivergenceFail)}, "output of another type": nil} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			stop, changed := true, false
			p := func(ctx context.Context) (string, error) {
				return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
					in := "1"
					if changed && options != nil {
						in = "2"
					}
					_, err := toolOf("t", tryOnce, succeed).Event().Execute(ctx, in)
					if changed && options == nil {
						var d *core.Definition[string, int]
						d, err = core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "t"}, func(context.Context, string) (int, error) { return 1, nil })
						require.NoError(t, err)
						_, err = d.Event().Execute(ctx, in)
					}
					if err == nil && stop {
						interrupt(state.From(ctx))
						err = ctx.Err()
					}
					return "ok", err
				}))
			}
			run(t, s, p)
			stop, changed = false, true
			run(t, s, p, options...)
			changed = false
			out, err := run(t, s, p)
			require.NoError(t, err)
			assert.Equal(t, "ok", out)
		})
	}
}

// nosyError is an error that calls a method of its run when its text is requested.
type nosyError struct{ st *state.ExecutionState }

func (e nosyError) Error() string { return fmt.Sprint("failed, records: ", e.st.Report().Records) }

func TestErrorAndPublisherMayUseTheirRun(t *testing.T) {
	files, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	for _, s := range []snapshot.Store{memstore.New(), files} {
		var st *state.ExecutionState
		st, err := state.Open(t.Context(), s, runID, state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if r.Kind == record.KindTool && r.IsOutcome() {
				st.Log(0, "published", nil)
			}
		})))
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := execute(st.Context(t.Context()), toolOf("t", tryOnce, func(context.Context) (string, error) {
				return "", nosyError{st}
			}))
			done <- err
		}()
		select {
		case err := <-done:
			require.ErrorContains(t, err, "failed, records: ")
		case <-time.After(10 * time.Second):
			require.Fail(t, "deadlock")
		}
		require.NoError(t, st.Close())
	}
}

// onFire is a store whose syncs all fail once all callers have begun a sync.
type onFire struct {
	snapshot.Store
	syncs *sync.WaitGroup
}

type journalOnFire struct {
	snapshot.Journal
	syncs *sync.WaitGroup
}

func (s onFire) Open(ctx context.Context, id string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, id, o)
	return journalOnFire{j, s.syncs}, err
}

func (j journalOnFire) Sync(context.Context, uint64) error {
	j.syncs.Done()
	j.syncs.Wait()
	return errors.New("the disk has failed")
}

func TestNoParallelCallSucceedsUnstored(t *testing.T) {
	const calls = 100
	var syncs, running, done sync.WaitGroup
	syncs.Add(calls)
	running.Add(calls)
	st, err := state.Open(t.Context(), onFire{memstore.New(), &syncs}, runID)
	require.NoError(t, err)
	tool := toolOf("t", tryOnce, func(context.Context) (string, error) {
		running.Done()
		running.Wait()
		return "", nil
	})
	for range calls {
		done.Go(func() {
			_, err := execute(st.Context(t.Context()), tool)
			assert.Error(t, err)
		})
	}
	done.Wait()
	st.Close()
}
