package jetstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

const (
	// lease is for tests in which a lease must expire. On a busy machine, a process may get no CPU
	// time for a second or two; this must not end its lease.
	lease = 3 * time.Second

	// longLease is for tests in which leases must not expire.
	longLease = 20 * time.Second

	// patience limits how long something may take to become true. It is long enough never to be
	// reached.
	patience = 3 * time.Minute
)

// worker is a store and its queue, with a connection of its own.
type worker struct {
	store *jetstream.Store
	queue *jetstream.Queue
}

func newWorker(t *testing.T, server *jstest.Server, lease time.Duration) worker {
	t.Helper()
	return workerOf(t, server.Connect(), lease)
}

func workerOf(t *testing.T, conn *nats.Conn, lease time.Duration) worker {
	t.Helper()
	s := open(t, conn, jetstream.Options{Lease: lease})
	q, err := jetstream.OpenQueue(t.Context(), s)
	require.NoError(t, err)
	return worker{s, q}
}

func (w worker) take(t *testing.T, programs ...runner.ProgramID) runner.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken, err := w.queue.Take(ctx, programs, 1)
	require.NoError(t, err)
	return taken[0]
}

// takesNothing checks that no job can be taken during a period that is much shorter than a lease.
func (w worker) takesNothing(t *testing.T, programs ...runner.ProgramID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	taken, err := w.queue.Take(ctx, programs, 1)
	if !assert.ErrorIs(t, err, context.DeadlineExceeded) {
		t.Fatalf("took %+v, want no job", taken[0].Entry())
	}
}

var echoID = runner.ProgramID{Name: "echo.v/1 größe", Version: "1.0"}

func TestJobIsTakenByOneWorkerAndEnds(t *testing.T) {
	server := jstest.Start(t)
	a, b := newWorker(t, server, longLease), newWorker(t, server, longLease)
	e := runner.QueueEntry{RunID: "run.1", Program: echoID, Priority: 7, Due: time.Now().Round(0)}
	added, err := a.queue.Add(t.Context(), e)
	require.NoError(t, err)
	assert.True(t, added)
	added, err = b.queue.Add(t.Context(), e)
	require.NoError(t, err)
	assert.False(t, added, "the run has a job")

	l := b.take(t, echoID)
	assert.Equal(t, "run.1", l.Entry().RunID)
	assert.Equal(t, echoID, l.Entry().Program)
	assert.Equal(t, 7, l.Entry().Priority)
	a.takesNothing(t, echoID)
	require.NoError(t, l.Done(t.Context()))
	added, err = a.queue.Add(t.Context(), e)
	require.NoError(t, err)
	assert.True(t, added, "the job has ended")
}

func TestWakeIsNotLostWhileSomebodyHasTheRun(t *testing.T) {
	server := jstest.Start(t)
	w := newWorker(t, server, longLease)
	e := runner.QueueEntry{RunID: "r", Program: echoID}
	require.NoError(t, w.queue.Wake(t.Context(), e))
	first := w.take(t, echoID)
	require.NoError(t, w.queue.Wake(t.Context(), e))
	require.NoError(t, first.Done(t.Context())) // this must not end the second job
	require.NoError(t, w.take(t, echoID).Done(t.Context()))
	w.takesNothing(t, echoID)
}

func TestParkedJobIsOfferedWhenItIsDue(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	w := newWorker(t, server, longLease)
	_, err := w.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
	require.NoError(t, err)
	taken := w.take(t, echoID)
	due := time.Now().Add(1500 * time.Millisecond)
	require.NoError(t, taken.Park(t.Context(), due))
	l := w.take(t, echoID)
	assert.False(t, time.Now().Before(due), "the job came too early")
	require.NoError(t, l.Done(t.Context()))

	added, err := w.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID, Due: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	assert.True(t, added)
	added, err = w.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID, Due: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	assert.False(t, added, "the job waits already")
	w.takesNothing(t, echoID)
}

func TestJobOfAWorkerThatIsGoneIsOfferedAgain(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	a, b := newWorker(t, server, lease), newWorker(t, server, lease)
	_, err := a.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
	require.NoError(t, err)
	l := a.take(t, echoID)
	ctx, cancel := context.WithTimeout(t.Context(), 2*lease) // keep the job for longer than a lease
	defer cancel()
	_, err = b.queue.Take(ctx, []runner.ProgramID{echoID}, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	l.Abandon()
	require.NoError(t, b.take(t, echoID).Done(t.Context()))
}

// TestPrioritiesOfAnotherProcessAreTakenInOrder checks that the worker learns which priorities are
// in use, that priorities beyond the limits count as the limit, and that jobs of one priority are
// taken in order.
func TestPrioritiesOfAnotherProcessAreTakenInOrder(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	client, w := newWorker(t, server, longLease), newWorker(t, server, longLease)
	other := runner.ProgramID{Name: "other", Version: "1"}
	priorities := []int{0, 7, -3, 1000, 7, 6, -3, 100, 0, -1000}
	for i, priority := range priorities {
		program := echoID
		if i%2 == 1 {
			program = other
		}
		_, err := client.queue.Add(t.Context(), runner.QueueEntry{RunID: fmt.Sprint("r", i), Program: program, Priority: priority})
		require.NoError(t, err)
	}
	var got []int
	inOrder := map[int]string{}
	for range priorities {
		l := w.take(t, echoID, other)
		e := l.Entry()
		got = append(got, max(-100, min(e.Priority, 100)))
		if e.Program == echoID {
			assert.Less(t, inOrder[e.Priority], e.RunID)
			inOrder[e.Priority] = e.RunID
		}
		require.NoError(t, l.Done(t.Context()))
	}
	assert.Equal(t, []int{100, 100, 7, 7, 6, 0, 0, -3, -3, -100}, got)
}

// TestFirstJobOfAPriorityReachesAWaitingWorker has a worker that waits for jobs of only those
// priorities that were in use when it began to wait.
func TestFirstJobOfAPriorityReachesAWaitingWorker(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	client, w := newWorker(t, server, longLease), newWorker(t, server, longLease)
	w.takesNothing(t, echoID)
	taken := make(chan runner.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := w.queue.Take(ctx, []runner.ProgramID{echoID}, 1)
		if assert.NoError(t, err) {
			taken <- l[0]
		}
	}()
	_, err := client.queue.Add(t.Context(), runner.QueueEntry{RunID: "urgent", Program: echoID, Priority: 42})
	require.NoError(t, err)
	assert.Equal(t, "urgent", (<-taken).Entry().RunID)
}

type word struct {
	Text string `json:"text"`
}

// serving runs a runner until the returned function is called.
func (w worker) serving(t *testing.T, register func(*runner.Runner)) (*runner.Runner, func()) {
	t.Helper()
	r, err := runner.New(w.store, runner.Options{Queue: w.queue, ParkAfter: time.Millisecond, Grace: -1, Observe: func(e runner.Notice) {
		if e.Type == runner.NoticeTrouble {
			t.Log(e)
		}
	}})
	require.NoError(t, err)
	register(r)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	return r, func() {
		cancel()
		assert.NoError(t, <-served)
	}
}

func TestRunsContinueInAnyWorker(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	entered := make(chan string, 10)
	register := func(name string) func(*runner.Runner) {
		return func(r *runner.Runner) {
			runner.Register(r, decorators.Agent("ask", "", func(ctx context.Context, in word) (string, error) {
				answer, err := core.Await[string](ctx, "who?")
				if err != nil {
					return "", err
				}
				if err := core.Sleep(ctx, 300*time.Millisecond); err != nil {
					return "", err
				}
				return in.Text + " " + answer, nil
			}))
			runner.Register(r, decorators.Agent("hang", "", func(ctx context.Context, _ word) (string, error) {
				entered <- name
				if name == "first" {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return name, nil
			}))
		}
	}
	first, stopFirst := newWorker(t, server, longLease).serving(t, register("first"))
	for i := range 5 {
		_, err := first.Start(t.Context(), "ask", fmt.Sprint("ask", i), word{"hello"}, runner.StartOptions{})
		require.NoError(t, err)
	}
	_, err := first.Start(t.Context(), "hang", "hang", word{}, runner.StartOptions{})
	require.NoError(t, err)
	assert.Equal(t, "first", <-entered)
	second, stopSecond := newWorker(t, server, longLease).serving(t, register("second"))
	defer stopSecond()
	stopFirst() // the run of the first worker is interrupted and continues in the other worker
	assert.Equal(t, "second", <-entered)
	wait := func(runID string) any {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		info, err := second.Wait(ctx, runID)
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		out, err := second.Result(t.Context(), runID)
		require.NoError(t, err)
		return out
	}
	assert.Equal(t, "second", wait("hang"))
	for i := range 5 {
		id := fmt.Sprint("ask", i)
		require.Eventually(t, func() bool {
			questions, err := second.Questions(t.Context(), id)
			return err == nil && len(questions) == 1
		}, patience, 10*time.Millisecond)
		require.NoError(t, second.Answer(t.Context(), id, "ask?1", "", "you"))
	}
	for i := range 5 {
		assert.Equal(t, "hello you", wait(fmt.Sprint("ask", i)))
	}
}

// A server removes the consumer of a version whose jobs no worker has taken for a day. The next
// worker for that version finds its jobs.
func TestConsumerOfAVersionWithoutWorkersMayBeRemoved(t *testing.T) {
	server := jstest.Start(t)
	w := newWorker(t, server, longLease)
	add := func(id string) {
		_, err := w.queue.Add(t.Context(), runner.QueueEntry{RunID: id, Program: echoID})
		require.NoError(t, err)
	}
	add("before")
	require.NoError(t, w.take(t, echoID).Done(t.Context()))
	_, _, err := w.queue.Waiting(t.Context(), []runner.ProgramID{echoID}) // the queue also creates a consumer for counting
	require.NoError(t, err)
	js, err := njs.New(server.Connect())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "RQ_reprise")
	require.NoError(t, err)
	gone := 0
	for consumer := range stream.ListConsumers(t.Context()).Info() {
		assert.Equal(t, 24*time.Hour, consumer.Config.InactiveThreshold, consumer.Config.FilterSubject)
		require.NoError(t, stream.DeleteConsumer(t.Context(), consumer.Name)) // as the server does after a day
		gone++
	}
	assert.Equal(t, 2, gone)
	add("after")
	next := newWorker(t, server, longLease)
	assert.Equal(t, "after", next.take(t, echoID).Entry().RunID)
}

// A connection that was closed permanently is not used again, so the runner stops, and a supervisor
// can start the process again.
func TestRunnerStopsWhenItsConnectionIsClosedForGood(t *testing.T) {
	server := jstest.Start(t)
	conn := server.Connect()
	w := workerOf(t, conn, lease)
	r, err := runner.New(w.store, runner.Options{Queue: w.queue})
	require.NoError(t, err)
	runner.Register(r, decorators.Agent("echo", "", func(_ context.Context, in string) (string, error) { return in, nil }))
	served := make(chan error, 1)
	go func() { served <- r.Serve(t.Context()) }()
	_, err = r.Start(t.Context(), "echo", "run", "hello", runner.StartOptions{})
	require.NoError(t, err)
	_, err = r.Wait(t.Context(), "run")
	require.NoError(t, err)
	conn.Close()
	select {
	case err := <-served:
		require.ErrorIs(t, err, runner.ErrQueueClosed)
	case <-time.After(patience):
		t.Fatal("the runner still serves")
	}
}

func TestQueueOfAClosedStoreIsClosed(t *testing.T) {
	w := newWorker(t, jstest.Start(t), longLease)
	require.NoError(t, w.store.Close())
	_, err := w.queue.Take(t.Context(), []runner.ProgramID{echoID}, 1)
	require.ErrorIs(t, err, runner.ErrQueueClosed)
}
