package state_test

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Tests of calls that wait for a decision instead of running again.

type receipt struct {
	ID    int  `json:"id"`
	Again bool `json:"again"`
}

// doubtful is a call whose first attempt is stopped while it runs.
type doubtful struct {
	ran  int
	stop func(ctx context.Context) // stops the run in the attempt; nil lets the attempt end
}

func (d *doubtful) pay(ctx context.Context) (receipt, error) {
	d.ran++
	if d.stop != nil {
		d.stop(ctx)
		return receipt{}, ctx.Err()
	}
	return receipt{ID: 1, Again: d.ran > 1}, nil
}

// calls returns a call of each kind that can be in doubt.
func (d *doubtful) calls() map[string]func(context.Context) (receipt, error) {
	tool := decorators.Tool("pay", "", func(ctx context.Context, _ struct{}) (receipt, error) { return d.pay(ctx) },
		actors.WithInDoubt(core.InDoubtAsk), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	llm := decorators.LLM("pay", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		r, err := d.pay(ctx)
		return actors.Response{Usage: core.Usage{InputTokens: r.ID}}, err
	}, actors.WithInDoubt(core.InDoubtAsk))
	return map[string]func(context.Context) (receipt, error){
		"tool": func(ctx context.Context) (receipt, error) { return tool.Call(ctx, struct{}{}) },
		"llm": func(ctx context.Context) (receipt, error) {
			out, err := llm.Call(ctx, actors.Request{})
			return receipt{ID: out.Usage.InputTokens, Again: d.ran > 1}, err
		},
		"step": func(ctx context.Context) (receipt, error) {
			return core.Step(ctx, "pay", d.pay, core.StepInDoubt(core.InDoubtAsk))
		},
	}
}

// around returns a program in which an agent makes the call and stores its result.
func around(call func(context.Context) (receipt, error), got *receipt, failed *error) body {
	return func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			*got, *failed = call(ctx)
			return "", *failed
		}))
	}
}

func doubtOf(t *testing.T, s snapshot.Store) core.Question {
	t.Helper()
	open, err := state.Questions(t.Context(), s, runID)
	require.NoError(t, err)
	require.Len(t, open, 1)
	return open[0]
}

func answerDoubt(t *testing.T, s snapshot.Store, value any) {
	t.Helper()
	require.NoError(t, state.Answer(t.Context(), s, runID, doubtOf(t, s).ID, "", value))
}

// stopped runs the program until its call is stopped in the way that how specifies, and returns a
// store with what is left of the run.
func (d *doubtful) stopped(t *testing.T, how string, p body) snapshot.Store {
	t.Helper()
	s := memstore.New()
	var left snapshot.Store
	d.stop = func(ctx context.Context) {
		left = killed(t, s, everyRecord)
		interrupt(state.From(ctx))
	}
	_, err := run(t, s, p)
	requireInterruptedByOps(t, err)
	d.stop = nil
	if how == "crash" {
		return left
	}
	return s
}

func eachDoubt(t *testing.T, f func(t *testing.T, d *doubtful, s snapshot.Store, again func() (receipt, error))) {
	for _, how := range []string{"crash", "interrupt"} {
		for _, kind := range []string{"tool", "llm", "step"} {
			t.Run(how+" of "+kind, func(t *testing.T) {
				d := new(doubtful)
				var got receipt
				var failed error
				p := around(d.calls()[kind], &got, &failed)
				s := d.stopped(t, how, p)
				f(t, d, s, func() (receipt, error) {
					run(t, s, p)
					return got, failed
				})
			})
		}
	}
}

func TestCallInDoubtWaitsForSomebodyToDecide(t *testing.T) {
	eachDoubt(t, func(t *testing.T, d *doubtful, s snapshot.Store, again func() (receipt, error)) {
		for range 2 {
			_, err := again()
			require.ErrorIs(t, err, core.ErrAwaiting)
			assert.Equal(t, snapshot.StatusPaused, statusOf(t, s))
			q := doubtOf(t, s)
			assert.Equal(t, record.AwaitDecision, q.Awaits)
			assert.True(t, strings.HasSuffix(q.ID, "pay?in-doubt1"), q.ID)
			assert.Contains(t, q.Text, `"pay" has begun (attempt 1)`)
		}
		assert.Equal(t, 1, d.ran)
		answerDoubt(t, s, state.InDoubtRunAgain())
		got, err := again()
		require.NoError(t, err)
		assert.Equal(t, receipt{1, true}, got)
		assert.Equal(t, 2, d.ran)
		_, err = again()
		require.NoError(t, err)
		assert.Equal(t, 2, d.ran)
	})
}

func TestCallInDoubtFailsAsAnswered(t *testing.T) {
	eachDoubt(t, func(t *testing.T, d *doubtful, s snapshot.Store, again func() (receipt, error)) {
		again()
		answerDoubt(t, s, state.InDoubtFailed("the bank knows nothing of it"))
		for range 2 {
			_, err := again()
			require.ErrorIs(t, err, core.ErrInDoubt)
			require.ErrorContains(t, err, "the bank knows nothing of it")
			var failed *core.CallError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, 1, failed.Attempts)
		}
		assert.Equal(t, 1, d.ran)
		assert.Equal(t, snapshot.StatusFailed, statusOf(t, s))
	})
}

func TestCallInDoubtFailsIfItsActorSaysSo(t *testing.T) {
	for _, how := range []string{"crash", "interrupt"} {
		t.Run(how, func(t *testing.T) {
			d := new(doubtful)
			pay := decorators.Tool("pay", "", func(ctx context.Context, _ struct{}) (receipt, error) { return d.pay(ctx) },
				actors.WithInDoubt(core.InDoubtFail))
			var got receipt
			var failed error
			p := around(func(ctx context.Context) (receipt, error) { return pay.Call(ctx, struct{}{}) }, &got, &failed)
			s := d.stopped(t, how, p)
			for range 2 {
				run(t, s, p)
				require.ErrorIs(t, failed, core.ErrInDoubt)
				assert.Equal(t, 1, d.ran)
			}
			assert.Equal(t, snapshot.StatusFailed, statusOf(t, s))
		})
	}
}

func TestFailureInDoubtIsNeverCalledPermanent(t *testing.T) {
	for _, retry := range []core.RetryConfig{tryOnce, retryAtOnce} {
		d := new(doubtful)
		pay := decorators.Tool("pay", "", func(ctx context.Context, _ struct{}) (receipt, error) { return d.pay(ctx) },
			actors.WithInDoubt(core.InDoubtFail))
		p := func(ctx context.Context) (string, error) {
			return execute(ctx, agentOf(retry, func(ctx context.Context) (string, error) {
				_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, func(ctx context.Context) (receipt, error) { return pay.Call(ctx, struct{}{}) })
				return "", err
			}))
		}
		s := d.stopped(t, "crash", p)
		var out bytes.Buffer
		for range 2 { // when the call fails, and when it is recalled
			_, err := run(t, s, p, state.WithPublisher(printer.New(&out)))
			require.ErrorIs(t, err, core.ErrInDoubt)
			require.NotErrorIs(t, err, core.ErrPermanent)
			assert.NotContains(t, err.Error(), "permanent")
		}
		assert.NotContains(t, out.String(), "permanent")
		assert.NotContains(t, out.String(), "core.Retryable", "the console does not suggest a retry")
	}
}

func TestReplayOfACallInDoubtDoesNotCallItPermanent(t *testing.T) {
	d := new(doubtful)
	var got receipt
	var failed error
	p := around(d.calls()["tool"], &got, &failed)
	s := d.stopped(t, "crash", p)
	st, err := state.Replay(t.Context(), s, runID)
	require.NoError(t, err)
	defer st.Close()
	_, err = p(st.Context(t.Context()))
	require.ErrorIs(t, err, core.ErrNotRecorded)
	assert.NotContains(t, err.Error(), "permanent")
}

// atBank returns a stored run with a tool in doubt, and a function that resumes it.
func atBank(t *testing.T, out *receipt) (s snapshot.Store, again func() error) {
	t.Helper()
	d := new(doubtful)
	var failed error
	p := around(d.calls()["tool"], out, &failed)
	s = d.stopped(t, "crash", p)
	return s, func() error {
		run(t, s, p)
		assert.Equal(t, 1, d.ran)
		return failed
	}
}

func TestCallInDoubtCompletesWithTheOutputOfTheAnswer(t *testing.T) {
	for name, value := range map[string]any{
		"in Go":     state.InDoubtCompleted(receipt{ID: 7}),
		"from JSON": map[string]any{"decision": "completed", "output": map[string]any{"id": int64(7), "again": false}},
	} {
		t.Run(name, func(t *testing.T) {
			var got receipt
			s, again := atBank(t, &got)
			require.ErrorIs(t, again(), core.ErrAwaiting)
			answerDoubt(t, s, value)
			for range 2 {
				require.NoError(t, again())
				assert.Equal(t, receipt{ID: 7}, got)
			}
			loaded := testkit.LoadRun(t, s, runID)
			told := false
			for _, r := range loaded.Records {
				told = told || r.Status == record.StatusCompleted && r.Message() == "as answered to a/pay?in-doubt1"
			}
			assert.True(t, told, "the record says that its output comes from the answer")
		})
	}
}

func TestAnswerAboutACallInDoubtThatDoesNotFitIsAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"another type": {state.InDoubtCompleted("paid"), `the output does not fit "pay": got a string, want an object`},
		"null":         {state.InDoubtCompleted(nil), "got null, want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			var got receipt
			s, again := atBank(t, &got)
			again()
			before := doubtOf(t, s)
			require.ErrorIs(t, state.Answer(t.Context(), s, runID, before.ID, "", c.value), core.ErrUnfit)
			assert.Equal(t, before, doubtOf(t, s), "nothing was recorded")
			encoded, err := record.Encode(c.value) // as if it had answered an older program's question
			require.NoError(t, err)
			require.NoError(t, s.Post(t.Context(), runID, snapshot.Message{Record: record.Record{
				Time: time.Now(), Kind: record.KindAnswer, Status: record.StatusRecorded, Name: before.ID, Detail: &record.Detail{Output: encoded},
			}}))
			require.ErrorIs(t, again(), core.ErrAwaiting)
			q := doubtOf(t, s)
			assert.Equal(t, before.ID, q.ID)
			assert.Contains(t, q.Refused, c.want)
			answerDoubt(t, s, state.InDoubtCompleted(receipt{ID: 7}))
			require.NoError(t, again())
			assert.Equal(t, receipt{ID: 7}, got)
		})
	}
}

// An answer without a decision is refused at once, so that a person can correct
// it.
func TestAnswerAboutACallInDoubtThatDecidesNothingIsRefused(t *testing.T) {
	var got receipt
	s, again := atBank(t, &got)
	again()
	for want, value := range map[string]any{
		`needs the "output"`: map[string]any{"decision": "completed"},
		`decision: got "", want one of "completed", "run_again", "failed"`: map[string]any{"output": 1},
		`decision: got "maybe", want one of`:                               map[string]any{"decision": "maybe"},
		`"mesage": unknown field; want one of "decision"`:                  map[string]any{"decision": "failed", "mesage": "x"},
		`got null, want an object such as {"decision": "run_again"}`:       nil,
		`got a string, want an object such as`:                             "run_again",
		`"1": unknown field; want one of "decision"`:                       map[int]int{1: 2},
	} {
		err := state.Answer(t.Context(), s, runID, doubtOf(t, s).ID, "", value)
		require.ErrorIs(t, err, core.ErrUnfit)
		require.ErrorContains(t, err, want)
	}
	answerDoubt(t, s, state.InDoubtCompleted(receipt{ID: 7}))
	require.NoError(t, again())
	assert.Equal(t, receipt{ID: 7}, got)
}

func TestLaterDoubtIsAnotherQuestion(t *testing.T) {
	d := new(doubtful)
	var got receipt
	var failed error
	p := around(d.calls()["tool"], &got, &failed)
	s := d.stopped(t, "crash", p)
	run(t, s, p)
	answerDoubt(t, s, state.InDoubtRunAgain())
	d.stop = func(ctx context.Context) { interrupt(state.From(ctx)) }
	run(t, s, p)
	d.stop = nil
	require.Equal(t, 2, d.ran)
	run(t, s, p)
	require.Equal(t, 2, d.ran, "the answer belongs to the first question")
	assert.Equal(t, "a/pay?in-doubt2", doubtOf(t, s).ID)
	answerDoubt(t, s, state.InDoubtCompleted(receipt{ID: 2}))
	run(t, s, p)
	require.NoError(t, failed)
	assert.Equal(t, receipt{ID: 2}, got)
}

func TestDoubtOutlivesAnInterruptBeforeItIsSettled(t *testing.T) {
	for name, policy := range map[string]core.InDoubtPolicy{"fail": core.InDoubtFail, "ask": core.InDoubtAsk} {
		t.Run(name, func(t *testing.T) {
			s, ran := memstore.New(), 0
			var left snapshot.Store
			d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: policy}, func(context.Context, string) (string, error) {
				ran++
				left = killed(t, s, everyRecord)
				return "", nil
			})
			require.NoError(t, err)
			p := func(ctx context.Context) (string, error) { return execute(ctx, d) }
			run(t, s, p)
			for range 2 {
				_, err = run(t, left, func(ctx context.Context) (string, error) {
					interrupt(state.From(ctx))
					return p(ctx)
				})
				requireInterruptedByOps(t, err)
			}
			_, err = run(t, left, p)
			if policy == core.InDoubtFail {
				require.ErrorIs(t, err, core.ErrInDoubt)
			} else {
				require.ErrorIs(t, err, core.ErrAwaiting)
			}
			assert.Equal(t, 1, ran)
		})
	}
}

func TestInterruptBeforeAResumedAttemptKeepsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ran := memstore.New(), 0
		tool := toolOf("t", retryHourly, func(ctx context.Context) (string, error) { ran++; return beBusy(ctx) })
		p := func(ctx context.Context) (string, error) { return execute(ctx, tool) }
		_, err := run(t, s, p)
		require.ErrorIs(t, err, core.ErrExhausted)
		left := killed(t, s, func(r record.Record) bool { return r.Status != record.StatusStarted || r.Attempt < 2 })
		run(t, left, func(ctx context.Context) (string, error) {
			interrupt(state.From(ctx))
			return p(ctx)
		})
		ran = 0
		begin := time.Now()
		_, err = run(t, left, p)
		require.ErrorContains(t, err, "exhausted after 3 attempts")
		assert.Equal(t, 1, ran, "two of three attempts were made before")
		assert.Zero(t, time.Since(begin))
	})
}

func TestSiblingsOfACallInDoubtFinishFirst(t *testing.T) {
	d := new(doubtful)
	pay := d.calls()["tool"]
	var sibling error
	p := func(ctx context.Context) (string, error) {
		_, err := actors.Parallel(ctx, actors.Group{Name: "g"},
			func(ctx context.Context) (string, error) { _, err := pay(ctx); return "", err },
			func(ctx context.Context) (string, error) {
				if d.stop != nil { // this branch has no outcome when the run stops
					<-ctx.Done()
					return "", ctx.Err()
				}
				_, sibling = execute(ctx, toolOf("other", tryOnce, succeed))
				return "", sibling
			})
		return "", err
	}
	s := d.stopped(t, "crash", p)
	sibling = errors.New("not made")
	_, err := run(t, s, p)
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, sibling)
	assert.Equal(t, "group:g/1/pay?in-doubt1", doubtOf(t, s).ID)
}

func TestLargeOutputOfAnAnswerIsAnArtifact(t *testing.T) {
	store := newArtifacts(t)
	large, ran := strings.Repeat("x", 100<<10), 0
	var left snapshot.Store
	s := memstore.New()
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "read", InDoubt: core.InDoubtAsk}, func(context.Context, string) (string, error) {
		ran++
		left = killed(t, s, everyRecord)
		return "", nil
	})
	require.NoError(t, err)
	p := func(ctx context.Context) (string, error) { return execute(ctx, d) }
	run(t, s, p)
	run(t, left, p)
	answerDoubt(t, left, state.InDoubtCompleted(large))
	for range 2 {
		out, err := run(t, left, p, state.WithArtifacts(store))
		require.NoError(t, err)
		assert.Equal(t, large, out)
	}
	assert.Equal(t, 1, store.puts)
	assert.Equal(t, 1, ran)
}

func TestUnknownPolicyForDoubtIsRefused(t *testing.T) {
	_, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtAsk + 1}, func(context.Context, string) (string, error) { return "", nil })
	require.ErrorContains(t, err, `Spec.InDoubt of "pay" is 4, want InDoubtDefault, InDoubtRetry, InDoubtFail or InDoubtAsk`)
	st := state.New()
	defer st.Close()
	_, err = core.Step(st.Context(t.Context()), "s", succeed, nil)
	require.ErrorContains(t, err, `step "s": an option is nil`)
}
