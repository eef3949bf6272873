package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/runner"
)

// A puller pulls those jobs of a program that have a given level.
type puller struct {
	program runner.ProgramID
	level   int
}

// A pullState holds a puller's state and jobs. It is guarded by the queue's mutex.
type pullState struct {
	held    []*lease  // pulled jobs that no caller of Take has received yet
	waits   bool      // the server has no job waiting and will send the next one
	err     error     // why the server does not deliver jobs
	failing time.Time // when the server stopped answering; zero if it answers
}

// mayHaveMore reports whether the server may have a job waiting. As long as it may, no job with a
// lower level is taken.
func (p *pullState) mayHaveMore() bool { return len(p.held) == 0 && !p.waits && p.err == nil }

// Take implements [runner.Queue]. It returns the next jobs, those with the highest levels, once it
// is known which these are. If the connection or the store was closed, the error is
// [runner.ErrQueueClosed].
func (q *Queue) Take(ctx context.Context, programs []runner.ProgramID, most int) ([]runner.Lease, error) {
	leases, err := q.take(ctx, programs, most)
	switch conn := q.store.conn; {
	case err == nil:
	case conn.IsClosed():
		err = fmt.Errorf("%w: %w", runner.ErrQueueClosed, errors.Join(err, conn.LastError()))
	case q.store.ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", runner.ErrQueueClosed, err)
	}
	return leases, err
}

func (q *Queue) take(ctx context.Context, programs []runner.ProgramID, most int) ([]runner.Lease, error) {
	own, err := q.store.session(ctx)
	if err == nil {
		err = q.learnAll(ctx, own)
	}
	if err != nil {
		return nil, err
	}
	q.want()
	defer q.wantNoMore()
	for {
		taken, changed, err := q.pickSome(programs, most)
		if err != nil {
			return nil, unavailable(err)
		} else if len(taken) > 0 {
			return taken, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-q.store.ctx.Done():
			return nil, errors.New("jetstream: the store is closed")
		}
	}
}

// pickSome takes jobs if it is known which jobs are next. Otherwise, it returns a channel that is
// closed when this may have become known.
func (q *Queue) pickSome(programs []runner.ProgramID, most int) (taken []runner.Lease, changed <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(taken) < most {
		l, err := q.pick(programs)
		if l == nil {
			if len(taken) > 0 {
				err = nil
			}
			return taken, q.changed, err
		}
		l.session.noteHanded(l)
		taken = append(taken, l)
	}
	return taken, nil, nil
}

// pick takes a job if it is known which job is next. q.mu must be held.
func (q *Queue) pick(programs []runner.ProgramID) (next *lease, err error) {
	var from *pullState
	highest, asked := -maxLevel-1, -maxLevel-1
	for _, program := range programs {
		for _, level := range q.levelsOf(program) {
			p := q.stateOf(puller{program, level})
			switch {
			case len(p.held) > 0 && level > highest:
				from, highest = p, level
			case p.mayHaveMore():
				asked = max(asked, level)
			case p.err != nil:
				err = p.err
			}
		}
	}
	if from == nil {
		return nil, err
	} else if asked > highest {
		return nil, nil
	}
	next, from.held = from.held[0], from.held[1:]
	if len(from.held) == 0 {
		q.signal() // wake its puller
	}
	return next, nil
}

// signal wakes the waiting goroutines. q.mu must be held.
func (q *Queue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// want makes the pullers pull until each caller of want has called wantNoMore.
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

// whenWanted returns a channel that is closed when somebody wants a job.
func (q *Queue) whenWanted() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wanted
}

// stateOf returns a puller's state, and starts the puller if necessary. q.mu must be held.
func (q *Queue) stateOf(p puller) *pullState {
	now := q.pulls[p]
	if now == nil {
		now = &pullState{}
		if q.store.run(func() { q.pullLoop(p, now) }) {
			q.pulls[p] = now
		}
	}
	return now
}

// set sets a puller's state.
func (q *Queue) set(now *pullState, held []*lease, waits bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now.held, now.waits, now.err, now.failing = held, waits, err, time.Time{}
	q.signal()
}

// fail records that the server does not answer, so that other levels do not wait long for this one.
func (q *Queue) fail(now *pullState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.failing.IsZero() {
		now.failing = time.Now()
	}
	now.held, now.err, now.waits = nil, nil, time.Since(now.failing) > q.store.options.answerTimeout()
	q.signal()
}

// pullLoop pulls until the store is closed. If the server refuses a consumer permanently, for example
// because the stream is missing, Take returns the error.
func (q *Queue) pullLoop(p puller, now *pullState) {
	ctx := q.store.ctx
	for ctx.Err() == nil {
		denied := deniedSince(q.store.conn)
		consumer, err := q.consumer(ctx, p)
		if err == nil {
			err = q.pullFrom(ctx, consumer, now)
		} else if refused := denied(q.store.api + "CONSUMER."); refused != nil {
			err = refused
		}
		wait := retryPause
		if err == nil || isTemporary(err) {
			q.fail(now)
		} else {
			q.set(now, nil, true, err)
			wait = refusedPause
		}
		_ = pause(ctx, wait) // the loop then notices that ctx has ended
	}
}

// refusedPause is how long a puller waits after the server has refused its consumer.
const refusedPause = time.Second

// consumer creates the consumer for a level, which all workers share.
func (q *Queue) consumer(ctx context.Context, p puller) (jetstream.Consumer, error) {
	filter := q.filter(p)
	sum := sha256.Sum256([]byte(filter))
	return q.jobs.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: hex.EncodeToString(sum[:12]), Description: fmt.Sprintf("%s %s, priority %d", p.program.Name, p.program.Version, p.level),
		FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.store.options.Lease,
		MaxDeliver: -1, MaxAckPending: maxLeases, InactiveThreshold: consumerUnused,
	})
}

// filter returns the subject filter for the jobs that p pulls.
func (q *Queue) filter(p puller) string {
	return fmt.Sprintf("rq.%s.j.%d.%s.*", q.store.names.store, p.level, programToken(p.program))
}

// consumerUnused is how long the consumer for a level may be without a worker before the server
// removes it. The next worker creates the consumer again, and the new consumer delivers the waiting
// jobs.
const consumerUnused = 24 * time.Hour

// maxLeases limits how many jobs of one program and level can be taken at the same time.
const maxLeases = 1_000_000

// pullFor is how long one request for a job waits at the server. It is shorter than the time after
// which the jobs of a stopped process are offered again, so that no job is offered to the stopped
// process.
func (o *Options) pullFor() time.Duration { return o.Lease / 2 }

// pullFrom pulls jobs until something fails. It returns the error only if it is permanent. If jobs
// are waiting, it pulls those; otherwise, it waits for the next job. It pulls only while a caller
// of Take wants jobs, so a worker without a free slot leaves the jobs to others.
func (q *Queue) pullFrom(ctx context.Context, consumer jetstream.Consumer, now *pullState) error {
	for {
		select {
		case <-q.whenWanted():
		case <-ctx.Done():
			return nil
		}
		own, err := q.store.session(ctx)
		if err != nil {
			return nil
		}
		denied := deniedSince(q.store.conn)
		jobs, err := waiting(consumer)
		if err == nil && len(jobs) == 0 {
			q.set(now, nil, true, nil)
			jobs, err = q.next(own.ctx, consumer)
		}
		if err := denied(q.store.api + "CONSUMER."); err != nil && len(jobs) == 0 {
			return err
		}
		if err != nil {
			return nil
		}
		q.offer(own, jobs, now)
	}
}

// pullBatch is how many jobs are pulled at once if many are waiting.
const pullBatch = 16

// waiting returns up to pullBatch of the waiting jobs.
func waiting(consumer jetstream.Consumer) (jobs []jetstream.Msg, err error) {
	asked := time.Now()
	batch, err := consumer.FetchNoWait(pullBatch)
	if err != nil {
		return nil, err
	}
	for msg := range batch.Messages() {
		jobs = append(jobs, msg)
	}
	switch {
	case len(jobs) > 0:
		return jobs, nil
	case batch.Error() == nil && time.Since(asked) >= fetchTimeout: // the client returns no error for either a missing or an empty answer
		return nil, errNoAnswer
	}
	return nil, batch.Error()
}

// fetchTimeout is how long the client waits for the server to report whether any jobs are waiting.
const fetchTimeout = time.Second

// next waits for the next job. If none arrives for a while, it returns no jobs.
func (q *Queue) next(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, q.store.options.pullFor())
	defer cancel()
	msg, err := consumer.Next(jetstream.FetchContext(ctx))
	switch {
	case err != nil && ctx.Err() != nil || errors.Is(err, nats.ErrTimeout):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []jetstream.Msg{msg}, nil
}

// offer holds jobs for the callers of Take until all jobs are taken. If no caller wants the next
// job for a while, the remaining jobs are given back.
func (q *Queue) offer(own *session, jobs []jetstream.Msg, now *pullState) {
	q.set(now, q.hold(own, jobs), false, nil)
	tick := time.NewTicker(heldFor)
	defer tick.Stop()
	for {
		q.mu.Lock()
		left, isWanted, changed := len(now.held), q.takers > 0, q.changed
		q.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
			continue
		case <-tick.C:
			if isWanted {
				continue
			}
		case <-own.ctx.Done():
		}
		q.giveBack(now)
		return
	}
}

// heldFor is how long a job is held while no caller of Take waits for it.
const heldFor = 100 * time.Millisecond

// hold keeps jobs hidden from other workers.
func (q *Queue) hold(own *session, jobs []jetstream.Msg) []*lease {
	var held []*lease
	for _, msg := range jobs {
		e, err := decodeJob(msg.Data())
		if err != nil {
			_ = msg.Term() // no worker can ever run the job
			continue
		}
		l := &lease{queue: q, session: own, msg: msg, entry: e}
		own.hold(l)
		held = append(held, l)
	}
	return held
}

// giveBack makes the server offer a puller's jobs to other workers.
func (q *Queue) giveBack(now *pullState) {
	q.mu.Lock()
	left := now.held
	now.held = nil
	q.mu.Unlock()
	for _, l := range left {
		l.giveBack()
	}
}
