package actors_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// log is a publisher without a lock. A run calls it from only one goroutine at a time, which the
// race detector checks.
type log struct{ records []record.Record }

func (l *log) Publish(r record.Record) { l.records = append(l.records, r) }

func TestAThousandGoroutinesShareARun(t *testing.T) {
	const callers = 1000
	published := new(log)
	st := state.New(state.WithPublisher(published))
	ctx := st.Context(t.Context())

	var calls atomic.Int64
	flaky := decorators.Tool("flaky", "", func(_ context.Context, in number) (int, error) {
		if calls.Add(1)%3 == 0 {
			return 0, core.Retryable(errBoom)
		}
		return in.N, nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay}))
	worker := decorators.Agent("worker", "", func(ctx context.Context, in number) (int, error) {
		if _, err := actors.Map(ctx, actors.Group{Name: "pair"}, flaky, upTo(2)); err != nil {
			return 0, err
		}
		return echo().Call(ctx, in)
	})
	boss := decorators.Agent("boss", "", func(ctx context.Context, _ number) (int, error) {
		var wg sync.WaitGroup
		for n := range callers {
			wg.Go(func() {
				if out, err := worker.Call(ctx, number{n}); err != nil || out != n {
					t.Errorf("call %d: %d, %v", n, out, err)
				}
			})
		}
		wg.Wait()
		return callers, nil
	})
	_, err := boss.Call(ctx, number{})
	require.NoError(t, err)
	require.NoError(t, st.Close())

	records := testkit.Records(t, st)
	require.Len(t, published.records, len(records))
	for i, r := range records {
		require.EqualValues(t, i+1, r.Seq)
		require.Equal(t, r.Seq, published.records[i].Seq)
		require.Equal(t, r.Address, published.records[i].Address)
	}

	began, ended := map[string]int{}, map[string]int{}
	for _, r := range records {
		switch {
		case r.IsOutcome():
			ended[r.Address.String()]++
		case r.Kind.IsCall() && r.Status == record.StatusStarted && r.Attempt == 0:
			began[r.Address.String()]++
		}
	}
	assert.Len(t, began, 1+5*callers)
	assert.Equal(t, began, ended)
	for n := 1; n <= callers; n++ {
		path := fmt.Sprintf("boss/worker#%d", n)
		if n == 1 {
			path = "boss/worker"
		}
		for _, below := range []string{"", "/group:pair", "/group:pair/1", "/group:pair/2", "/echo"} {
			require.Equal(t, 1, began[path+below], path+below)
		}
	}
	assert.Equal(t, snapshot.StatusCompleted, st.Status())
}

func TestAnAgentIsForManyGoroutines(t *testing.T) {
	st, ctx := testkit.Run(t)
	llm := decorators.LLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == actors.RoleTool {
			return says(last.Text), nil
		}
		return asks(call("echo", last.Text)), nil
	})
	agent := actors.NewAgent("assistant", llm, actors.WithTools(echo()), actors.WithInstructions("Call echo."))
	prompts := make([]actors.Prompt, 200)
	for i := range prompts {
		prompts[i] = actors.Ask(fmt.Sprintf(`{"n":%d}`, i))
	}
	answers, err := actors.Map(ctx, actors.Group{Name: "g"}, agent, prompts)

	require.NoError(t, err)
	for i, answer := range answers {
		assert.Equal(t, fmt.Sprint(i), answer.Text)
	}
	assert.Len(t, addresses(t, st), 1+4*len(prompts))
}
