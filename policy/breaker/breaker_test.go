package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
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
	"github.com/reprise-go/reprise/policy/breaker"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A service counts its calls and fails until it is repaired.
type service struct {
	mended atomic.Bool
	called atomic.Int64
	slow   time.Duration
}

var errUnavailable = &httperror.Error{Code: http.StatusServiceUnavailable}

func (s *service) call(_ context.Context, in int) (int, error) {
	s.called.Add(1)
	time.Sleep(s.slow) //nolint:forbidigo // on the fake clock
	if !s.mended.Load() {
		return 0, errUnavailable
	}
	return in, nil
}

var once = core.RetryConfig{MaxAttempts: 1}

func (s *service) tool(b *breaker.Breaker, retry core.RetryConfig) actors.Tool[int, int] {
	return actors.NewTool("pay", "", anything(), s.call, actors.WithInterceptors(b.Interceptor()), actors.WithRetry(retry))
}

func anything() actors.Schema {
	s, err := actors.ParseSchema([]byte(`{"type":"object"}`))
	if err != nil {
		panic(err)
	}
	return s
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		b := breaker.New(breaker.Options{Name: "payments", Failures: 3, OpenFor: 10 * time.Second})
		pay := s.tool(b, once)
		st := state.New()
		ctx := st.Context(t.Context())
		call := func() error { _, err := pay.Call(ctx, 1); return err }
		for range 3 {
			require.ErrorIs(t, call(), errUnavailable)
		}
		assert.Equal(t, "open", b.State())
		err := call()
		var open *breaker.OpenError
		require.ErrorAs(t, err, &open)
		assert.Equal(t, "payments", open.Breaker)
		assert.Equal(t, record.ClassBreaker, record.Classify(err))
		assert.EqualValues(t, 3, s.called.Load())

		time.Sleep(10*time.Second + time.Millisecond) //nolint:forbidigo // on the fake clock
		require.ErrorIs(t, call(), errUnavailable)    // the probe
		require.ErrorAs(t, call(), &open)
		assert.EqualValues(t, 4, s.called.Load())

		s.mended.Store(true)
		time.Sleep(10*time.Second + time.Millisecond) //nolint:forbidigo // on the fake clock
		for range 3 {
			require.NoError(t, call())
		}
		assert.Equal(t, "closed", b.State())
		assert.EqualValues(t, 7, s.called.Load())

		records, err := st.Records(t.Context())
		require.NoError(t, err)
		var changes []string
		for _, r := range records {
			if r.Kind == record.KindLog {
				changes = append(changes, fmt.Sprint(r.Address, " ", r.Detail.Severity, " ", r.Message()))
				assert.Equal(t, "payments", r.Detail.Metadata["breaker"])
			}
		}
		assert.Equal(t, []string{
			`pay#3 WARN circuit breaker "payments" is open for 10s`,
			`pay#5 INFO circuit breaker "payments" is half open: it lets a probe through`,
			`pay#5 WARN circuit breaker "payments" is open for 10s`,
			`pay#7 INFO circuit breaker "payments" is half open: it lets a probe through`,
			`pay#7 INFO circuit breaker "payments" is closed`,
		}, changes)
		require.NoError(t, st.Close())
	})
}

// A refused attempt waits until the breaker lets one through.
func TestRefusedAttemptsWaitForTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		b := breaker.New(breaker.Options{Name: "payments", Failures: 1, OpenFor: 10 * time.Minute})
		_, err := s.tool(b, once).Call(t.Context(), 1) // failures outside a run open it too
		require.ErrorIs(t, err, errUnavailable)
		s.mended.Store(true)
		st := state.New()
		began := time.Now()
		out, err := s.tool(b, core.RetryConfig{MaxAttempts: 2}).Call(st.Context(t.Context()), 7)
		require.NoError(t, err)
		assert.Equal(t, 7, out)
		assert.Equal(t, 10*time.Minute+time.Millisecond, time.Since(began))
		records, err := st.Records(t.Context())
		require.NoError(t, err)
		waits := 0
		for _, r := range records {
			if r.Status == record.StatusRetrying {
				waits++
				assert.Equal(t, record.SourceBreaker, r.DelaySource)
				assert.Equal(t, record.ClassBreaker, r.Class)
			}
		}
		assert.Equal(t, 1, waits)
		require.NoError(t, st.Close())
	})
}

func TestRefusalIsNotRetriedIfTheConfigurationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		b := breaker.New(breaker.Options{Name: "payments", Failures: 1})
		_, err := s.tool(b, once).Call(t.Context(), 1)
		require.Error(t, err)
		began := time.Now()
		_, err = s.tool(b, core.RetryConfig{Exclude: []core.Matcher{core.MatchClass(record.ClassBreaker)}}).Call(t.Context(), 1)
		require.ErrorIs(t, err, core.ErrPermanent)
		assert.EqualError(t, err, `pay: permanent: circuit breaker "payments" is open for another 30.001s`)
		assert.Zero(t, time.Since(began))
	})
}

func TestAThousandCallersMakeOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service{slow: time.Second}
		b := breaker.New(breaker.Options{Name: "payments", Failures: 1, OpenFor: time.Second})
		pay := s.tool(b, once)
		_, err := pay.Call(t.Context(), 1)
		require.Error(t, err)
		time.Sleep(2 * time.Second) //nolint:forbidigo // on the fake clock
		st := state.New()
		ctx := st.Context(t.Context())
		var refused atomic.Int64
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if _, err := pay.Call(ctx, 1); errors.As(err, new(*breaker.OpenError)) {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 2, s.called.Load())
		assert.EqualValues(t, 999, refused.Load())
		assert.Equal(t, "open", b.State())
		require.NoError(t, st.Close())
	})
}

// An interrupted probe is inconclusive, so the next call becomes the probe.
func TestInterruptedProbeLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		b := breaker.New(breaker.Options{Name: "payments", Failures: 1, OpenFor: time.Second})
		_, err := s.tool(b, once).Call(t.Context(), 1)
		require.Error(t, err)
		time.Sleep(2 * time.Second) //nolint:forbidigo // on the fake clock
		st := state.New()
		wait := actors.NewTool("wait", "", anything(), func(ctx context.Context, _ int) (int, error) {
			st.Interrupt(snapshot.Stop{})
			<-ctx.Done()
			return 0, ctx.Err()
		}, actors.WithInterceptors(b.Interceptor()))
		_, err = wait.Call(st.Context(t.Context()), 1)
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.NoError(t, st.Close())
		panics := actors.NewTool("panics", "", anything(), func(context.Context, int) (int, error) { panic("boom") }, actors.WithInterceptors(b.Interceptor()))
		_, err = panics.Call(t.Context(), 1)
		require.ErrorIs(t, err, core.ErrPanic)
		assert.Equal(t, "half_open", b.State())
		s.mended.Store(true)
		_, err = s.tool(b, once).Call(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, "closed", b.State())
	})
}

func TestOnlyOutagesCount(t *testing.T) {
	for _, c := range []struct {
		err  error
		open bool
	}{
		{errUnavailable, true},
		{&httperror.Error{Code: http.StatusTooManyRequests}, true},
		{context.DeadlineExceeded, true},
		{&httperror.Error{Code: http.StatusNotFound}, false},
		{errors.New("class unknown"), false},
		{core.Permanent(errUnavailable), false},
	} {
		b := breaker.New(breaker.Options{Name: "x", Failures: 1})
		tool := decorators.Tool("tool", "", func(context.Context, struct{}) (int, error) { return 0, c.err }, actors.WithInterceptors(b.Interceptor()), actors.WithRetry(once))
		_, err := tool.Call(t.Context(), struct{}{})
		require.Error(t, err)
		assert.Equal(t, c.open, b.State() == "open", "%v", c.err)
	}
}

func TestBreakerOpensByRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		b := breaker.New(breaker.Options{Name: "x", Ratio: 0.5, MinAttempts: 4, Window: 10 * time.Second})
		pay := s.tool(b, once)
		for i := range 6 {
			s.mended.Store(i%2 == 0)
			_, _ = pay.Call(t.Context(), 1)
			if i == 2 { // let the first three attempts leave the window
				time.Sleep(20 * time.Second) //nolint:forbidigo // on the fake clock
			}
			assert.Equal(t, "closed", b.State())
		}
		s.mended.Store(false)
		_, _ = pay.Call(t.Context(), 1)
		assert.Equal(t, "open", b.State())
	})
}

// Recalled calls do not ask the breaker. In the next process, a refused call waits only for the
// rest of its delay.
func TestResumedCallsWaitForTheRestOfTheirDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := memstore.New(), service{}
		retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}
		options := breaker.Options{Name: "payments", Failures: 1, OpenFor: time.Hour}
		began := time.Now()
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { st.Interrupt(snapshot.Stop{}) })
		_, err = s.tool(breaker.New(options), retry).Call(st.Context(t.Context()), 1)
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.NoError(t, st.Close())
		assert.EqualValues(t, 1, s.called.Load())

		s.mended.Store(true)
		b := breaker.New(options)
		for range 2 {
			st, err = state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			_, err = s.tool(b, retry).Call(st.Context(t.Context()), 1)
			require.NoError(t, err)
			require.NoError(t, st.Close())
		}
		assert.EqualValues(t, 2, s.called.Load())
		assert.Equal(t, time.Hour+time.Millisecond, time.Since(began))
	})
}

func TestBreakerOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		own := breaker.New(breaker.Options{Name: "own", Failures: 100})
		b := breaker.New(breaker.Options{Name: "group", Failures: 2})
		st := state.New()
		_, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "g", Workers: 1, CollectAll: true, Interceptors: []core.Interceptor{b.Interceptor()}}, s.tool(own, once), make([]int, 10))
		var group *actors.GroupError
		require.ErrorAs(t, err, &group)
		assert.Len(t, group.Failed, 10)
		assert.EqualValues(t, 2, s.called.Load())
		require.NoError(t, st.Close())
		_, err = actors.Parallel(t.Context(), actors.Group{Name: "g", Interceptors: []core.Interceptor{b.Interceptor()}}, func(context.Context) (int, error) { return 0, nil })
		assert.ErrorContains(t, err, "Group.Interceptors are for the branches of Map")
	})
}

func TestOptionsOutOfRangePanic(t *testing.T) {
	for want, o := range map[string]breaker.Options{
		"Options.Name is":        {},
		"Options.Failures is":    {Name: "x", Failures: -1},
		"Options.Ratio is":       {Name: "x", Ratio: 1.5},
		"Options.MinAttempts is": {Name: "x", MinAttempts: -1},
		"Options.Window is":      {Name: "x", Window: 1},
		"Options.OpenFor is":     {Name: "x", OpenFor: -1},
		"Options.Probes is":      {Name: "x", Probes: -1},
	} {
		func() {
			defer func() { assert.Contains(t, fmt.Sprint(recover()), want) }()
			breaker.New(o)
		}()
	}
}

func TestCountsThatPanicsIsAFailure(t *testing.T) {
	var s service
	b := breaker.New(breaker.Options{Name: "x", Failures: 1, Counts: func(error) bool { panic("boom") }})
	_, err := s.tool(b, once).Call(t.Context(), 1)
	require.ErrorIs(t, err, errUnavailable)
	assert.Equal(t, "open", b.State())
}

func TestCountsThatEndsItsGoroutineLeavesTheBreakerUsable(t *testing.T) {
	var s service
	b := breaker.New(breaker.Options{Name: "x", Failures: 1, Counts: func(error) bool { runtime.Goexit(); return true }})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.tool(b, once).Call(t.Context(), 1)
	}()
	<-ended
	assert.Equal(t, "closed", b.State(), "the attempt does not count")
}

func TestCountsMayAskForTheState(t *testing.T) {
	var s service
	var b *breaker.Breaker
	b = breaker.New(breaker.Options{Name: "x", Failures: 1, Counts: func(error) bool { return b.State() == "closed" }})
	_, err := s.tool(b, once).Call(t.Context(), 1)
	require.ErrorIs(t, err, errUnavailable)
	assert.Equal(t, "open", b.State())
}

// A service that hangs opens its breaker, even if each attempt takes longer than the window.
func TestAttemptsCountWhenTheyEnd(t *testing.T) {
	hang := func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for name, o := range map[string]breaker.Options{
		"failures": {Name: "s"},
		"ratio":    {Name: "s", Ratio: 0.5, MinAttempts: 5},
		"both":     {Name: "s", Ratio: 1, MinAttempts: 1000, Failures: 5},
	} {
		for _, takes := range []time.Duration{time.Second, 50 * time.Second, 61 * time.Second, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				b := breaker.New(o)
				tool := actors.NewTool("pay", "", anything(), hang,
					actors.WithAttemptTimeout(takes), actors.WithInterceptors(b.Interceptor()), actors.WithRetry(once))
				const parallel = 20
				var calls sync.WaitGroup
				for range parallel {
					calls.Go(func() { _, _ = tool.Call(t.Context(), 1) })
				}
				calls.Wait()
				assert.Equal(t, "open", b.State(), "%s: attempts of %v", name, takes)
			})
		}
	}
}

// Consecutive failures open the breaker no matter how far apart they are and how long each takes.
func TestConsecutiveFailuresDoNotExpire(t *testing.T) {
	for name, o := range map[string]breaker.Options{
		"failures": {Name: "s"},
		"both":     {Name: "s", Ratio: 1, MinAttempts: 1000, Failures: 5},
	} {
		for _, slow := range []time.Duration{0, 50 * time.Second, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				s := service{slow: slow}
				b := breaker.New(o)
				pay := s.tool(b, once)
				for n := range 5 {
					assert.Equal(t, "closed", b.State(), "%s: %v: %d", name, slow, n)
					_, err := pay.Call(t.Context(), 1)
					require.ErrorIs(t, err, errUnavailable)
					time.Sleep(20 * time.Second) //nolint:forbidigo // on the fake clock
				}
				assert.Equal(t, "open", b.State(), "%s: %v", name, slow)
			})
		}
	}
}

// If an attempt began before the breaker opened, and fails after the breaker has closed again, the
// failure does not count.
func TestLateResultOfAnEarlierAttemptDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service{}
		b := breaker.New(breaker.Options{Name: "s", Failures: 1, OpenFor: time.Second})
		slow := actors.NewTool("slow", "", anything(), func(context.Context, int) (int, error) {
			time.Sleep(time.Minute) //nolint:forbidigo // on the fake clock
			return 0, errUnavailable
		}, actors.WithInterceptors(b.Interceptor()), actors.WithRetry(once))
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = slow.Call(t.Context(), 1) })
		synctest.Wait()
		pay := s.tool(b, once)
		_, err := pay.Call(t.Context(), 1)
		require.ErrorIs(t, err, errUnavailable)
		assert.Equal(t, "open", b.State())
		time.Sleep(2 * time.Second) //nolint:forbidigo // on the fake clock
		s.mended.Store(true)
		_, err = pay.Call(t.Context(), 1)
		require.NoError(t, err)
		calls.Wait()
		assert.Equal(t, "closed", b.State())
	})
}
