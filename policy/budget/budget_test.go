package budget_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

var (
	question = actors.Request{Messages: []actors.Message{actors.User("How are you?")}}
	once     = actors.WithRetry(core.RetryConfig{MaxAttempts: 1})
	each     = core.Usage{InputTokens: 80, OutputTokens: 20}
)

// A service answers calls and counts them.
type service struct {
	mu    sync.Mutex
	asked int
	takes time.Duration
	fail  error
	usage core.Usage
}

func (s *service) llm(b *budget.Budget, opts ...actors.Option) actors.LLM {
	opts = append([]actors.Option{actors.WithInterceptors(b.Interceptor()), once}, opts...)
	return actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		s.mu.Lock()
		s.asked++
		s.mu.Unlock()
		if err := testkit.Pause(ctx, s.takes); err != nil {
			return actors.Response{}, err
		}
		if s.fail != nil {
			return actors.Response{}, s.fail
		}
		return actors.Response{Message: actors.Assistant("yes"), Usage: s.usage}, nil
	}, opts...)
}

func newBudget(limit budget.Amount) *budget.Budget {
	return budget.New(budget.Options{Name: "small", Limit: limit, Price: perToken, EstimateTokens: hundred})
}

// hundred estimates that each call uses 100 tokens.
func hundred([]byte) (in, out int) { return 80, 20 }

// perToken is a price of 0.01 per token.
func perToken(_ string, u core.Usage) (float64, bool) { return float64(u.TotalTokens()) / 100, true }

func TestCallThatWouldExceedTheBudgetDoesNotBegin(t *testing.T) {
	for name, c := range map[string]struct {
		limit budget.Amount
		asked int
		why   string
	}{
		"calls":  {budget.Amount{Calls: 3}, 3, `"small" for "run": 3 of 3 calls are used`},
		"tokens": {budget.Amount{Tokens: 350}, 3, `"small" for "run": 300 of 350 tokens are used, and the call needs about 100`},
		"cost":   {budget.Amount{Cost: 3.5}, 3, `"small" for "run": 3 of the cost of 3.5 is used, and the call needs about 1`},
		"time":   {budget.Amount{Time: 30 * time.Second}, 3, `"small" for "run": 30s of 30s are used`},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				s := &service{usage: each, takes: 10 * time.Second}
				st := state.New(state.WithRunID("run"))
				var err error
				llm := s.llm(newBudget(c.limit))
				for range 10 {
					if _, err = llm.Call(st.Context(t.Context()), question); err != nil {
						break
					}
				}
				failed := testkit.Failed(t, err, record.ReasonBudget)
				require.ErrorIs(t, err, core.ErrBudget)
				assert.ErrorContains(t, failed, c.why)
				assert.Equal(t, c.asked, s.asked)
				records := testkit.Records(t, st)
				last := records[len(records)-1]
				assert.Equal(t, record.ReasonBudget, last.Reason)
				assert.InDelta(t, 1.0, records[2].Used().Cost, 1e-9, "the price is in the record")
				require.NoError(t, st.Close())
			})
		})
	}
}

func TestTimeThatIsLeftBoundsTheCall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		s := &service{usage: each, takes: time.Hour}
		_, ctx := testkit.Run(t)
		began := time.Now()
		_, err := s.llm(newBudget(budget.Amount{Time: time.Minute})).Call(ctx, question)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// Without an estimator, the output is estimated at MaxTokens.
func TestLimitOfTheAnswerIsReserved(t *testing.T) {
	s := &service{usage: each}
	llm := s.llm(budget.New(budget.Options{Name: "b", Limit: budget.Amount{Tokens: 1000}}))
	_, ctx := testkit.Run(t)
	long := question
	long.Options.MaxTokens = 990
	_, err := llm.Call(ctx, long)
	testkit.Failed(t, err, record.ReasonBudget)
	long.Options.MaxTokens = 900
	_, err = llm.Call(ctx, long)
	require.NoError(t, err)
	assert.Equal(t, 1, s.asked)
}

// No matter how many calls begin at the same time, only as many are made as the budget allows.
func TestBudgetHoldsForCallsThatBeginAtOnce(t *testing.T) {
	storages := map[string]func(*testing.T) budget.Storage{
		"memory": func(*testing.T) budget.Storage { return budget.NewMemory() },
		"dir":    func(t *testing.T) budget.Storage { return openDir(t, t.TempDir()) },
	}
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) {
			s := &service{usage: each}
			b := budget.New(budget.Options{Name: "all", Limit: budget.Amount{Calls: 10}, For: budget.All, Storage: storage(t)})
			llm := s.llm(b)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					st := state.New()
					_, _ = llm.Call(st.Context(t.Context()), question)
					assert.NoError(t, st.Close())
				})
			}
			all.Wait()
			assert.Equal(t, 10, s.asked)
			left, err := b.LeftOf(t.Context(), "all")
			require.NoError(t, err)
			assert.True(t, left.IsZero(), "%v", left)
		})
	}
}

func openDir(t *testing.T, path string) *budget.Dir {
	dir, err := budget.OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func TestTenantsAndDaysHaveBudgetsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{usage: each}
		b := budget.New(budget.Options{Name: "tenant", Limit: budget.Amount{Calls: 2}, For: budget.Tag("tenant:"), Daily: true})
		llm := s.llm(b)
		call := func(tags ...string) error {
			st := state.New(state.WithMetadata(snapshot.Metadata{Tags: tags}))
			_, err := llm.Call(st.Context(t.Context()), question)
			require.NoError(t, st.Close())
			return err
		}
		for range 2 {
			require.NoError(t, call("tenant:a", "x"))
			require.NoError(t, call("tenant:b"))
			require.NoError(t, call("x"), "without a tenant there is no limit")
		}
		require.ErrorIs(t, call("tenant:a"), core.ErrBudget)
		require.ErrorIs(t, call("y", "tenant:b"), core.ErrBudget)
		require.NoError(t, call("x"))
		time.Sleep(24 * time.Hour) //nolint:forbidigo // on the fake clock
		require.NoError(t, call("tenant:a"))
	})
}

func TestThreadIsAConversation(t *testing.T) {
	key, ok := budget.Thread("alice-0003", []string{"x", "conversation:alice"})
	assert.True(t, ok)
	assert.Equal(t, "conversation:alice", key)
	_, ok = budget.Thread("other", nil)
	assert.False(t, ok)
}

// In a new process, the amount used by a run is restored from its records.
func TestRestoredUsageCounts(t *testing.T) {
	store := memstore.New()
	asked := 0
	for _, want := range []int{2, 1, 0} {
		s := &service{usage: each}
		llm := s.llm(newBudget(budget.Amount{Calls: 3, Tokens: 1000})) // with its own storage
		st, err := state.Open(t.Context(), store, "run", state.WithFurtherCalls())
		require.NoError(t, err)
		asked += 2
		for range asked {
			if _, err := llm.Call(st.Context(t.Context()), question); err != nil {
				require.ErrorIs(t, err, core.ErrBudget)
			}
		}
		require.NoError(t, st.Close())
		assert.Equal(t, want, s.asked)
	}
}

// In a new process, the amount used by a run is known before its first call.
func TestWhatIsLeftIncludesRestoredUsage(t *testing.T) {
	store := memstore.New()
	for recalled, want := range []string{"1000 tokens, 3 calls", "900 tokens, 2 calls", "800 tokens, 1 call"} {
		b := newBudget(budget.Amount{Calls: 3, Tokens: 1000}) // with its own storage
		st, err := state.Open(t.Context(), store, "run", state.WithFurtherCalls())
		require.NoError(t, err)
		ctx := st.Context(t.Context())
		left, err := b.Left(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, left.String())
		llm := (&service{usage: each}).llm(b)
		for range recalled + 1 {
			_, err = llm.Call(ctx, question)
			require.NoError(t, err)
		}
		require.NoError(t, st.Close())
	}
}

// A run that failed because of its budget continues in a new process whose budget allows one more
// call, because the refused attempt does not count.
func TestRetriedRunContinuesWithALargerBudget(t *testing.T) {
	store := memstore.New()
	s := &service{usage: each}
	call := func(limit int64) error {
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		llm := s.llm(newBudget(budget.Amount{Calls: limit})) // with its own storage
		_, err = llm.Call(st.Context(t.Context()), question)
		require.NoError(t, err)
		_, err = llm.Call(st.Context(t.Context()), question)
		require.NoError(t, st.Close())
		return err
	}
	require.ErrorIs(t, call(1), core.ErrBudget)
	_, err := state.Retry(t.Context(), store, "run")
	require.NoError(t, err)
	require.NoError(t, call(2))
	assert.Equal(t, 2, s.asked)
}

// A run fails because of its budget, a person raises the limit, and the run continues.
func TestRunContinuesWhenItsBudgetIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{usage: each}
		b := newBudget(budget.Amount{Calls: 2})
		llm := s.llm(b)
		store := memstore.New()
		r, err := runner.New(store, runner.Options{})
		require.NoError(t, err)
		runner.Register(r, decorators.Agent("agent", "", func(ctx context.Context, n int) (int, error) {
			for range n {
				if _, err := llm.Call(ctx, question); err != nil {
					return 0, err
				}
			}
			return n, nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { assert.NoError(t, r.Serve(ctx)) })
		_, err = r.Start(t.Context(), "agent", "run", 4, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "run")
		require.NoError(t, err)
		info, err := store.Info(t.Context(), "run")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusFailed, info.Status)
		assert.Equal(t, 2, s.asked)

		require.NoError(t, b.Raise(t.Context(), "run", budget.Amount{Calls: 2, Tokens: 5}))
		_, err = state.Retry(t.Context(), store, "run")
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "run")
		require.NoError(t, err)
		info, err = store.Info(t.Context(), "run")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.Equal(t, 4, s.asked, "calls that were answered are not made again")
		left, err := b.LeftOf(t.Context(), "run")
		require.NoError(t, err)
		assert.True(t, left.IsZero(), "tokens are not limited, and cannot be raised: %v", left)
		cancel()
		serving.Wait()
	})
}

func TestAgentKnowsWhatIsLeft(t *testing.T) {
	s := &service{usage: each}
	b := newBudget(budget.Amount{Calls: 10, Tokens: 1000})
	llm := s.llm(b)
	var told []string
	agent := actors.NewAgent("assistant", llm, actors.WithInstructionsFunc(func(ctx context.Context, _ actors.Prompt) (string, error) {
		left, err := b.Left(ctx)
		told = append(told, left.String())
		return "Left: " + left.String(), err
	}))
	_, ctx := testkit.Run(t)
	for range 2 {
		_, err := agent.Call(ctx, actors.Ask("?"))
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"1000 tokens, 10 calls", "900 tokens, 9 calls"}, told)
	_, err := b.Left(t.Context())
	assert.ErrorContains(t, err, "does not belong to a run")
}

// The reservation of a refused call is returned, but not that of a call that may have
// been charged.
func TestFailedCallsCountWhatTheyMayHaveUsed(t *testing.T) {
	for _, c := range []struct {
		err  error
		used budget.Amount
	}{
		{&httperror.Error{Code: http.StatusTooManyRequests}, budget.Amount{Calls: 1}},
		{&httperror.Error{Code: http.StatusBadRequest}, budget.Amount{Calls: 1}},
		{&httperror.Error{Code: http.StatusBadGateway}, budget.Amount{Calls: 1, Tokens: 50}},
		{context.DeadlineExceeded, budget.Amount{Calls: 1, Tokens: 50}},
		{errors.New("boom"), budget.Amount{Calls: 1, Tokens: 50}},
	} {
		s := &service{fail: c.err}
		b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Calls: 10, Tokens: 1000}, EstimateTokens: func([]byte) (in, out int) { return 50, 0 }})
		st := state.New(state.WithRunID("run"))
		_, err := s.llm(b).Call(st.Context(t.Context()), question)
		require.ErrorIs(t, err, c.err)
		left, err := b.LeftOf(t.Context(), "run")
		require.NoError(t, err)
		assert.Equal(t, budget.Amount{Calls: 10, Tokens: 1000}.Minus(c.used), left, "%v", c.err)
		require.NoError(t, st.Close())
	}
}

// A call refused by an inner interceptor has used nothing.
func TestCallThatIsNotMadeUsesNothing(t *testing.T) {
	s := &service{usage: each}
	b := newBudget(budget.Amount{Calls: 1})
	refuse := core.Interceptor{Attempt: func(context.Context, *core.CallInfo, func(context.Context) error) error { return errors.New("no") }}
	st := state.New(state.WithRunID("run"))
	_, err := s.llm(b, actors.WithInterceptors(refuse)).Call(st.Context(t.Context()), question)
	require.ErrorContains(t, err, "no")
	left, err := b.LeftOf(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, budget.Amount{Calls: 1}, left)
	require.NoError(t, st.Close())
}

// A highWater is a storage that remembers the largest number of tokens that was ever booked.
type highWater struct {
	*budget.Memory
	tokens int64
}

func (h *highWater) Add(ctx context.Context, account string, a budget.Amount) (budget.Amount, error) {
	sum, err := h.Memory.Add(ctx, account, a)
	h.tokens = max(h.tokens, sum.Tokens)
	return sum, err
}

// The amount that a refused call needs is not booked, not even for a moment. Otherwise, calls for
// which the budget is large enough would be refused in that moment, and if the process ended then,
// the amount would stay booked.
func TestCallThatIsRefusedBooksNothing(t *testing.T) {
	s := &service{usage: each}
	h := &highWater{Memory: budget.NewMemory()}
	llm := s.llm(budget.New(budget.Options{Name: "b", Limit: budget.Amount{Tokens: 1000}, Storage: h}))
	_, ctx := testkit.Run(t)
	long := question
	long.Options.MaxTokens = 5000
	_, err := llm.Call(ctx, long)
	testkit.Failed(t, err, record.ReasonBudget)
	assert.Zero(t, h.tokens)
}

type broken struct{}

func (broken) Add(context.Context, string, budget.Amount) (budget.Amount, error) {
	return budget.Amount{}, errors.New("the disk is full")
}

func TestStorageThatFailsLetsNothingBegin(t *testing.T) {
	s := &service{usage: each}
	b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Calls: 10}, Storage: broken{}})
	_, ctx := testkit.Run(t)
	_, err := s.llm(b).Call(ctx, question)
	require.ErrorContains(t, err, `budget "b": the disk is full`)
	assert.Zero(t, s.asked)
}

// hanging is a storage that, once hangs is set, does not return before the context is done.
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

func TestAnswerIsNotLostWhenTheStorageHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := &hanging{Storage: budget.NewMemory()}
		s := &service{usage: each, takes: time.Second}
		b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Tokens: 1000}, Storage: accounts, EstimateTokens: hundred})
		st, ctx := testkit.Run(t)
		time.AfterFunc(time.Second/2, func() { accounts.hangs.Store(true) })
		_, err := s.llm(b, actors.WithAttemptTimeout(6*time.Second), actors.WithRetry(core.RetryConfig{})).Call(ctx, question)
		require.NoError(t, err)
		assert.Equal(t, 1, s.asked)
		assert.True(t, slices.ContainsFunc(testkit.Records(t, st), func(r record.Record) bool {
			return r.Kind == record.KindLog && strings.Contains(r.Detail.Message, `budget "b": cannot book`)
		}), "the reservation remains")
	})
}

func TestBadInputSaysWhatIsAllowed(t *testing.T) {
	for want, o := range map[string]budget.Options{
		`budget: Options.Name is ""; want 1 to 128 bytes of printable text`:                                         {},
		"budget: Options.Limit is zero, which limits nothing; set one of Tokens, Cost, Calls and Time":              {Name: "a"},
		"budget: Options.Limit.Tokens is -1; want 0 or more":                                                        {Name: "a", Limit: budget.Amount{Tokens: -1}},
		"budget: Options.Price is nil, so Limit.Cost would limit nothing; want a function such as KnownPrices().Of": {Name: "a", Limit: budget.Amount{Cost: 1}},
		"budget: Options.Limit.Cost is NaN; want 0 or more":                                                         {Name: "a", Limit: budget.Amount{Cost: math.NaN()}},
	} {
		assert.PanicsWithValue(t, want, func() { budget.New(o) })
	}
	require.Error(t, newBudget(budget.Amount{Calls: 1}).Raise(t.Context(), "run", budget.Amount{Calls: -1}))
	for _, c := range []struct {
		price func(string, core.Usage) (float64, bool)
		why   string
	}{
		{func(string, core.Usage) (float64, bool) { return 0, false }, `no price for model "model"`},
		{func(string, core.Usage) (float64, bool) { return -1, true }, `returned -1 for model "model"; want a finite price of 0 or more`},
		{func(string, core.Usage) (float64, bool) { return math.Inf(1), true }, "returned +Inf"},
	} {
		s := &service{usage: each}
		b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Cost: 1}, Price: c.price})
		_, ctx := testkit.Run(t)
		_, err := s.llm(b).Call(ctx, question)
		testkit.Failed(t, err, record.ReasonPermanent)
		require.ErrorContains(t, err, c.why)
		assert.Zero(t, s.asked)
	}
}

func TestPrices(t *testing.T) {
	prices, err := budget.ParsePrices([]byte(`{"a": {"input": 10, "output": 100, "cached": 1}, "a-b": {"input": 1, "output": 1}}`))
	require.NoError(t, err)
	const million = 1_000_000
	for _, c := range []struct {
		model string
		u     core.Usage
		cost  float64
		known bool
	}{
		{"a", core.Usage{InputTokens: million, OutputTokens: million}, 110, true},
		{"a", core.Usage{InputTokens: 3 * million, CachedInputTokens: million, CacheWriteTokens: million}, 10 + 1 + 10, true},
		{"a-2026-01-02", core.Usage{InputTokens: million}, 10, true},
		{"provider/a-latest", core.Usage{InputTokens: million}, 10, true},
		{"a-b-1", core.Usage{InputTokens: million}, 1, true},
		{"a-audio", core.Usage{}, 0, false},
		{"ab", core.Usage{}, 0, false},
		{"", core.Usage{}, 0, false},
	} {
		cost, known := prices.Of(c.model, c.u)
		assert.Equal(t, c.known, known, c.model)
		assert.InDelta(t, c.cost, cost, 1e-9, c.model)
	}
	_, err = budget.ParsePrices([]byte(`{"a": {"input": -1}}`))
	require.EqualError(t, err, `budget: the input price of model "a" is -1; want a finite price of 0 or more`)
	_, err = budget.ParsePrices([]byte(`[`))
	require.Error(t, err)
	known := budget.KnownPrices()
	require.NoError(t, known.Check())
	for model, price := range known {
		assert.Positive(t, price.Input, model)
		assert.Greater(t, price.Output, price.Input, model)
		assert.LessOrEqual(t, price.Cached, price.Input, model)
	}
}

func TestAmountsAreReadable(t *testing.T) {
	assert.Equal(t, "nothing", budget.Amount{}.String())
	assert.Equal(t, "1 token, cost 0.25, 2 calls, 1.5s", fmt.Sprint(budget.Amount{Tokens: 1, Cost: 0.25, Calls: 2, Time: 1500 * time.Millisecond}))
}

// The first snapshot of gpt-4o costs twice as much as the later ones.
func TestASnapshotWithItsOwnPriceDoesNotCostWhatItsModelDoes(t *testing.T) {
	for model, want := range map[string]float64{"gpt-4o-2024-05-13": 20, "gpt-4o-2024-08-06": 12.5, "gpt-4o": 12.5, "gpt-5-2025-08-07": 11.25, "claude-sonnet-4-6": 18} {
		cost, known := budget.KnownPrices().Of(model, core.Usage{InputTokens: 1e6, OutputTokens: 1e6})
		assert.True(t, known, model)
		assert.InDelta(t, want, cost, 1e-9, model)
	}
	_, known := budget.KnownPrices().Of("gpt-5.3", core.Usage{InputTokens: 1})
	assert.False(t, known, "another model")
}

// hangingStorage is a storage that does not answer requests for one of its accounts.
type hangingStorage struct {
	*budget.Memory
	account string
}

func (s hangingStorage) Add(ctx context.Context, account string, a budget.Amount) (budget.Amount, error) {
	if account == s.account {
		<-ctx.Done()
		return budget.Amount{}, context.Cause(ctx)
	}
	return s.Memory.Add(ctx, account, a)
}

// If the storage hangs for the account of one run, no other run is delayed. The run can still be
// interrupted, as can a second call of the run, which waits for the first.
func TestAccountsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Calls: 10}, Storage: hangingStorage{budget.NewMemory(), "b/slow"}})
		llm := new(service).llm(b)
		slow, fast := state.New(state.WithRunID("slow")), state.New(state.WithRunID("fast"))
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				_, err := llm.Call(slow.Context(t.Context()), question)
				assert.ErrorIs(t, err, core.ErrInterrupted)
			})
		}
		synctest.Wait()
		_, err := llm.Call(fast.Context(t.Context()), question)
		require.NoError(t, err)
		slow.Interrupt(snapshot.Stop{})
		calls.Wait()
		require.NoError(t, slow.Close())
		require.NoError(t, fast.Close())
	})
}

// A key never names the account of another key, or the account of another key's raises.
func TestKeysDoNotShareAccounts(t *testing.T) {
	ctx := t.Context()
	call := func(b *budget.Budget, tag string) {
		st := state.New(state.WithMetadata(snapshot.Metadata{Tags: []string{tag}}))
		_, err := new(service).llm(b).Call(st.Context(ctx), question)
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
	b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Calls: 5}, For: budget.Tag("tenant:")})
	call(b, "tenant:a/raised")
	left, err := b.LeftOf(ctx, "tenant:a")
	require.NoError(t, err)
	assert.EqualValues(t, 5, left.Calls)
	left, err = b.LeftOf(ctx, "tenant:a/raised")
	require.NoError(t, err)
	assert.EqualValues(t, 4, left.Calls)
	require.NoError(t, b.Raise(ctx, "tenant:a%2Fraised", budget.Amount{Calls: 7}))
	left, err = b.LeftOf(ctx, "tenant:a/raised")
	require.NoError(t, err)
	assert.EqualValues(t, 4, left.Calls)
}

// A limit that is raised by a very large amount becomes unlimited.
func TestLimitThatIsRaisedToTheMaximumIsNotExceeded(t *testing.T) {
	ctx := t.Context()
	b := budget.New(budget.Options{Name: "b", Limit: budget.Amount{Tokens: 1, Calls: 1, Time: time.Second}})
	all := budget.Amount{Tokens: math.MaxInt64, Calls: math.MaxInt64, Time: math.MaxInt64}
	for range 2 {
		require.NoError(t, b.Raise(ctx, "a", all))
		left, err := b.LeftOf(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, all, left)
	}
}

func TestMemoryForgetsPrunedAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := budget.NewMemory()
		add := func(account string, calls int64) int64 {
			sum, err := m.Add(t.Context(), account, budget.Amount{Calls: calls})
			require.NoError(t, err)
			return sum.Calls
		}
		add("old", 1)
		<-time.After(time.Hour)
		add("new", 1)
		m.Prune(time.Now().Add(-time.Minute))
		assert.EqualValues(t, 0, add("old", 0))
		assert.EqualValues(t, 1, add("new", 0))
	})
}
