package streamer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

type runs struct {
	Now  time.Time
	Runs []streamer.RunState
	Next string
}

func attempt(n int) func(*record.Record) { return func(r *record.Record) { r.Attempt = n } }

func kind(k record.Kind) func(*record.Record) { return func(r *record.Record) { r.Kind = k } }

// fail publishes a failed attempt and the wait that follows it.
func (f *feed) fail(address string, n int, delay time.Duration, by record.Source) {
	r := f.call(address, record.StatusFailed, attempt(n), func(r *record.Record) {
		r.Err, r.Class, r.WillRetry, r.Delay, r.DelaySource = errors.New("down"), record.ClassServer, true, delay, by
	})
	r.Status, r.WillRetry, r.Duration, r.Detail = record.StatusRetrying, false, 0, nil
	r.Attempt++
	f.publish(r)
}

func TestOverviewShowsWhatWaitsAndWhy(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("storm", h.Publish)
	f.publish(record.Record{Kind: record.KindRun, Status: record.StatusStarted, Name: "pipeline", Detail: &record.Detail{Message: "a storm"}})
	f.call("agent", record.StatusStarted, kind(record.KindAgent))
	for _, tool := range []string{"agent/slow", "agent/fast"} {
		f.call(tool, record.StatusStarted)
	}
	f.fail("agent/slow", 0, time.Minute, record.SourceServer)
	f.fail("agent/fast", 0, time.Second, record.SourceBackoff)
	f.call("agent/llm", record.StatusStarted, kind(record.KindLLM))
	f.call("agent/llm", record.StatusCompleted, kind(record.KindLLM), func(r *record.Record) {
		r.Detail = &record.Detail{Usage: record.Usage{InputTokens: 10, OutputTokens: 5, Cost: 0.25}}
	})
	var got runs
	require.Equal(t, 200, get(t, server.URL+"/api/runs", &got))
	require.Len(t, got.Runs, 1)
	run := got.Runs[0]
	assert.Equal(t, "running", run.Status)
	assert.Equal(t, "a storm", run.Description)
	assert.Equal(t, "pipeline", run.Pipeline)
	assert.Equal(t, streamer.Calls{Started: 4, Completed: 1, Active: 3, Waiting: 2, Attempts: 4}, run.Calls)
	assert.Equal(t, record.Usage{InputTokens: 10, OutputTokens: 5, Cost: 0.25}, run.Usage)
	require.NotNil(t, run.Current)
	assert.Equal(t, "agent", run.Current.Address.String())
	require.Len(t, run.Waiting, 2)
	assert.Equal(t, "agent/fast", run.Waiting[0].Address.String(), "the next first")
	assert.Equal(t, "backoff", run.Waiting[0].DelaySource)
	assert.Equal(t, "retry_after", run.Waiting[1].DelaySource)
	assert.InDelta(t, 60, run.Waiting[1].RetryDelay, 0.001)
	assert.Equal(t, record.ClassServer.String(), run.Waiting[1].ErrorClass)
	assert.Equal(t, 1, run.Waiting[1].Attempt)
	assert.Equal(t, 3, run.Waiting[1].MaxAttempts)
	assert.NotNil(t, run.Waiting[1].NextAttemptAt)
	assert.Equal(t, "down", run.LastError.Message)

	f.call("agent/fast", record.StatusStarted, attempt(1))
	f.call("agent/fast", record.StatusCompleted, attempt(1))
	f.call("agent/slow", record.StatusFailed, attempt(2), func(r *record.Record) { r.Err, r.Reason = errors.New("gone"), record.ReasonExhausted })
	f.publish(record.Record{Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "agent?1", Detail: &record.Detail{Message: "go on?"}})
	f.call("agent", record.StatusAwaiting, kind(record.KindAgent), func(r *record.Record) {
		r.Class, r.Err = record.ClassCanceled, &record.InterruptedError{Reason: record.InterruptAwait, Question: "agent?1", Message: "go on?"}
	})
	f.end(record.StatusAwaiting)
	got = runs{}
	require.Equal(t, 200, get(t, server.URL+"/api/runs", &got))
	run = got.Runs[0]
	assert.Equal(t, "paused", run.Status)
	assert.Equal(t, streamer.Calls{Started: 4, Asking: 1, Completed: 2, Failed: 1, Attempts: 7, Retries: 3}, run.Calls, "the third attempt of a call implies the two before it")
	assert.Empty(t, run.Waiting)
	assert.Equal(t, "gone", run.LastError.Message)
	require.Len(t, run.Others, 1)
	assert.Contains(t, run.Others[0].Error, "go on?")
	assert.Empty(t, run.Others[0].ErrorClass, "a suspended call has not failed")
	require.Len(t, run.Questions, 1)
	assert.Equal(t, "go on?", run.Questions[0].Text)

	f.publish(record.Record{Kind: record.KindAnswer, Status: record.StatusRecorded, Name: "agent?1"})
	f.open()
	f.call("agent", record.StatusStarted, kind(record.KindAgent))
	got = runs{}
	require.Equal(t, 200, get(t, server.URL+"/api/runs", &got))
	run = got.Runs[0]
	assert.Equal(t, "running", run.Status)
	assert.Empty(t, run.Questions)
	assert.Equal(t, 4, run.Calls.Started, "the current call is not listed among the others")
}

func TestOverviewKnowsWhatHappenedBeforeTheProcessBegan(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.call("a", record.StatusStarted)
	f.call("a", record.StatusCompleted)
	f.end(record.StatusInterrupted)
	newFeed("old", source.put).open()

	source.open = true
	h, server := serve(t, source, streamer.Options{})
	f.to = func(r record.Record) { source.put(r); h.Publish(r) }
	f.open()
	f.call("b", record.StatusStarted)
	var got runs
	h.Publish(record.Record{RunID: "r", Kind: record.KindTool, Status: record.StatusRecovered, Replayed: true})
	require.Equal(t, 200, get(t, server.URL+"/api/runs", &got))
	require.Len(t, got.Runs, 2)
	assert.Equal(t, "r", got.Runs[0].RunID, "the last updated first")
	assert.Equal(t, streamer.Calls{Started: 2, Completed: 1, Active: 1, Attempts: 2, Restored: 1}, got.Runs[0].Calls)
	assert.False(t, got.Runs[0].Partial)
	assert.Equal(t, []string{"shelf"}, got.Runs[0].Tags)
	got = runs{}
	require.Equal(t, 200, get(t, server.URL+"/api/runs?limit=1", &got))
	assert.Len(t, got.Runs, 1)
	assert.NotEmpty(t, got.Next)
}

func TestCallsOfARunWhoseProcessWasKilledAreStopped(t *testing.T) {
	source := newShelf()
	source.open = true
	h, server := serve(t, source, streamer.Options{})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	f.call("agent", record.StatusStarted, kind(record.KindAgent))
	f.call("agent/pay", record.StatusStarted)
	f.call("agent/slow", record.StatusStarted)
	f.call("agent/slow", record.StatusFailed, func(r *record.Record) { r.WillRetry, r.Err = true, errors.New("down") })
	f.call("agent/slow", record.StatusRetrying, attempt(1))
	f.call("agent/nap", record.StatusAwaiting, func(r *record.Record) {
		r.Err = &record.InterruptedError{Reason: record.InterruptAwait, Awaits: record.AwaitTime}
	})
	states := func() (listed, one streamer.RunState) {
		var list runs
		var body struct{ Run streamer.RunState }
		require.Equal(t, 200, get(t, server.URL+"/api/runs", &list))
		require.Equal(t, 200, get(t, server.URL+"/api/runs/r", &body))
		return list.Runs[0], body.Run
	}
	listed, one := states()
	for _, s := range []streamer.RunState{listed, one} {
		assert.Equal(t, "running", s.Status)
		assert.Equal(t, 4, s.Calls.Active)
		require.NotNil(t, s.Current)
	}
	source.open = false // the process was killed
	listed, one = states()
	for _, s := range []streamer.RunState{listed, one} {
		assert.Equal(t, "interrupted", s.Status)
		assert.Equal(t, streamer.Calls{Started: 4, Active: 1, Waiting: 1, Stopped: 3, Attempts: 3}, s.Calls)
		assert.Nil(t, s.Current)
		require.Len(t, s.Waiting, 1, "it does not need the process")
		assert.Equal(t, "agent/nap", s.Waiting[0].Address.String())
		require.Len(t, s.Others, 3)
		for _, call := range s.Others {
			assert.Equal(t, record.StateStopped, call.State, call.Address)
		}
	}
	f.open()
	f.call("agent", record.StatusStarted, kind(record.KindAgent))
	source.open = true
	_, one = states()
	assert.Equal(t, streamer.Calls{Started: 4, Active: 2, Waiting: 1, Stopped: 2, Attempts: 4, Repeats: 1}, one.Calls)
}

func TestOneRunHasItsNewestRecordsAndTheCursorAfterThem(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{History: 20})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	f.log(99)
	var got struct {
		Cursor  string
		Run     streamer.RunState
		Records []struct{ Seq uint64 }
		Omitted uint64
	}
	for _, c := range []struct {
		query   string
		first   uint64
		records int
	}{{"", 1, 100}, {"?limit=10", 91, 10}, {"?limit=60", 41, 60}} {
		require.Equal(t, 200, get(t, server.URL+"/api/runs/r"+c.query, &got))
		require.Len(t, got.Records, c.records)
		assert.Equal(t, c.first, got.Records[0].Seq)
		assert.EqualValues(t, 100, got.Records[c.records-1].Seq)
		assert.Equal(t, c.first-1, got.Omitted)
		assert.EqualValues(t, 100, got.Run.LastSeq)
	}
	w := connect(t, server.URL+"/events?run=r&after="+got.Cursor, "")
	f.log(1)
	next, _ := seqs(t, w, 101)
	assert.Equal(t, []uint64{101}, next)
}

func TestRunThatEndedSaysHow(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	for status, want := range map[record.Status]string{
		record.StatusCompleted: "run_completed", record.StatusFailed: "run_failed",
		record.StatusInterrupted: "run_interrupted", record.StatusAwaiting: "run_paused",
	} {
		f := newFeed(want, h.Publish)
		f.open()
		f.publish(record.Record{Kind: record.KindRun, Status: status})
		w := connect(t, server.URL+"/events?run="+want, "")
		seqs(t, w, 1)
		_, name, _ := w.event(t)
		assert.Equal(t, want, name)
	}
}

func TestRunThatFailedSaysWhyAndWhere(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	st := state.New(state.WithRunID("r"), state.WithPublisher(h))
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay"}, func(context.Context, int) (int, error) {
		return 0, core.Permanent(errors.New("no money"))
	})
	require.NoError(t, err)
	_, err = d.Event().Execute(st.Context(t.Context()), 1)
	require.Error(t, err)
	require.NoError(t, st.Close())
	client := streamer.Client{URL: server.URL, Run: "r"}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if e.Name != "run_failed" {
			continue
		}
		var said struct {
			Error  string `json:"original_error"`
			Class  string `json:"error_class"`
			Reason string `json:"reason"`
		}
		require.NoError(t, e.Decode(&said))
		assert.Equal(t, "pay: permanent: no money", said.Error)
		assert.Equal(t, "permanent", said.Class)
		assert.Equal(t, "permanent", said.Reason)
		return
	}
}
