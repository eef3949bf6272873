package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/runner"
)

// A Queue is a [runner.Queue] for the runs in a [Store]. It holds a job for each waiting run. A job
// that was taken is hidden as long as the process that took it renews its lease, and is offered
// again when the lease has expired. A Queue is safe for concurrent use; make one with [OpenQueue].
//
// Jobs are taken by priority, and jobs of the same priority in the order in which they were added.
// Priorities from -100 to 100 are distinguished; a priority outside this range counts as the
// nearest one inside it. For each priority in use, each worker makes one request for jobs every
// half lease. Other workers learn about a new priority a moment after the first job with that
// priority was added; until then, they may take a job with a lower priority.
type Queue struct {
	store *Store
	jobs  jetstream.Stream

	mu      sync.Mutex
	pulls   map[puller]*pullState
	levels  map[runner.ProgramID][]int // the levels known to be in use, highest first
	noted   map[puller]bool            // levels that this process has announced to the others
	learned *session                   // the session in which the notes about levels were last read
	takers  int                        // number of goroutines that wait in Take
	wanted  chan struct{}              // closed while there are takers
	changed chan struct{}              // closed when waiting goroutines should check again
}

var _ runner.Queue = (*Queue)(nil)

// OpenQueue opens a store's queue, creating it if it does not exist. The queue is closed together
// with the store.
func OpenQueue(ctx context.Context, s *Store) (*Queue, error) {
	q := &Queue{
		store: s, pulls: make(map[puller]*pullState), levels: make(map[runner.ProgramID][]int), noted: make(map[puller]bool),
		wanted: make(chan struct{}), changed: make(chan struct{}),
	}
	want := q.config()
	stream, err := s.stream(ctx, &want)
	if err == nil && stream == nil {
		stream, err = s.makeStream(ctx, &want)
	}
	if err != nil {
		return nil, err
	}
	q.jobs = stream
	queued, err := q.repair(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.queue = q
	s.mu.Unlock()
	s.noteRepaired(RepairReport{Queued: queued})
	s.run(q.repairLoop)
	return q, nil
}

func (q *Queue) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: q.store.names.queue(), Subjects: []string{"rq." + q.store.names.store + ".>"}, Description: "Reprise: runs that wait",
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, Replicas: q.store.options.Replicas,
		AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true, AllowDirect: true,
	}
}

// safeToken returns a name in a form that can be used as part of a subject.
func safeToken(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02x", c)
		}
	}
	return b.String()
}

// subject returns the subject for a run's job.
func (q *Queue) subject(e *runner.QueueEntry) string {
	return fmt.Sprintf("rq.%s.j.%d.%s.%s", q.store.names.store, levelOf(e.Priority), programToken(e.Program), token(e.RunID))
}

// waitSubject returns the subject on which a job waits until it is due.
func (q *Queue) waitSubject(runID string) string {
	return "rq." + q.store.names.store + ".w." + token(runID)
}

// job is the form in which a message contains an entry.
type job struct {
	RunID    string    `json:"run_id"`
	Program  string    `json:"program"`
	Version  string    `json:"version"`
	Priority int       `json:"priority,omitempty"`
	Due      time.Time `json:"due,omitzero"`
}

func encodeJob(e *runner.QueueEntry) ([]byte, error) {
	return json.Marshal(job{e.RunID, e.Program.Name, e.Program.Version, e.Priority, e.Due.UTC()})
}

func decodeJob(data []byte) (runner.QueueEntry, error) {
	var j job
	if err := json.Unmarshal(data, &j); err != nil || j.RunID == "" {
		return runner.QueueEntry{}, fmt.Errorf("jetstream: a message in the queue is not a job: %.100q", data)
	}
	return runner.QueueEntry{RunID: j.RunID, Program: runner.ProgramID{Name: j.Program, Version: j.Version}, Priority: j.Priority, Due: j.Due}, nil
}

// Add implements [runner.Queue].
func (q *Queue) Add(ctx context.Context, e runner.QueueEntry) (added bool, err error) {
	msg, err := q.message(ctx, &e)
	if err == nil {
		err = q.note(ctx, &e)
	}
	if err != nil {
		return false, err
	}
	_, err = q.store.publish(ctx, q.config().Name, msg, 0)
	if errors.Is(err, errConflict) {
		return false, nil
	}
	return err == nil, err
}

// Wake implements [runner.Queue]. The new job replaces the run's earlier job, even if a process has
// taken that job; the new job remains when the process ends its lease. If the run has a job that
// waits until it is due, Wake removes that job as well, unless it is newer.
func (q *Queue) Wake(ctx context.Context, e runner.QueueEntry) error {
	e.Due = time.Time{}
	seq, err := q.put(ctx, &e)
	if err != nil {
		return err
	}
	_ = q.store.purge(ctx, q.jobs, q.waitSubject(e.RunID), seq) // if this fails, the run is only offered once more
	return nil
}

// put publishes an entry, replacing any earlier entry on its subject, and returns the sequence of
// its message.
func (q *Queue) put(ctx context.Context, e *runner.QueueEntry) (seq uint64, err error) {
	msg, err := q.message(ctx, e)
	if err == nil {
		err = q.note(ctx, e)
	}
	if err != nil {
		return 0, err
	}
	return q.store.publishAny(ctx, q.config().Name, msg)
}

// message returns the message with the entry's job. If the entry is due later, it returns a message
// that the server turns into the job at that time, by the server's clock.
func (q *Queue) message(ctx context.Context, e *runner.QueueEntry) (*nats.Msg, error) {
	data, err := encodeJob(e)
	if err != nil {
		return nil, err
	}
	now, err := q.store.now.Latest(ctx) // a job that is due now must not be delayed behind others
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(q.subject(e))
	msg.Data = data
	if e.Due.After(now) {
		msg.Header.Set(jetstream.ScheduleHeader, "@at "+e.Due.UTC().Format(time.RFC3339Nano)) // with nanoseconds
		msg.Header.Set(jetstream.ScheduleTargetHeader, msg.Subject)
		msg.Subject = q.waitSubject(e.RunID)
	}
	return msg, nil
}

// A lease is a job that has been taken.
type lease struct {
	queue   *Queue
	session *session
	msg     jetstream.Msg
	entry   runner.QueueEntry
}

func (l *lease) Entry() runner.QueueEntry { return l.entry }

func (l *lease) Lost() <-chan struct{} { return l.session.lost() }

// release stops the renewal of the job.
func (l *lease) release() { l.session.release(l) }

func (l *lease) Done(ctx context.Context) error {
	defer l.release()
	if l.session.isOver() {
		return errExpired
	}
	if !l.queue.store.conn.IsConnected() { // the client would send the request after reconnecting, when another process may have the job
		return unavailable(fmt.Errorf("end the job of run %s: %w", l.entry.RunID, nats.ErrDisconnected))
	}
	ctx, cancel := l.session.bound(ctx)
	defer cancel()
	end := l.msg.DoubleAck
	err := l.queue.store.retry(ctx, "$JS.ACK.", func(ctx context.Context) error {
		err := end(ctx)
		end = l.remove
		return err
	})
	if err != nil {
		return unavailable(fmt.Errorf("end the job of run %s: %w", l.entry.RunID, err))
	}
	return nil
}

// remove removes the job from the stream, but not a later job for the run. It does not acknowledge
// the job, because a server that was killed may not know that it delivered the job: such a server
// never answers an acknowledgement, and offers the job again.
func (l *lease) remove(ctx context.Context) error {
	meta, err := l.msg.Metadata()
	if err != nil {
		return err
	}
	return l.queue.store.purge(ctx, l.queue.jobs, l.msg.Subject(), meta.Sequence.Stream+1)
}

// Park publishes the next job before it ends this one. If the next job is due immediately, it
// replaces this one.
func (l *lease) Park(ctx context.Context, due time.Time) error {
	if l.session.isOver() {
		l.release()
		return errExpired
	}
	l.entry.Due = due
	if _, err := l.queue.put(ctx, &l.entry); err != nil {
		l.release()
		return fmt.Errorf("park run %s: %w", l.entry.RunID, err)
	}
	return l.Done(ctx)
}

func (l *lease) Abandon() { l.release() }

// giveBack makes the server offer the job to other workers at once, and waits until the server has
// done so. This is necessary because the server handles acknowledgements and pulls concurrently: a
// pull might otherwise return no job, and jobs with lower levels would be taken. If the session was
// lost, giveBack does nothing, because the job may belong to another process.
func (l *lease) giveBack() {
	l.release()
	if errors.Is(context.Cause(l.session.ctx), errExpired) {
		return
	}
	_, _ = l.queue.store.conn.Request(l.msg.Reply(), nak, fetchTimeout) // without an answer, the server offers the job after AckWait
}

var nak = []byte("-NAK")
