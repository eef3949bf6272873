package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/internal/serverclock"
	"github.com/reprise-go/reprise/runner"
)

// A Queue is a [runner.Queue] beside a [Store], with a job for each run that waits.
// A job that was taken is hidden while its process renews the lease, and is offered
// again when the lease is over. A Queue is safe for many goroutines; make one with
// [OpenQueue].
type Queue struct {
	store *Store
	jobs  jetstream.Stream
	now   *serverclock.Clock

	mu      sync.Mutex
	pullers map[puller]bool // that run
	takers  int             // who wait in Take
	wanted  chan struct{}   // closed while there are takers
	taken   [classes]chan *lease
	failed  chan error // why no job can come, for one who waits
}

var _ runner.Queue = (*Queue)(nil)

// OpenQueue opens the queue of a store, and makes it if it does not exist. It
// ends with the store.
func OpenQueue(ctx context.Context, s *Store) (*Queue, error) {
	q := &Queue{store: s, now: serverclock.New(s.askTime), pullers: make(map[puller]bool), wanted: make(chan struct{}), failed: make(chan error)}
	for i := range q.taken {
		q.taken[i] = make(chan *lease)
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
	s.noteRepaired(Repaired{Queued: queued})
	s.run(q.repairOften)
	return q, nil
}

func (q *Queue) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "RQ_" + q.store.names.store, Subjects: []string{"rq." + q.store.names.store + ".>"}, Description: "Reprise: runs that wait",
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, Replicas: q.store.options.Replicas,
		AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true, AllowDirect: true,
	}
}

// The classes of priorities: above 0, 0, and below.
const classes = 3

func classOf(priority int) int {
	switch {
	case priority > 0:
		return 0
	case priority == 0:
		return 1
	}
	return 2
}

// safe returns a name in a form that can be part of a subject.
func safe(name string) string {
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

// subject is that of the job of a run.
func (q *Queue) subject(e *runner.Entry) string {
	return fmt.Sprintf("rq.%s.j.%d.%s.%s.%s", q.store.names.store, classOf(e.Priority), safe(e.Program.Name), safe(e.Program.Version), token(e.RunID))
}

// wait is the subject on which a job waits for its time.
func (q *Queue) wait(runID string) string { return "rq." + q.store.names.store + ".w." + token(runID) }

// job is an entry as it is in a message.
type job struct {
	RunID    string    `json:"run_id"`
	Program  string    `json:"program"`
	Version  string    `json:"version"`
	Priority int       `json:"priority,omitempty"`
	Due      time.Time `json:"due,omitzero"`
}

func encodeJob(e *runner.Entry) ([]byte, error) {
	return json.Marshal(job{e.RunID, e.Program.Name, e.Program.Version, e.Priority, e.Due.UTC()})
}

func decodeJob(data []byte) (runner.Entry, error) {
	var j job
	if err := json.Unmarshal(data, &j); err != nil || j.RunID == "" {
		return runner.Entry{}, fmt.Errorf("jetstream: a message of the queue is not a job: %.100q", data)
	}
	return runner.Entry{RunID: j.RunID, Program: runner.ProgramID{Name: j.Program, Version: j.Version}, Priority: j.Priority, Due: j.Due}, nil
}

// Add implements [runner.Queue].
func (q *Queue) Add(ctx context.Context, e runner.Entry) (added bool, err error) {
	msg, err := q.message(ctx, &e)
	if err != nil {
		return false, err
	}
	_, err = q.store.publish(ctx, q.config().Name, msg, 0)
	if errors.Is(err, errConflict) {
		return false, nil
	}
	return err == nil, err
}

// Wake implements [runner.Queue]. The job replaces the one that somebody may have
// taken: that one's end removes nothing. One that waits for its time is removed, unless it
// came later.
func (q *Queue) Wake(ctx context.Context, e runner.Entry) error {
	e.Due = time.Time{}
	seq, err := q.put(ctx, &e)
	if err != nil {
		return err
	}
	_ = q.store.purge(ctx, q.jobs, q.wait(e.RunID), seq) // else the run is offered once more
	return nil
}

// put publishes an entry in the place of what is on its subject, and returns its sequence.
func (q *Queue) put(ctx context.Context, e *runner.Entry) (seq uint64, err error) {
	msg, err := q.message(ctx, e)
	if err != nil {
		return 0, err
	}
	err = q.store.retry(ctx, func(ctx context.Context) error {
		seq, err = q.store.publishOnce(ctx, q.config().Name, msg)
		return err
	})
	if err != nil && context.Cause(ctx) != nil {
		return 0, context.Cause(ctx)
	} else if err != nil {
		return 0, unavailable(err)
	}
	return seq, nil
}

// message is the job, or one that becomes the job when it is due, by the clock of the
// server.
func (q *Queue) message(ctx context.Context, e *runner.Entry) (*nats.Msg, error) {
	data, err := encodeJob(e)
	if err != nil {
		return nil, err
	}
	now, err := q.Now(ctx)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(q.subject(e))
	msg.Data = data
	if e.Due.After(now) {
		msg.Header.Set(jetstream.ScheduleHeader, "@at "+e.Due.UTC().Format(time.RFC3339Nano)) // to the nanosecond
		msg.Header.Set(jetstream.ScheduleTargetHeader, msg.Subject)
		msg.Subject = q.wait(e.RunID)
	}
	return msg, nil
}

// Take implements [runner.Queue]. It takes one job at a time.
func (q *Queue) Take(ctx context.Context, programs []runner.ProgramID, _ int) ([]runner.Lease, error) {
	l, err := q.takeOne(ctx, programs)
	if err != nil {
		return nil, err
	}
	return []runner.Lease{l}, nil
}

func (q *Queue) takeOne(ctx context.Context, programs []runner.ProgramID) (runner.Lease, error) {
	if _, err := q.store.session(ctx); err != nil {
		return nil, err
	}
	q.want()
	defer q.wantNoMore()
	for _, p := range programs {
		for class := range classes {
			q.pull(puller{p, class})
		}
	}
	for class := range classes {
		select {
		case l := <-q.taken[class]:
			return l, nil
		default:
		}
	}
	select {
	case l := <-q.taken[0]:
		return l, nil
	case l := <-q.taken[1]:
		return l, nil
	case l := <-q.taken[2]:
		return l, nil
	case err := <-q.failed:
		return nil, unavailable(err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-q.store.ctx.Done():
		return nil, errors.New("jetstream: the store is closed")
	}
}

// want has the pullers pull.
func (q *Queue) want() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.takers++; q.takers == 1 {
		close(q.wanted)
	}
}

func (q *Queue) wantNoMore() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.takers--; q.takers == 0 {
		q.wanted = make(chan struct{})
	}
}

// isWanted returns what is closed when somebody wants a job, and whether that is
// so now.
func (q *Queue) isWanted() (<-chan struct{}, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wanted, q.takers > 0
}

// A puller takes jobs of one program and class, one by one, while somebody wants
// them: a worker that has no slot leaves them to others.
type puller struct {
	program runner.ProgramID
	class   int
}

// pull begins a puller, unless it runs.
func (q *Queue) pull(p puller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.pullers[p] && q.store.run(func() { q.pullOften(p) }) {
		q.pullers[p] = true
	}
}

// pullOften pulls until the store is closed. Where the server refuses a consumer for
// good, such as without the stream, those who wait for jobs get the error.
func (q *Queue) pullOften(p puller) {
	ctx := q.store.ctx
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		consumer, err := q.consumer(ctx, p)
		failed := q.failed
		switch {
		case err == nil:
			failed = nil
			q.pullFrom(ctx, consumer, p.class)
			pause.Reset(retryPause)
		case isPassing(err):
			failed = nil
			pause.Reset(retryPause)
		default:
			pause.Reset(refusedPause)
		}
		select {
		case failed <- err:
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// refusedPause is how long a puller waits after the server has refused its consumer.
const refusedPause = time.Second

// consumer makes the consumer of a program and class, which all workers share.
func (q *Queue) consumer(ctx context.Context, p puller) (jetstream.Consumer, error) {
	filter := fmt.Sprintf("rq.%s.j.%d.%s.%s.*", q.store.names.store, p.class, safe(p.program.Name), safe(p.program.Version))
	sum := sha256.Sum256([]byte(filter))
	return q.jobs.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: hex.EncodeToString(sum[:12]), Description: fmt.Sprintf("%s %s, class %d", p.program.Name, p.program.Version, p.class),
		FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.store.options.Lease,
		MaxDeliver: -1, MaxAckPending: maxLeases, InactiveThreshold: consumerUnused,
	})
}

// consumerUnused is after how long without a worker of its program and version the server
// removes a consumer. The next worker makes it again, and finds the jobs that wait.
const consumerUnused = 24 * time.Hour

// maxLeases bounds how many jobs of one program are taken at once.
const maxLeases = 1_000_000

// pullFor is how long one request for a job waits at the server. It is over before
// the jobs of a process that was stopped are offered again, so that none of them
// is offered to that process.
func (o *Options) pullFor() time.Duration { return o.Lease / 2 }

// pullFrom pulls jobs one by one, until something fails.
func (q *Queue) pullFrom(ctx context.Context, consumer jetstream.Consumer, class int) {
	for {
		wanted, _ := q.isWanted()
		select {
		case <-wanted:
		case <-ctx.Done():
			return
		}
		own, err := q.store.session(ctx)
		if err != nil {
			return
		}
		jobs, err := q.pullSome(own.ctx, consumer)
		if err != nil {
			return
		}
		q.handAll(own, jobs, class)
	}
}

// pullBatch is how many jobs are pulled at once where many wait.
const pullBatch = 16

// pullSome returns jobs that wait, or else the next one. It returns none after a
// while.
func (q *Queue) pullSome(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	batch, err := consumer.FetchNoWait(pullBatch)
	if err != nil {
		return nil, err
	}
	var jobs []jetstream.Msg
	for msg := range batch.Messages() {
		jobs = append(jobs, msg)
	}
	if len(jobs) > 0 {
		return jobs, nil
	}
	waiting, cancel := context.WithTimeout(ctx, q.store.options.pullFor())
	defer cancel()
	msg, err := consumer.Next(jetstream.FetchContext(waiting))
	switch {
	case err != nil && waiting.Err() != nil || errors.Is(err, nats.ErrTimeout):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []jetstream.Msg{msg}, nil
}

// handAll gives jobs to those who want some, and the others back.
func (q *Queue) handAll(own *session, jobs []jetstream.Msg, class int) {
	var held []*lease
	for _, msg := range jobs {
		e, err := decodeJob(msg.Data())
		if err != nil {
			_ = msg.Term() // nobody can run it, now or later
			continue
		}
		l := &lease{queue: q, session: own, msg: msg, entry: e}
		own.hold(l)
		held = append(held, l)
	}
	wanted := true
	for _, l := range held {
		if wanted = wanted && q.hand(l, class); !wanted {
			l.giveBack()
		}
	}
}

// heldFor is how long a job waits for somebody who wants the next.
const heldFor = 100 * time.Millisecond

// hand gives a job to somebody who wants one. It reports false if nobody does.
func (q *Queue) hand(l *lease, class int) bool {
	tick := time.NewTicker(heldFor)
	defer tick.Stop()
	for {
		select {
		case q.taken[class] <- l:
			l.session.handed(l)
			return true
		case <-tick.C:
			if _, ok := q.isWanted(); !ok {
				return false
			}
		case <-l.session.ctx.Done():
			return false
		}
	}
}

// A lease is a job that was taken.
type lease struct {
	queue   *Queue
	session *session
	msg     jetstream.Msg
	entry   runner.Entry
}

func (l *lease) Entry() runner.Entry { return l.entry }

func (l *lease) Lost() <-chan struct{} { return l.session.lost() }

// release ends the signs of life for the job.
func (l *lease) release() { l.session.release(l) }

func (l *lease) Done(ctx context.Context) error {
	defer l.release()
	if l.session.isOver() {
		return errOver
	}
	if !l.queue.store.conn.IsConnected() { // else the connection sends it when it is back, when the job may be another's
		return unavailable(fmt.Errorf("the end of the job of run %s: %w", l.entry.RunID, nats.ErrDisconnected))
	}
	ctx, cancel := context.WithTimeout(ctx, l.queue.store.options.patience())
	defer cancel()
	if err := l.msg.DoubleAck(ctx); err != nil {
		return unavailable(fmt.Errorf("the end of the job of run %s: %w", l.entry.RunID, err))
	}
	return nil
}

// Park publishes the job that comes next before it ends this one. One that is due
// at once takes the place of this one.
func (l *lease) Park(ctx context.Context, due time.Time) error {
	if l.session.isOver() {
		l.release()
		return errOver
	}
	l.entry.Due = due
	if _, err := l.queue.put(ctx, &l.entry); err != nil {
		l.release()
		return fmt.Errorf("park run %s: %w", l.entry.RunID, err)
	}
	return l.Done(ctx)
}

func (l *lease) Abandon() { l.release() }

// giveBack has the job offered to others at once. A session that was lost says
// nothing: the job may be another's by now.
func (l *lease) giveBack() {
	l.release()
	if !errors.Is(context.Cause(l.session.ctx), errOver) {
		_ = l.msg.Nak()
	}
}
