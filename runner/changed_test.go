package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

func TestOtherCodeUnderTheSameVersionStopsTheRunAndRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var mu sync.Mutex
		var made []string
		note := func(name string) func(context.Context, word) (string, error) {
			return decorators.Tool(name, "", func(_ context.Context, in word) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, name)
				return in.Text, nil
			}).Call
		}
		program := func(first string) func(context.Context, word) (string, error) {
			return func(ctx context.Context, in word) (string, error) {
				if _, err := note(first)(ctx, in); err != nil {
					return "", err
				}
				if err := core.Sleep(ctx, time.Hour); err != nil {
					return "", err
				}
				return note("last")(ctx, in)
			}
		}
		r := newRunner(t, store, runner.Options{})
		_, err := runner.Register(r, agent("work", program("first"))).Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		stop := serve(t, r)
		synctest.Wait()
		require.NoError(t, stop())

		var ended []runner.Notice
		other := newRunner(t, store, runner.Options{Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeClosed {
				ended = append(ended, e)
			}
		}})
		runner.Register(other, agent("work", program("another")))
		stop = serve(t, other)
		info, err := other.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		assert.Equal(t, record.InterruptDiverge, info.Stop.Reason)
		synctest.Wait()
		require.Len(t, ended, 1)
		assert.Contains(t, ended[0].String(), "closed run a of work 1: interrupted (divergence): ")
		assert.Contains(t, ended[0].String(), "work/another", "what was asked for")
		assert.Contains(t, ended[0].String(), "work/first", "what was recorded")
		sleep(24 * time.Hour) // the run is not tried again
		require.NoError(t, stop())
		assert.Equal(t, []string{"first"}, made)

		again := newRunner(t, store, runner.Options{})
		runner.Register(again, agent("work", program("first")))
		defer serve(t, again)()
		require.NoError(t, again.Resume(t.Context(), "a"))
		info, err = again.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.Equal(t, []string{"first", "last"}, made)
	})
}

// A count is a word whose text field has another type. A title is a word without that field.
type (
	count struct {
		Text int `json:"text"`
	}
	title struct {
		Title string `json:"title"`
	}
)

// events collects the notices of a runner.
type events struct {
	mu  sync.Mutex
	all []runner.Notice
}

func (e *events) observe(event runner.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind runner.NoticeType) (found []runner.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Type == kind {
			found = append(found, event)
		}
	}
	return found
}

func TestInputThatDoesNotFitTheCurrentCode(t *testing.T) {
	never := errors.New("it is not called")
	registers := map[string]func(r *runner.Runner){
		"text: got a string, want int": func(r *runner.Runner) {
			runner.Register(r, decorators.Agent("work", "", func(context.Context, count) (string, error) { return "", never }))
		},
		"has no field for text: x": func(r *runner.Runner) {
			runner.Register(r, decorators.Agent("work", "", func(context.Context, title) (string, error) { return "", never }))
		},
	}
	for want, register := range registers {
		for _, begun := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				work := agent("work", func(ctx context.Context, in word) (string, error) { return in.Text, core.Sleep(ctx, time.Hour) })
				r := newRunner(t, store, runner.Options{})
				_, err := runner.Register(r, work).Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
				if begun {
					stop := serve(t, r)
					synctest.Wait()
					require.NoError(t, stop())
				}

				var seen events
				other := newRunner(t, store, runner.Options{Observe: seen.observe})
				register(other)
				stop := serve(t, other)
				info, err := other.Wait(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusInterrupted, info.Status)
				assert.Equal(t, record.InterruptDiverge, info.Stop.Reason)
				assert.Contains(t, info.Stop.Message, want)
				sleep(24 * time.Hour) // the run is not tried again
				require.NoError(t, stop())
				assert.Len(t, seen.of(runner.NoticeOpened), 1)
				ended := seen.of(runner.NoticeClosed)
				require.Len(t, ended, 1)
				require.ErrorIs(t, ended[0].Err, runner.ErrInput, "the notice that a service logs")
				assert.Equal(t, `closed run a of work 1: interrupted (divergence): `+ended[0].Err.Error(), ended[0].String())

				again := newRunner(t, store, runner.Options{})
				program := runner.Register(again, work)
				defer serve(t, again)()
				require.NoError(t, again.Resume(t.Context(), "a"))
				_, err = again.Wait(t.Context(), "a")
				require.NoError(t, err)
				out, err := program.Result(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, "x", out)
			})
		}
	}
}

// An idler is an actor that makes no calls.
type idler struct{}

func (idler) Name() string                               { return "idle" }
func (idler) Call(context.Context, word) (string, error) { return "", errors.New("away") }
func (idler) DecodeInput(json.RawMessage) (word, error)  { return word{}, nil }
func (idler) Description() string                        { return "" }
func (idler) InputSchema() json.RawMessage               { return nil }
func (idler) Compensations() []*core.Compensation        { return nil }

// A process that cannot continue a run must not open it again just because another process opens
// it.
func TestRunThatCannotContinueIsOpenedOnceByEachProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		// The run belongs to the program but has no input.
		bad, err := snapshot.NewRun(snapshot.Info{RunID: "bad", Status: snapshot.StatusQueued, Program: "echo", Version: "1"}, nil)
		require.NoError(t, err)
		_, err = store.Create(t.Context(), bad)
		require.NoError(t, err)
		var seen events
		for i := range 3 {
			r := newRunner(t, store, runner.Options{Observe: seen.observe})
			runner.Register(r, echo)
			idle := runner.Register(r, idler{})
			if i == 0 {
				_, err = idle.Start(t.Context(), "idle", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
			}
			serve(t, r)
			sleep(time.Second)
		}
		sleep(time.Hour)
		texts := make(map[string]int)
		for _, e := range seen.of(runner.NoticeTrouble) {
			texts[e.String()]++
		}
		assert.Equal(t, map[string]int{
			"trouble run bad of echo 1: queued: state: open run bad: the run has no record of its input":                                 3,
			"trouble run idle of idle 1: queued: its program made no call: the actor must be an agent or a tool of package actors\naway": 3,
		}, texts)
	})
}

// A run that one build has refused is tried once by every other build that starts to serve.
func TestRefusedRunIsTriedOnceByAnotherBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, entered := memstore.New(), 0
		build := func(name, first string, serves time.Duration) snapshot.Info {
			r := newRunner(t, store, runner.Options{Build: name})
			program := runner.Register(r, agent("work", func(ctx context.Context, in word) (string, error) {
				entered++
				if _, err := core.Step(ctx, first, func(context.Context) (string, error) { return first, nil }); err != nil {
					return "", err
				}
				return in.Text, core.Sleep(ctx, time.Hour)
			}))
			if entered == 0 {
				_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
			}
			stop := serve(t, r)
			synctest.Wait()
			sleep(serves)
			require.NoError(t, stop())
			info, err := store.Info(t.Context(), "a")
			require.NoError(t, err)
			return info
		}
		require.Equal(t, snapshot.StatusPaused, build("1", "look", time.Minute).Status)
		info := build("2", "see", 2*time.Hour)
		require.Equal(t, record.InterruptDiverge, info.Stop.Reason)
		assert.Equal(t, "2", info.RefusedBy)
		for i, name := range []string{"2", "3", "3"} {
			before := entered
			info = build(name, "see", 2*time.Hour)
			assert.Equal(t, record.InterruptDiverge, info.Stop.Reason)
			assert.Equal(t, before+[]int{0, 1, 0}[i], entered, "build %s", name)
		}
		info = build("4", "look", 2*time.Hour)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.Empty(t, info.RefusedBy)
	})
}
