package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
)

// A session is a process's lease on the runs that it has open. It sends heartbeats. For other
// processes, a session is over if it has sent no heartbeat for the length of a lease. For the process
// itself, the session is over after three quarters of that time, by the monotonic clock. A session
// that is over cannot continue: the process begins another session for the runs that it opens next.
type session struct {
	store *Store
	id    string
	ctx   context.Context // ends when the session is over, with errExpired
	end   context.CancelCauseFunc

	mu       sync.Mutex
	until    time.Time // the session is trusted until then; zero when it is over
	journals map[string]*journal
	leases   map[*lease]bool   // jobs, and whether Take has handed them out
	left     map[string]uint64 // the runs that could not be closed, with the sequence at which each was opened
}

var errExpired = errors.New("jetstream: this process's lease is over")

// bound returns a context that also ends when the session is over, with errExpired. The caller must
// call cancel.
func (s *session) bound(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { end(errExpired) })
	return ctx, func() {
		stop()
		end(nil)
	}
}

// isOver reports whether the process must stop writing. It checks the clock, so this is where a
// process that was suspended notices that its session is over.
func (s *session) isOver() bool {
	s.mu.Lock()
	over := !time.Now().Before(s.until)
	s.mu.Unlock()
	if over {
		s.finish()
	}
	return over
}

// finish ends the session. It may be called twice.
func (s *session) finish() {
	s.mu.Lock()
	s.until = time.Time{}
	s.mu.Unlock()
	s.end(errExpired)
}

// lost returns a channel that is closed when the session is over.
func (s *session) lost() <-chan struct{} { return s.ctx.Done() }

// add registers a journal so that it is notified of messages.
func (s *session) add(j *journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journals[j.runID] = j
	delete(s.left, j.runID)
}

// leave records that this process no longer has a journal's run open, although the server does not
// know that.
func (s *session) leave(j *journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[j.runID] = j.marker.seq
}

// hasLeft reports whether the run that was opened at the given sequence could not be closed.
func (s *session) hasLeft(runID string, opening uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[runID] == opening
}

func (s *session) remove(j *journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journals[j.runID] == j {
		delete(s.journals, j.runID)
	}
}

func (s *session) journal(runID string) *journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journals[runID]
}

// hold keeps a job hidden from other workers until the job is released or the session is over.
func (s *session) hold(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[l] = false
}

// noteHanded records that Take has handed out the job, unless the job was released already.
func (s *session) noteHanded(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.leases[l]; held {
		s.leases[l] = true
	}
}

func (s *session) release(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l)
}

// keep renews the leases on jobs. It is called after a heartbeat has been sent: a session that is
// over must not touch jobs, because they may belong to other processes.
func (s *session) keep() {
	s.mu.Lock()
	held := make([]*lease, 0, len(s.leases))
	for l := range s.leases {
		held = append(held, l)
	}
	s.mu.Unlock()
	for _, l := range held {
		if s.isOver() || !s.store.conn.IsConnected() {
			return
		}
		_ = l.msg.InProgress() // if this fails, the job is offered to another process, which finds the run still open elsewhere
	}
}

// session returns this process's session. If the process has no session yet, it begins one.
func (s *Store) session(ctx context.Context) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("jetstream: the store is closed")
	case s.current != nil && !s.current.isOver():
		return s.current, nil
	}
	if err := s.refused; err != nil {
		s.refused = nil
		return nil, unavailable(err)
	}
	own, end := context.WithCancelCause(s.ctx)
	n := &session{
		store: s, id: nuid.Next(), ctx: own, end: end,
		journals: make(map[string]*journal), leases: make(map[*lease]bool), left: make(map[string]uint64),
	}
	if err := n.begin(ctx); err != nil {
		end(err)
		return nil, err
	}
	s.current = n
	return n, nil
}

// begin starts listening and publishes the first heartbeat. The store's mutex is held, so that only
// one session begins.
func (s *session) begin(ctx context.Context) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	at := time.Now()
	if err := s.store.retry(ctx, s.store.names.heartbeat(s.id), s.sendHeartbeat); err != nil {
		return err
	}
	s.mu.Lock()
	s.until = at.Add(s.store.options.trustedFor())
	s.mu.Unlock()
	s.store.running.Go(s.renewLoop) // the store's mutex is held
	return nil
}

// sendHeartbeat publishes a heartbeat. Only the last heartbeat is kept, and it expires some time
// after it was sent.
func (s *session) sendHeartbeat(ctx context.Context) error {
	lease := s.store.options.Lease
	return s.publishHeartbeat(ctx, lease, 2*lease+time.Second)
}

func (s *session) publishHeartbeat(ctx context.Context, lease, stays time.Duration) error {
	msg := nats.NewMsg(s.store.names.heartbeat(s.id))
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	msg.Header.Set(headerLease, lease.String())
	var err error
	if msg.Data, err = json.Marshal(s.jobs()); err != nil {
		return err
	}
	_, err = s.store.publishOnce(ctx, s.store.names.records(), msg, jetstream.WithMsgTTL(stays))
	return err
}

// renewLoop sends heartbeats until one is too late, or the store is closed. Each new lease is
// measured from a time before its request was sent, so no other clock matters.
func (s *session) renewLoop() {
	defer s.finish()
	timer := time.NewTimer(s.store.options.renewEvery())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			s.resign()
			return
		}
		if s.isOver() {
			return
		}
		timer.Reset(s.renew())
	}
}

// renew sends one heartbeat and returns how long to wait before the next one.
func (s *session) renew() time.Duration {
	s.mu.Lock()
	until := s.until
	s.mu.Unlock()
	at := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, min(until.Sub(at), s.store.options.answerTimeout()))
	defer cancel()
	if err := s.sendHeartbeat(ctx); err != nil {
		return retryPause
	}
	s.mu.Lock()
	if time.Now().Before(s.until) { // otherwise the session was over when the answer arrived
		s.until = at.Add(s.store.options.trustedFor())
	}
	s.mu.Unlock()
	s.keep()
	return s.store.options.renewEvery()
}

// resign publishes a last heartbeat, which tells other processes that the lease has ended, so that
// they do not have to wait until it expires.
func (s *session) resign() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.store.options.answerTimeout())
	defer cancel()
	_ = s.publishHeartbeat(ctx, 0, time.Second) // if this fails, the previous heartbeat expires
}

// listen notifies the open journals about new messages, records the heartbeats of other processes,
// and tells the queue which priorities are in use. It reads stored messages, so no journal is
// notified about a message before the message can be read.
func (s *session) listen(ctx context.Context) error {
	info, err := s.store.streamInfo(ctx)
	if err != nil {
		return err
	}
	subjects := []string{s.store.names.all("m"), s.store.names.all("s"), s.store.names.all("p")}
	s.store.running.Go(func() {
		for msg, err := range s.store.consume(s.ctx, info.Created, subjects, info.State.LastSeq+1) {
			if err != nil { // the session is over, or its stream was deleted or must not be read
				if errors.Is(err, nats.ErrPermissionViolation) {
					s.store.refuse(err)
				}
				s.finish()
				return
			}
			s.hear(msg)
		}
	})
	return nil
}

// refuse makes the next call to session return the error.
func (s *Store) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = err
}

func (s *session) hear(m *storedMessage) {
	switch class, id := parse(m.Subject); class {
	case "m":
		if j := s.journal(id); j != nil {
			j.Ring()
		}
	case "s":
		s.store.firstSeen(id, m.Seq, 0, m.Header.Get(headerLease) == noLease)
	case "p":
		s.store.mu.Lock()
		q := s.store.queue
		s.store.mu.Unlock()
		if q != nil {
			q.learnFrom(m.Data)
		}
	}
}

// A sighting is the time at which this process first saw a heartbeat, by its own clock. For the
// first heartbeat that this process sees from a session, the sighting is instead the time at which
// the server stored the heartbeat. So if this process restarts, the runs of a killed process do not
// wait for another full lease.
type sighting struct {
	seq uint64
	at  time.Time
}

// noLease is the lease in a session's last heartbeat.
const noLease = "0s"

// firstSeen records a heartbeat with the given age, and returns when it was first seen. A session's
// last heartbeat counts as having been seen long ago.
func (s *Store) firstSeen(session string, seq uint64, age time.Duration, isLast bool) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.sightings[session]; ok && seq <= was.seq {
		return was.at
	}
	now := time.Now()
	for id, was := range s.sightings { // forget processes that ended long ago
		if now.Sub(was.at) > time.Hour {
			delete(s.sightings, id)
		}
	}
	at := now.Add(-age)
	if isLast {
		at = time.Time{}
	}
	s.sightings[session] = sighting{seq, at}
	return at
}

// ageOf returns the age of a heartbeat by the server's clock, which also set the heartbeat's time.
// If this process has seen an earlier heartbeat of the session, this one has only just been sent,
// and ageOf does not ask the server.
func (s *Store) ageOf(ctx context.Context, session string, beat *storedMessage) time.Duration {
	s.mu.Lock()
	_, isKnown := s.sightings[session]
	isKnown = isKnown || s.current != nil && s.current.id == session
	s.mu.Unlock()
	if isKnown {
		return 0
	}
	now, err := s.now.Now(ctx)
	if err != nil {
		return 0
	}
	return max(0, now.Sub(beat.Time))
}

// isAlive reports whether a session may still be valid: its last heartbeat exists and is not older
// than a lease.
func (s *Store) isAlive(ctx context.Context, id string) (bool, error) {
	beat, err := s.get(ctx, s.names.records(), query{Last: s.names.heartbeat(id)})
	if errors.Is(err, errNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	given := beat.Header.Get(headerLease)
	since := s.firstSeen(id, beat.Seq, s.ageOf(ctx, id, beat), given == noLease)
	lease, err := time.ParseDuration(given)
	if err != nil {
		return false, errors.Join(snapshot.ErrCorrupt, errors.New("jetstream: the heartbeat "+strconv.Quote(id)+" contains no lease"))
	}
	return time.Since(since) <= lease, nil
}

// timeLeft returns the time until a session expires if no further heartbeat arrives.
func (s *Store) timeLeft(id string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.sightings[id]; ok {
		return time.Until(was.at.Add(s.options.Lease)) + time.Millisecond
	}
	return s.options.renewEvery()
}
