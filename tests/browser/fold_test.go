package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// foldRecords takes a snapshot and folds the events after it into the snapshot's runs. compare()
// then returns the differences from the server's state.
const foldRecords = `(async () => {
	const fold = await import(new URL("fold.js", document.baseURI));
	const first = await (await fetch("api/runs?limit=1000")).json();
	const runs = new Map(first.runs.map((state) => [state.run_id, fold.adopt(state)]));
	const source = new EventSource("events?after=" + first.cursor);
	let last = first.cursor;
	const holes = [];
	for (const name of ["started", "completed", "failed", "retrying", "interrupted", "awaiting", "recorded",
		"run_started", "run_completed", "run_failed", "run_interrupted", "run_paused", "run_cancelled"]) {
		source.addEventListener(name, (event) => {
			last = event.lastEventId;
			const record = JSON.parse(event.data);
			if (!runs.has(record.run_id)) runs.set(record.run_id, fold.begin(record.run_id));
			for (const time of ["once", "twice"]) { // the second changes nothing
				const result = fold.take(runs.get(record.run_id), record);
				if (result === fold.hole || result === fold.reopened) holes.push(result + " " + event.data);
			}
		});
	}
	await new Promise((resolve) => source.onopen = resolve);

	const view = (run, current, waiting) => JSON.stringify({
		id: run.run_id, status: run.status, last: run.last_seq, calls: run.calls,
		usage: [run.usage.input_tokens ?? 0, run.usage.output_tokens ?? 0, run.usage.estimated ?? false],
		current: current && [current.address, current.execution_status, current.retry_attempt],
		waiting: waiting.map((c) => [c.address, c.retry_attempt, c.max_attempts, c.error_class, c.delay_source, c.next_attempt_at]),
		error: run.last_error && [run.last_error.address, run.last_error.error_class, run.last_error.retry_attempt, run.last_error.will_retry],
		stop: run.stop && [run.stop.reason, run.stop.by, run.stop.message].map((text) => text ?? ""),
		questions: (run.questions ?? []).map((q) => [q.id, q.message]),
	});
	const number = (cursor) => Number(cursor.split("-")[1]);
	globalThis.compare = async () => {
		const end = await (await fetch("api/runs?limit=1000")).json();
		while (number(last) < number(end.cursor)) await new Promise((resolve) => setTimeout(resolve, 10));
		const differences = holes.slice();
		for (const state of end.runs) {
			const run = runs.get(state.run_id);
			const server = view(state, state.current, state.waiting ?? []);
			const page = view(run, fold.current(run), fold.waiting(run));
			if (server !== page) differences.push("server " + server + "\n  page " + page);
		}
		const all = (count) => end.runs.reduce((sum, run) => sum + count(run), 0);
		return {
			runs: end.runs.length, differences,
			waiting: all((run) => run.calls.waiting), retries: all((run) => run.calls.retries), questions: all((run) => run.questions?.length ?? 0),
		};
	};
	return first.runs.filter((state) => state.status === "running").length;
})()`

type comparison struct {
	Runs, Waiting, Retries, Questions int
	Differences                       []string
}

// TestThePageFoldsAsTheServerDoes checks that the page and the server compute the same state from
// the same records, regardless of when the snapshot was taken, and that repeated records change
// nothing.
func TestThePageFoldsAsTheServerDoes(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := open(t, s.url())
	c := &crowd{dice: rand.New(rand.NewPCG(4, 2))}
	c.begin(t, s.dash, 40)
	require.NotZero(t, eval[int](p, foldRecords), "some are in the middle")
	c.begin(t, s.dash, 20)

	var found comparison
	// The runs stop changing when they wait for the end of the test, if not earlier. Only then do
	// the server and the page have the same records.
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if found = eval[comparison](p, `compare()`); len(found.Differences) == 0 && found.Runs == 60 {
			break
		}
	}
	assert.Empty(t, found.Differences)
	assert.Equal(t, 60, found.Runs)
	assert.NotZero(t, found.Waiting)
	assert.NotZero(t, found.Retries)
	assert.NotZero(t, found.Questions)
}

// crowd makes runs that do random things.
type crowd struct {
	mu    sync.Mutex
	dice  *rand.Rand
	count int
}

func (c *crowd) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dice.IntN(n)
}

func (c *crowd) begin(t *testing.T, publisher state.Publisher, n int) {
	agent := c.agent()
	for range n {
		c.count++
		st := begin(t, publisher, fmt.Sprintf("run-%d", c.count))
		background(t, func() {
			if c.roll(4) == 0 { // interrupt or cancel it
				reason := []record.InterruptReason{record.InterruptUser, record.InterruptCancel}[c.roll(2)]
				defer time.AfterFunc(time.Duration(c.roll(20))*time.Millisecond, func() { st.Interrupt(snapshot.Stop{Reason: reason, By: "ops", Message: "enough"}) }).Stop()
			}
			_, _ = agent.Call(st.Context(t.Context()), City{"Oslo"})
			_ = st.Close()
		})
		t.Cleanup(func() { _ = st.Close() })
	}
}

// agent returns an agent that calls tools, both sequentially and in parallel, and then ends in a
// random way.
func (c *crowd) agent() actors.Agent[City, string] {
	short := decorators.Tool("short", "fails now and then", func(ctx context.Context, _ City) (string, error) {
		core.AddUsage(ctx, core.Usage{InputTokens: 3, OutputTokens: 1, Estimated: c.roll(8) == 0})
		return "fine", c.trouble(ctx)
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 4, InitialDelay: time.Millisecond, Jitter: core.NoJitter})).Require(func(context.Context, City) error {
		if c.roll(12) == 0 {
			return errors.New("not today")
		}
		return nil
	})
	long := decorators.Tool("long", "waits an hour", func(context.Context, City) (string, error) { return "", core.Retryable(errBusy) },
		actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Hour, MaxDelay: time.Hour}))
	busy := decorators.Tool("busy", "runs until the end", func(ctx context.Context, _ City) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	return decorators.Agent("agent", "does one thing and another", func(ctx context.Context, in City) (string, error) {
		for range c.roll(4) {
			_, _ = short.Call(ctx, in)
		}
		_, _ = actors.Map(ctx, actors.Group{Name: "some", CollectAll: c.roll(2) == 0}, short, make([]City, c.roll(6)))
		switch c.roll(6) {
		case 0:
			return "", errors.New("it ends badly")
		case 1:
			_, err := core.Await[bool](ctx, "Go on?")
			return "", err
		case 2:
			_, err := long.Call(ctx, in)
			return "", err
		case 3:
			_, err := actors.Parallel(ctx, actors.Group{Name: "held"},
				func(ctx context.Context) (string, error) { return long.Call(ctx, in) },
				func(ctx context.Context) (string, error) { return busy.Call(ctx, in) },
				func(ctx context.Context) (string, error) { return short.Call(ctx, in) })
			return "", err
		}
		return "fine", nil
	})
}

func (c *crowd) trouble(ctx context.Context) error {
	switch c.roll(5) {
	case 0:
		return core.Retryable(errBusy)
	case 1:
		return core.WithRetryAfter(core.Retryable(errBusy), time.Millisecond)
	case 2:
		state.From(ctx).Log(slog.LevelWarn, "there is trouble", nil)
		return errors.New("for good")
	}
	return nil
}
