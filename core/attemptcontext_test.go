package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// script is a list of operations on a context, which ends after at most ten seconds, and on
// contexts derived from it. No two operations happen at the same time. The context's parent never
// ends after the context: otherwise context.Cause of the attempt's context would be that of the
// parent.
type script struct {
	parent func(context.Context) (context.Context, context.CancelFunc)
	steps  []scriptStep
}

type scriptStep struct {
	after time.Duration // the time since the previous step
	do    func(*observer)
}

var errParent = errors.New("the parent ended")

func newScript(random *rand.Rand) script {
	s := script{parent: context.WithCancel}
	switch end := time.Duration(1+random.IntN(9))*time.Second + time.Millisecond; random.IntN(3) {
	case 0:
		s.parent = func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, end, errParent)
		}
	case 1:
		s.parent = func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(end, func() { cancel(errParent) })
			return ctx, func() { cancel(nil) }
		}
	}
	for i := range 12 {
		of, kind, length := random.IntN(i+1), random.IntN(6), time.Duration(1+random.IntN(9))*time.Second+time.Duration(i+2)*time.Millisecond
		s.steps = append(s.steps, scriptStep{
			after: time.Duration(random.IntN(4))*500*time.Millisecond + 50*time.Microsecond,
			do:    func(o *observer) { o.step(of, kind, length) },
		})
	}
	return s
}

// observer logs what happens to a context.
type observer struct {
	began    time.Time
	contexts []context.Context
	cancels  []func()

	mu  sync.Mutex
	log []string
}

func (o *observer) write(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprintf("%10v ", time.Since(o.began).Truncate(time.Microsecond))+fmt.Sprintf(format, args...))
}

// step either derives a context or uses an existing one.
func (o *observer) step(of, kind int, length time.Duration) {
	of %= len(o.contexts)
	from, n := o.contexts[of], len(o.contexts)
	switch kind {
	case 0:
		ctx, cancel := context.WithCancelCause(from)
		o.add(ctx, func() { cancel(errBoom) })
	case 1:
		o.add(context.WithTimeout(from, length))
	case 2:
		o.add(context.WithValue(from, keyOfNothing{}, n), func() {})
	case 3:
		stop := context.AfterFunc(from, func() { o.write("callback %d of %d", n, of) })
		o.add(from, func() { o.write("stop of callback %d: %v", n, stop()) })
	case 4:
		o.cancels[of]()
	case 5:
		ctx, cancel := context.WithCancel(from)
		go func() {
			<-ctx.Done()
			o.write("%d is done: %v, cause %v", n, ctx.Err(), context.Cause(ctx))
		}()
		o.add(ctx, cancel)
	}
	time.Sleep(10 * time.Microsecond) //nolint:forbidigo // on synctest's clock: lets the other goroutines run first
	for i, ctx := range o.contexts {
		at, ok := ctx.Deadline()
		select {
		case <-ctx.Done():
			o.write("%d has ended: %v, cause %v, deadline %v %v", i, ctx.Err(), context.Cause(ctx), at.Sub(o.began), ok)
		default:
			o.write("%d has not ended: %v, cause %v, deadline %v %v", i, ctx.Err(), context.Cause(ctx), at.Sub(o.began), ok)
		}
	}
}

func (o *observer) add(ctx context.Context, cancel func()) {
	o.contexts, o.cancels = append(o.contexts, ctx), append(o.cancels, cancel)
}

// observe runs the script and returns the log. Callbacks that run at the same
// time are sorted by number.
func (s script) observe(ctx context.Context, began time.Time) []string {
	o := &observer{began: began}
	o.add(ctx, func() {})
	for _, step := range s.steps {
		time.Sleep(step.after) //nolint:forbidigo // synctest's clock
		step.do(o)
	}
	time.Sleep(30 * time.Second) //nolint:forbidigo // synctest's clock
	for _, cancel := range o.cancels {
		cancel()
	}
	o.step(0, 2, 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.log)
	return o.log
}

func TestContextOfAnAttemptIsLikeOneWithATimeout(t *testing.T) {
	const limit = 10 * time.Second
	for seed := range uint64(200) {
		s := newScript(rand.New(rand.NewPCG(seed, 0)))
		var want []string
		testkit.Bubble(t, func(t *testing.T) {
			began := time.Now()
			parent, end := s.parent(t.Context())
			defer end()
			ctx, cancel := context.WithTimeoutCause(parent, limit, context.DeadlineExceeded)
			defer cancel()
			want = s.observe(ctx, began)
		})
		for where, runOf := range map[string]func(context.Context) context.Context{
			"outside a run": func(ctx context.Context) context.Context { return ctx },
			"in a run": func(ctx context.Context) context.Context {
				return state.New().Context(ctx)
			},
		} {
			testkit.Bubble(t, func(t *testing.T) {
				began, got := time.Now(), make(chan []string, 1)
				parent, end := s.parent(t.Context())
				defer end()
				d := testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: limit}, func(ctx context.Context, _ string) (string, error) {
					got <- s.observe(ctx, began)
					return "out", nil
				})
				_, err := testkit.Call(runOf(parent), d)
				assert.Error(t, err)
				assert.Equal(t, want, <-got, "seed %d, %s", seed, where)
			})
			if t.Failed() {
				return
			}
		}
	}
}

// Contexts are derived, canceled and watched while the context of the attempt ends.
func TestContextOfAnAttemptEndsWhileItIsUsed(t *testing.T) {
	_, ctx := testkit.Run(t)
	for range 50 {
		var registered, called, stopped atomic.Int64
		var users, callbacks sync.WaitGroup
		returned := make(chan struct{}) // closed when the handler returns, which may be after the call
		d := testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Millisecond}, func(ctx context.Context, _ string) (string, error) {
			defer close(returned)
			for i := range 4 {
				users.Go(func() {
					for running := true; running; {
						running = ctx.Err() == nil // one more round after the context has ended
						registered.Add(1)
						callbacks.Add(1)
						child, cancel := context.WithCancel(ctx)
						stop := context.AfterFunc(child, func() { called.Add(1); callbacks.Done() })
						if i%2 == 0 && stop() {
							stopped.Add(1)
							callbacks.Done()
						}
						cancel()
					}
				})
			}
			<-ctx.Done()
			users.Wait()
			return "", ctx.Err()
		})
		_, err := testkit.Call(ctx, d)
		testkit.Failed(t, err, record.ReasonExhausted)
		<-returned
		callbacks.Wait()
		assert.Equal(t, registered.Load(), called.Load()+stopped.Load(), "callbacks")
	}
}

func TestEachAttemptOfARunHasItsOwnTime(t *testing.T) {
	for seed := range uint64(20) {
		testkit.Bubble(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			var callers sync.WaitGroup
			for caller := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, caller))
				callers.Go(func() {
					for i := range 20 {
						// This way, no two attempts end at the same time.
						limit := time.Duration(1+random.IntN(20))*time.Second + time.Duration(caller)*time.Millisecond
						takes := time.Duration(1+random.IntN(20))*time.Second + time.Duration(4+caller)*time.Millisecond
						elapsed := testkit.Stopwatch()
						d := testkit.Tool(t, fmt.Sprint("tool", caller), core.RetryConfig{MaxAttempts: 1, AttemptTimeout: limit}, testkit.Listening(takes))
						out, err := testkit.Call(ctx, d)
						if takes < limit {
							testkit.Completed(t, out, err)
						} else {
							testkit.Failed(t, err, record.ReasonExhausted)
							assert.ErrorIs(t, err, context.DeadlineExceeded)
						}
						assert.Equal(t, min(takes, limit), elapsed(), "caller %d, call %d: of %v, limit %v", caller, i, takes, limit)
					}
				})
			}
			callers.Wait()
		})
	}
}

func TestTimerOfAnAttemptDoesNotKeepItsRun(t *testing.T) {
	run := func() weak.Pointer[testkit.Publisher] {
		p := testkit.Publisher(func(record.Record) {})
		st := state.New(state.WithPublisher(&p))
		d := testkit.Tool(t, "tool", core.RetryConfig{AttemptTimeout: time.Hour}, testkit.Succeed)
		out, err := testkit.Call(st.Context(t.Context()), d)
		testkit.Completed(t, out, err)
		assert.NoError(t, st.Close())
		return weak.Make(&p)
	}
	p := run()
	runtime.GC()
	runtime.GC() // objects that a timer refers to may not become collectable until the first GC
	assert.Nil(t, p.Value(), "the publisher of the run")
}

// If a call is still running when the handler that made it returns, the call is cut off and does
// not change the outcome of that handler's attempt.
func TestAbandonedCallDoesNotSuspendAnAttemptThatIsOver(t *testing.T) {
	for range 20 {
		for name, left := range map[string]*testkit.Definition{
			"in a wait":    testkit.Tool(t, "left", core.RetryConfig{InitialDelay: 5 * time.Second}, testkit.Fail(errFlaky)),
			"in a handler": testkit.Tool(t, "left", core.RetryConfig{}, testkit.Listening(time.Hour)),
		} {
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t)
				out, err := testkit.Call(ctx, testkit.Agent(t, "agent", timed(1), func(ctx context.Context, _ string) (string, error) {
					go func() { _, _ = testkit.Call(ctx, left) }()
					return "out", testkit.Pause(ctx, time.Second)
				}))
				assert.NoError(t, err, name)
				testkit.Completed(t, out, err)
			})
		}
	}
}
