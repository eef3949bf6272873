package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/policy/ratelimit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) { process.Main(m, process.Programs{"ask": ask}) }

// Fifty agents in three processes call a service that does not report its limits. No request is
// refused, and at least 90% of the limit is used.
func TestLimitersThatShareALimitStayBelowItAndUseIt(t *testing.T) {
	for _, s := range []*service{
		{requests: 120, algorithm: "fixed"},
		{requests: 120, algorithm: "sliding"},
		{requests: 60, algorithm: "fixed", takes: 10 * time.Second},
		{tokens: 60_000, each: 500, algorithm: "fixed", takes: 3 * time.Second},
		{tokens: 60_000, each: 500, algorithm: "sliding", takes: 3 * time.Second},
	} {
		s.window = time.Minute
		t.Run(fmt.Sprintf("%s %v requests %v tokens in %v", s.algorithm, s.requests, s.tokens, s.takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { askInThreeProcesses(t, s) })
		})
	}
}

func askInThreeProcesses(t *testing.T, s *service) {
	const minutes = 6
	accounts := budget.NewMemory()
	var models []actors.LLM
	for range 3 {
		l := ratelimit.New(ratelimit.Options{
			Name: "service", Requests: int(s.requests), Tokens: int(s.tokens), Storage: accounts,
			EstimateTokens: func([]byte) int { return s.each + s.each/10 },
		})
		models = append(models, s.llm(l, patient))
	}
	var all sync.WaitGroup
	var runs []*state.ExecutionState
	for i := range 50 {
		st := state.New()
		runs = append(runs, st)
		all.Go(func() {
			time.Sleep(time.Duration(i) * 700 * time.Millisecond) //nolint:forbidigo // on the fake clock
			for {
				if _, err := models[i%3].Call(st.Context(t.Context()), question); err != nil {
					assert.ErrorIs(t, err, core.ErrInterrupted)
					return
				}
			}
		})
	}
	time.Sleep(minutes * time.Minute) //nolint:forbidigo // on the fake clock
	for _, st := range runs {
		st.Interrupt(snapshot.Stop{})
	}
	all.Wait()
	for _, st := range runs {
		require.NoError(t, st.Close())
	}
	assert.Empty(t, s.refused)
	requests, tokens, last := 0.0, 0.0, s.granted[len(s.granted)-1].at
	for _, g := range s.granted {
		if last.Sub(g.at) > 5*time.Second { // leave out the last burst, whose rate depends on the period after it
			requests, tokens = requests+1, tokens+g.tokens
		}
	}
	passed := last.Sub(s.granted[0].at).Minutes()
	assert.Greater(t, passed, float64(minutes-2))
	assert.GreaterOrEqual(t, requests/passed, 0.9*s.requests)
	assert.GreaterOrEqual(t, tokens/passed, 0.9*s.tokens)
	t.Logf("%.1f requests and %.0f tokens a minute", requests/passed, tokens/passed)
}

// failing is a storage that returns errors while fails is set.
type failing struct {
	budget.Storage
	fails atomic.Bool
}

func (f *failing) Add(ctx context.Context, account string, a budget.Amount) (budget.Amount, error) {
	if f.fails.Load() {
		return budget.Amount{}, errors.New("the disk is full")
	}
	return f.Storage.Add(ctx, account, a)
}

// lines collects the lines of the log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Publish(r record.Record) {
	if r.Kind == record.KindLog {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, r.Detail.Message)
	}
}

// Calls wait while the storage fails, and say why. None is lost, and none exceeds the
// limit afterwards.
func TestCallsWaitWhileTheStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := &failing{Storage: budget.NewMemory()}
		accounts.fails.Store(true)
		s := &service{tokens: 1000, each: 100, window: time.Minute, algorithm: "sliding"}
		l := ratelimit.New(ratelimit.Options{Name: "service", Tokens: 1000, Storage: accounts, EstimateTokens: func([]byte) int { return 50 }})
		llm := s.llm(l)
		var log lines
		st, ctx := testkit.Run(t, state.WithPublisher(&log))
		_ = st
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := llm.Call(ctx, question)
				assert.NoError(t, err)
			})
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // on the fake clock
		assert.Empty(t, s.granted)
		accounts.fails.Store(false)
		all.Wait()
		assert.Len(t, s.granted, 5)
		assert.Less(t, time.Since(began), 50*time.Second)
		assert.True(t, slices.ContainsFunc(log.all, func(line string) bool {
			return line == `waits 1s for the "service" limit of requests (the storage failed: the disk is full)`
		}), "%q", log.all)
		assert.Less(t, len(log.all), 60)

		// The storage fails when the actual tokens are to be added. They are added later.
		other := ratelimit.New(ratelimit.Options{Name: "service", Tokens: 1000, Storage: accounts.Storage, EstimateTokens: func([]byte) int { return 50 }})
		time.Sleep(5 * time.Minute) //nolint:forbidigo // on the fake clock
		s.takes = time.Second
		all.Go(func() {
			_, err := llm.Call(ctx, question)
			assert.NoError(t, err)
		})
		synctest.Wait()
		accounts.fails.Store(true)
		all.Wait()
		accounts.fails.Store(false)
		s.takes = 0
		for range 9 {
			_, err := llm.Call(ctx, question)
			require.NoError(t, err)
		}
		_, err := s.llm(other).Call(ctx, question)
		require.NoError(t, err)
		assert.Empty(t, s.refused)
	})
}

// hanging is a storage that, while hangs is set, does not return before the context is done.
type hanging struct {
	budget.Storage
	hangs atomic.Bool
}

func (h *hanging) Add(ctx context.Context, account string, a budget.Amount) (budget.Amount, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return budget.Amount{}, context.Cause(ctx)
	}
	return h.Storage.Add(ctx, account, a)
}

// The actual tokens of the two calls cannot be added while the storage hangs. They are added later.
func TestAnswersAreNotLostWhenTheStorageHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := &hanging{Storage: budget.NewMemory()}
		s := &service{tokens: 1000, each: 400, window: time.Minute, algorithm: "sliding", takes: time.Second}
		l := ratelimit.New(ratelimit.Options{Name: "service", Tokens: 1000, Storage: accounts, EstimateTokens: func([]byte) int { return 100 }})
		other := ratelimit.New(ratelimit.Options{Name: "service", Tokens: 1000, Storage: accounts, EstimateTokens: func([]byte) int { return 200 }})
		_, ctx := testkit.Run(t)
		time.AfterFunc(time.Second/2, func() { accounts.hangs.Store(true) })
		time.AfterFunc(25*time.Second, func() { accounts.hangs.Store(false) })
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := s.llm(l, actors.WithAttemptTimeout(8*time.Second)).Call(ctx, question)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Len(t, s.granted, 2, "no call is made again")
		s.takes = 0
		time.Sleep(15 * time.Second) //nolint:forbidigo // on the fake clock
		s.each = 100
		_, err := s.llm(l).Call(ctx, question)
		require.NoError(t, err)
		s.each = 200
		_, err = s.llm(other).Call(ctx, question)
		require.NoError(t, err)
		assert.Empty(t, s.refused)
	})
}

func TestAWaitForASharedLimitCanBeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := budget.NewMemory()
		s := &service{requests: 1, window: time.Minute, algorithm: "sliding"}
		first := s.llm(ratelimit.New(ratelimit.Options{Name: "service", Requests: 1, Storage: accounts}))
		second := ratelimit.New(ratelimit.Options{Name: "service", Requests: 1, Storage: accounts})
		_, err := first.Call(t.Context(), question)
		require.NoError(t, err)
		st := state.New()
		time.AfterFunc(5*time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		began := time.Now()
		_, err = s.llm(second).Call(st.Context(t.Context()), question)
		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Zero(t, second.Waiting())
		require.NoError(t, st.Close())
		_, err = s.llm(second).Call(t.Context(), question)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(began), 65*time.Second)
		assert.Empty(t, s.refused)
	})
}

// ask makes twenty calls. It gives up after five seconds if a call would have to wait longer.
func ask(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	accounts, err := budget.OpenDir(args[0])
	if err != nil {
		return err
	}
	l := ratelimit.New(ratelimit.Options{Name: "service", Requests: 30, Storage: accounts})
	llm := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[1], nil)
		if err != nil {
			return actors.Response{}, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return actors.Response{}, err
		}
		return actors.Response{Message: actors.Assistant("yes")}, resp.Body.Close()
	}, actors.WithInterceptors(l.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	for range 20 {
		if _, err := llm.Call(ctx, question); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return accounts.Close()
}

func TestProcessesShareALimitInADirectory(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	dir := t.TempDir()
	var all []*exec.Cmd
	for range 3 {
		cmd := process.Command(t, "ask", dir, server.URL)
		require.NoError(t, cmd.Start())
		all = append(all, cmd)
	}
	for _, cmd := range all {
		require.NoError(t, cmd.Wait())
	}
	assert.LessOrEqual(t, served.Load(), int64(30))
	assert.GreaterOrEqual(t, served.Load(), int64(27))
}
