package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/breaker"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type city struct {
	Name  string `json:"name"`
	Trace string `json:"trace,omitempty"`
}

// An oracle counts the calls of its tool.
type oracle struct{ asked atomic.Int64 }

func (o *oracle) tool(c *cache.Cache, version string, ttl time.Duration, opts ...actors.Option) actors.Tool[city, string] {
	return decorators.Tool("look_up", "", func(_ context.Context, in city) (string, error) {
		return fmt.Sprint(in.Name, " ", o.asked.Add(1)), nil
	}, append(opts, actors.WithCache(c, version, ttl))...)
}

func memory() *cache.Cache { return cache.New(cache.NewMemory(1<<20), cache.Options{}) }

func pause(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // on the fake clock

// storages returns a storage of each kind.
func storages(t *testing.T) map[string]cache.Storage {
	dir, err := cache.OpenDir(filepath.Join(t.TempDir(), "cache"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return map[string]cache.Storage{"memory": cache.NewMemory(1 << 20), "dir": dir}
}

func TestSecondCallIsAnsweredByTheCacheInEveryRun(t *testing.T) {
	for name, storage := range storages(t) {
		synctest.Test(t, func(t *testing.T) {
			var o oracle
			c := cache.New(storage, cache.Options{OnError: func(err error) { t.Error(err) }})
			tool := o.tool(c, "1", time.Hour)
			call := func(tool actors.Tool[city, string], in string) (string, state.Report, []record.Record) {
				st := state.New()
				out, err := tool.Call(st.Context(t.Context()), city{Name: in})
				require.NoError(t, err)
				records, err := st.Records(t.Context())
				require.NoError(t, err)
				require.NoError(t, st.Close())
				return out, st.Report(), records
			}
			out, report, records := call(tool, "Oslo")
			assert.Equal(t, "Oslo 1", out, name)
			assert.Zero(t, report.Cached)
			assert.False(t, cached(records))
			out, report, records = call(tool, "Oslo")
			assert.Equal(t, "Oslo 1", out, name)
			assert.Equal(t, 1, report.Cached)
			assert.Equal(t, 1, report.Executed)
			assert.True(t, cached(records))
			out, _, _ = call(tool, "Rome")
			assert.Equal(t, "Rome 2", out, "another input")
			out, _, _ = call(o.tool(c, "2", time.Hour), "Oslo")
			assert.Equal(t, "Oslo 3", out, "another version")
			pause(time.Hour)
			out, _, _ = call(tool, "Oslo")
			assert.Equal(t, "Oslo 4", out, "the cached output has expired")
		})
	}
}

func cached(records []record.Record) bool {
	for _, r := range records {
		if r.Status == record.StatusCompleted && r.Detail != nil && r.Detail.Cached {
			return true
		}
	}
	return false
}

func TestIdentityOfTheInputDecides(t *testing.T) {
	var o oracle
	c := memory()
	plain, named := o.tool(c, "1", 0), o.tool(c, "2", 0, actors.WithIdentity(func(in city) any { return in.Name }))
	for i, trace := range []string{"a", "b"} {
		out, err := plain.Call(t.Context(), city{"Oslo", trace})
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint("Oslo ", i+1), out)
	}
	for _, trace := range []string{"a", "b"} {
		out, err := named.Call(t.Context(), city{"Oslo", trace})
		require.NoError(t, err)
		assert.Equal(t, "Oslo 3", out)
	}
}

// The idempotency key of a request does not cover the results of the tools, although the answer
// depends on them.
func TestDifferentToolResultsAreDifferentInputs(t *testing.T) {
	asked := 0
	llm := decorators.LLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		asked++
		return actors.Response{Message: actors.Assistant(fmt.Sprint("answer ", asked))}, nil
	}, actors.WithCache(memory(), "1", 0))
	for i, result := range []string{"4 °C", "5 °C", "4 °C"} {
		resp, err := llm.Call(t.Context(), actors.Request{Messages: []actors.Message{
			{Role: actors.RoleUser, Text: "How warm?"}, {Role: actors.RoleTool, ToolCallID: "1", Text: result},
		}})
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint("answer ", []int{1, 2, 1}[i]), resp.Message.Text)
	}
}

func TestFailuresAreNotKept(t *testing.T) {
	asked := 0
	tool := decorators.Tool("flaky", "", func(context.Context, city) (string, error) {
		if asked++; asked == 1 {
			return "", core.Retryable(errors.New("not yet"))
		}
		return "fine", nil
	}, actors.WithCache(memory(), "1", 0), actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	for range 2 {
		out, err := tool.Call(t.Context(), city{})
		require.NoError(t, err)
		assert.Equal(t, "fine", out)
	}
	assert.Equal(t, 2, asked)
}

func TestAThousandCallersMakeOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		tool := decorators.Tool("slow", "", func(context.Context, city) (string, error) {
			pause(time.Minute)
			made++
			return "out", nil
		}, actors.WithCache(memory(), "1", 0))
		st := state.New()
		outs, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "g"}, tool, make([]city, 1000))
		require.NoError(t, err)
		assert.Equal(t, 1, made)
		assert.Equal(t, 999, st.Report().Cached)
		assert.NotContains(t, outs, "")
		require.NoError(t, st.Close())
	})
}

// If the call fails, the next waiting caller makes it.
func TestNextCallerMakesTheCallThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		tool := decorators.Tool("slow", "", func(context.Context, city) (string, error) {
			pause(time.Second)
			if made++; made < 3 {
				return "", errors.New("boom")
			}
			return "out", nil
		}, actors.WithCache(memory(), "1", 0), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		var failed atomic.Int64
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := tool.Call(t.Context(), city{}); err != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		assert.Equal(t, 3, made)
		assert.EqualValues(t, 2, failed.Load())
	})
}

// No caller waits for an abandoned handler, and the output of the handler is not cached.
func TestAbandonedCallIsMadeByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64 // including the abandoned call
		tool := decorators.Tool("deaf", "", func(context.Context, city) (string, error) {
			if made.Add(1) == 1 {
				pause(time.Hour)
				return "late", nil
			}
			return "out", nil
		}, actors.WithCache(memory(), "1", 0), actors.WithRetry(core.RetryConfig{AttemptTimeout: time.Second, InitialDelay: core.NoDelay}))
		out, err := tool.Call(t.Context(), city{})
		require.NoError(t, err)
		assert.Equal(t, "out", out)
		pause(2 * time.Hour)
		out, err = tool.Call(t.Context(), city{})
		require.NoError(t, err)
		assert.Equal(t, "out", out)
		assert.EqualValues(t, 2, made.Load())
	})
}

func TestCallInsideItselfWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		depth := 0
		var tool actors.Tool[city, int]
		tool = decorators.Tool("deep", "", func(ctx context.Context, in city) (int, error) {
			if depth++; depth == 3 {
				return depth, nil
			}
			return tool.Call(ctx, in)
		}, actors.WithCache(memory(), "1", 0))
		out, err := tool.Call(t.Context(), city{})
		require.NoError(t, err)
		assert.Equal(t, 3, out)
	})
}

// A cached output that no longer fits the call is dropped, and the call is made again.
func TestCallsWithStaleOutputsAreMadeAgain(t *testing.T) {
	c := memory()
	old := decorators.Tool("look_up", "", func(context.Context, city) (string, error) { return "text", nil }, actors.WithCache(c, "1", 0))
	_, err := old.Call(t.Context(), city{})
	require.NoError(t, err)
	fresh := decorators.Tool("look_up", "", func(context.Context, city) (int, error) { return 7, nil }, actors.WithCache(c, "1", 0))
	out, err := fresh.Call(t.Context(), city{})
	require.NoError(t, err)
	assert.Equal(t, 7, out)
	wants := 8
	strict := decorators.Tool("look_up", "", func(context.Context, city) (int, error) { return wants, nil }, actors.WithCache(c, "1", 0)).
		Ensure(func(_ context.Context, _ city, out int) error {
			if out != wants {
				return fmt.Errorf("%d is not %d", out, wants)
			}
			return nil
		})
	for wants = 8; wants < 10; wants++ {
		for range 3 {
			out, err = strict.Call(t.Context(), city{})
			require.NoError(t, err)
			assert.Equal(t, wants, out)
		}
	}
}

func TestReplayDoesNotReadTheCache(t *testing.T) {
	var o oracle
	store, storage := memstore.New(), &watched{Storage: cache.NewMemory(1 << 20)}
	tool := o.tool(cache.New(storage, cache.Options{}), "1", 0)
	for range 3 {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		out, err := tool.Call(st.Context(t.Context()), city{Name: "Oslo"})
		require.NoError(t, err)
		assert.Equal(t, "Oslo 1", out)
		require.NoError(t, st.Close())
	}
	assert.Equal(t, 2, storage.asked, "the cache is read before and after the call is registered as pending")
	differences, err := state.ValidateExecute(t.Context(), store, "r", func(ctx context.Context) error {
		_, err := tool.Call(ctx, city{Name: "Oslo"})
		return err
	})
	require.NoError(t, err)
	assert.Len(t, differences, 1, "the call is executed")
	assert.Equal(t, 2, storage.asked, "the validation does not read the cache")
}

// watched counts how often the storage is read.
type watched struct {
	cache.Storage
	asked int
}

func (w *watched) Get(ctx context.Context, key string) ([]byte, bool, error) {
	w.asked++
	return w.Storage.Get(ctx, key)
}

// A hit does not call the service, so a circuit breaker must not take it for a probe.
func TestHitIsNotAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(breaker.Options{Name: "x", Failures: 1, OpenFor: time.Second})
		down := false
		tool := decorators.Tool("tool", "", func(context.Context, city) (string, error) {
			if down {
				return "", context.DeadlineExceeded
			}
			return "out", nil
		}, actors.WithCache(memory(), "1", 0), actors.WithInterceptors(b.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		_, err := tool.Call(t.Context(), city{Name: "known"})
		require.NoError(t, err)
		down = true
		_, err = tool.Call(t.Context(), city{Name: "new"})
		require.Error(t, err)
		pause(2 * time.Second)
		_, err = tool.Call(t.Context(), city{Name: "known"})
		require.NoError(t, err)
		assert.Equal(t, "half_open", b.State())
	})
}

func TestCallsAreMadeIfTheStorageFails(t *testing.T) {
	var o oracle
	var problems []error
	tool := o.tool(cache.New(broken{}, cache.Options{OnError: func(err error) { problems = append(problems, err) }}), "1", 0)
	for i := range 2 {
		out, err := tool.Call(t.Context(), city{Name: "Oslo"})
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint("Oslo ", i+1), out)
	}
	assert.NotEmpty(t, problems)
}

type broken struct{}

func (broken) Get(context.Context, string) ([]byte, bool, error)    { return nil, true, os.ErrInvalid }
func (broken) Put(context.Context, string, []byte, time.Time) error { return os.ErrInvalid }
func (broken) Delete(context.Context, string) error                 { return os.ErrInvalid }

func TestHitIsSeenOnTheConsole(t *testing.T) {
	var o oracle
	var out bytes.Buffer
	tool := o.tool(memory(), "1", 0)
	st := state.New(state.WithPublisher(printer.New(&out)))
	for range 2 {
		_, err := tool.Call(st.Context(t.Context()), city{})
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
	assert.Contains(t, out.String(), "look_up#2 [COMPLETED] from the cache (")
	assert.Equal(t, 1, strings.Count(out.String(), "from the cache"))
}

func TestHitIsStored(t *testing.T) {
	var o oracle
	store, c := memstore.New(), memory()
	for _, id := range []string{"a", "b"} {
		st, err := state.Open(t.Context(), store, id)
		require.NoError(t, err)
		_, err = o.tool(c, "1", 0).Call(st.Context(t.Context()), city{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		run, err := store.Load(t.Context(), id)
		require.NoError(t, err)
		var found *snapshot.Snapshot
		found, err = run.Snapshot()
		require.NoError(t, err)
		assert.Equal(t, id == "b", cached(found.Records))
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	panics := func(f func()) (text string) {
		defer func() { text = fmt.Sprint(recover()) }()
		f()
		return ""
	}
	var o oracle
	assert.Contains(t, panics(func() { o.tool(nil, "1", 0) }), `"look_up": WithCache got nil`)
	assert.Contains(t, panics(func() { o.tool(memory(), "1", -1) }), "ttl is -1ns, want a positive duration")
	assert.Contains(t, panics(func() { o.tool(memory(), "1", 0, actors.WithNoStore()) }), "NoStore")
	assert.Contains(t, panics(func() { cache.New(nil, cache.Options{}) }), "needs a storage")
	assert.Contains(t, panics(func() { cache.NewMemory(0) }), "NewMemory(0)")
}

// brokenStorage fails.
type brokenStorage struct{}

var errBroken = errors.New("the storage is broken")

func (brokenStorage) Get(context.Context, string) ([]byte, bool, error)    { return nil, false, errBroken }
func (brokenStorage) Put(context.Context, string, []byte, time.Time) error { return errBroken }
func (brokenStorage) Delete(context.Context, string) error                 { return errBroken }

func TestCallsThatWaitedShareTheOutputWhileTheStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New(brokenStorage{}, cache.Options{OnError: func(error) {}})
		tool := decorators.Tool("t", "", func(context.Context, struct{}) (int, error) {
			<-time.After(time.Minute)
			return 1, nil
		}, actors.WithCache(c, "1", 0))
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := tool.Call(t.Context(), struct{}{})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
