package jetstream_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A mortal is a server that is killed and started again. Some clients reach it through a proxy and
// others directly.
type mortal struct {
	t       *testing.T
	set     serverSettings
	process *process.Process
	url     string
	between *proxy
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	m := &mortal{t: t, set: oneServer(t)}
	m.process, _, m.url = startServer(t, m.set)
	m.between = newProxy(t, m.url)
	return m
}

// die kills the server and starts it again.
func (m *mortal) die() {
	m.t.Helper()
	m.process.Kill()
	m.process, _, _ = startServer(m.t, m.set)
}

// await waits for a message on a subject, and returns how many messages there are.
func (m *mortal) await(stream, subject string) (n uint64) {
	m.t.Helper()
	m.awaitState(stream, func(now njs.StreamState) bool {
		n = now.Subjects[subject]
		return n > 0
	})
	return n
}

// awaitState waits until the state of a stream satisfies wanted.
func (m *mortal) awaitState(stream string, wanted func(njs.StreamState) bool) {
	m.t.Helper()
	js, err := njs.New(jstest.Connect(m.t, m.url))
	require.NoError(m.t, err)
	require.Eventually(m.t, func() bool {
		s, err := js.Stream(m.t.Context(), stream)
		if err != nil {
			return false
		}
		info, err := s.Info(m.t.Context(), njs.WithSubjectFilter(">"))
		return err == nil && wanted(info.State)
	}, patience, 5*time.Millisecond)
}

// forgetDeliveries makes the killed server forget which jobs it delivered, as if it had been killed
// before it stored the deliveries.
func (m *mortal) forgetDeliveries() {
	m.t.Helper()
	consumers, err := filepath.Glob(filepath.Join(m.set.Dir, "jetstream", "$G", "streams", "RQ_reprise", "obs", "*"))
	require.NoError(m.t, err)
	require.NotEmpty(m.t, consumers)
	for _, dir := range consumers {
		require.NoError(m.t, os.RemoveAll(filepath.Join(dir, "o.dat")))
	}
}

// TestServerKilledBeforeItAcknowledgesARecord checks that the record is stored once and the run
// continues.
func TestServerKilledBeforeItAcknowledgesARecord(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	o := jetstream.Options{Lease: longLease}
	s := open(t, jstest.Connect(t, m.between.url()), o)
	there := open(t, jstest.Connect(t, m.url), o)
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	m.between.Set(false, true)
	require.NoError(t, j.Append(storetest.Records(2, 2)...))
	require.Eventually(t, func() bool {
		info, err := there.Info(t.Context(), "run")
		return err == nil && info.LastSeq == 3
	}, patience, 5*time.Millisecond)
	messages := m.await("RP_reprise", "rp.reprise.r.run")
	m.die()
	m.between.Set(false, false)
	require.NoError(t, j.Sync(t.Context(), 3))
	require.Equal(t, messages, m.await("RP_reprise", "rp.reprise.r.run"), "the record is stored once")
	require.NoError(t, j.Append(storetest.Records(4, 1)...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := there.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 4, run.Len())
	m.process.Stop()
}

// TestServerKilledBeforeItAcknowledgesAStart checks that there is one run and one job.
func TestServerKilledBeforeItAcknowledgesAStart(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	s := newSite(t, m.between.url(), jetstream.Options{Lease: longLease})
	m.between.DeafAfter("Rp-Kind: set")
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.start("r", 3)
	}()
	m.await("RP_reprise", "rp.reprise.r.r")
	m.die()
	m.between.Set(false, false)
	<-started
	worker := s.worker("", m.url)
	s.check("r", 3, 0)
	worker.Stop()
	assert.Len(t, s.ledger(), 3)
	m.process.Stop()
}

// TestServerKilledWhileAWorkerHasAJob kills the server when a job has been delivered but not
// acknowledged. Nothing runs twice, although another worker waits for jobs.
func TestServerKilledWhileAWorkerHasAJob(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	s := newSite(t, m.url, jetstream.Options{Lease: longLease})
	first := s.worker("hold after")
	s.start("r", 4)
	first.Await("holding")
	second := s.worker("")
	m.die()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	s.check("r", 4, 0)
	first.Stop()
	second.Stop()
	assert.Len(t, s.ledger(), 4)
	m.process.Stop()
}

// TestServerKilledBeforeItAcknowledgesASchedule checks that the job is parked, and is delivered
// once, when it is due.
func TestServerKilledBeforeItAcknowledgesASchedule(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	here, there := workerOf(t, jstest.Connect(t, m.between.url()), longLease), workerOf(t, jstest.Connect(t, m.url), longLease)
	_, err := here.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
	require.NoError(t, err)
	l := here.take(t, echoID)
	due := time.Now().Add(4 * time.Second)
	m.between.Set(false, true)
	parked := make(chan error, 1)
	go func() { parked <- l.Park(t.Context(), due) }()
	m.awaitState("RQ_reprise", func(now njs.StreamState) bool { return now.LastSeq > 1 })
	m.die()
	m.between.Set(false, false)
	require.NoError(t, <-parked)
	// If parking took too long, the schedule was sent again when the job was already due. The test
	// therefore takes the job only when no schedule is left.
	m.awaitState("RQ_reprise", func(now njs.StreamState) bool { return now.Subjects["rq.reprise.w.r"] == 0 })
	assert.False(t, time.Now().Before(due), "the job came too early")
	require.NoError(t, there.take(t, echoID).Done(t.Context()))
	there.takesNothing(t, echoID)
	here.takesNothing(t, echoID)
	m.process.Stop()
}

// TestJobEndsAfterTheServerForgotItsDelivery has a server that was killed before it stored that it
// had delivered a job, and that would offer the job again. A later job for the run remains.
func TestJobEndsAfterTheServerForgotItsDelivery(t *testing.T) {
	t.Parallel()
	for _, woken := range []bool{false, true} {
		t.Run(fmt.Sprintf("woken=%v", woken), func(t *testing.T) {
			t.Parallel()
			m := newMortal(t)
			conn := jstest.Connect(t, m.url)
			here, there := workerOf(t, conn, longLease), workerOf(t, jstest.Connect(t, m.url), longLease)
			e := runner.QueueEntry{RunID: "r", Program: echoID}
			_, err := here.queue.Add(t.Context(), e)
			require.NoError(t, err)
			l := here.take(t, echoID)
			m.process.Kill()
			m.forgetDeliveries()
			m.process, _, _ = startServer(t, m.set)
			require.Eventually(t, func() bool { return conn.Stats().Reconnects > 0 }, patience, 5*time.Millisecond)
			if woken {
				require.NoError(t, there.queue.Wake(t.Context(), e))
			}
			require.NoError(t, l.Done(t.Context()))
			if woken {
				require.NoError(t, there.take(t, echoID).Done(t.Context()))
			}
			there.takesNothing(t, echoID)
			m.process.Stop()
		})
	}
}

// TestKilledServerLosesNothing kills and restarts the server while runs are started and executed.
func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	set := oneServer(t)
	running, _, url := startServer(t, set)
	s := newSite(t, url, jetstream.Options{Lease: lease})
	workers := []*process.Process{s.worker(""), s.worker("")}
	const runs, kills = 24, 3
	for i := range runs {
		s.start(fmt.Sprint("r", i), 5)
		if i%(runs/kills) == 4 {
			running.Kill()
			running, _, _ = startServer(t, set)
		}
	}
	for i := range runs {
		s.check(fmt.Sprint("r", i), 5, 0)
	}
	for _, w := range workers {
		w.Stop()
	}
	running.Stop()
}

// TestDelayedJobOutlivesItsServer has two delayed jobs. One is delivered on time. The other, which
// becomes due while the server is down, is delivered as soon as the server is back. No sweep is
// involved.
func TestDelayedJobOutlivesItsServer(t *testing.T) {
	t.Parallel()
	set := oneServer(t)
	running, _, url := startServer(t, set)
	s := open(t, jstest.Connect(t, url), jetstream.Options{Lease: lease})
	queue, err := jetstream.OpenQueue(t.Context(), s)
	require.NoError(t, err)
	w := worker{s, queue}
	due := map[string]time.Time{"missed": time.Now().Add(time.Second), "later": time.Now().Add(4 * time.Second)}
	for id, at := range due {
		_, err := queue.Add(t.Context(), runner.QueueEntry{RunID: id, Program: echoID, Due: at})
		require.NoError(t, err)
	}
	running.Kill()
	<-time.After(time.Until(due["missed"]))
	running, _, _ = startServer(t, set)
	for len(due) > 0 { // in the order of their due times, unless the server took longer to start
		l := w.take(t, echoID)
		id := l.Entry().RunID
		require.Contains(t, due, id)
		t.Logf("run %s was taken %v after its time", id, time.Since(due[id]).Round(time.Millisecond))
		assert.False(t, time.Now().Before(due[id]), "the run was taken too early")
		require.NoError(t, l.Done(t.Context()))
		delete(due, id)
	}
	w.takesNothing(t, echoID)
	require.NoError(t, s.Close())
	running.Stop()
}
