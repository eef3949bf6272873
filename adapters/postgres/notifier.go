package postgres

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// notifier tells other processes what has changed. A notification holds a lock on the whole server
// until its transaction is committed, so the statements that store data do not notify. Instead,
// notifications are collected and sent a little later, in a transaction that does not wait for the
// disk. If they are lost, other processes learn about the changes by polling.
type notifier struct {
	db   *database
	wake chan struct{} // holds a value if there is something to send

	mu   sync.Mutex
	runs map[string]bool
	jobs bool
}

func newNotifier(d *database) *notifier {
	return &notifier{db: d, wake: make(chan struct{}, 1), runs: make(map[string]bool)}
}

func (n *notifier) tellRun(runID string) {
	n.mu.Lock()
	n.runs[runID] = true
	n.mu.Unlock()
	signal(n.wake)
}

func (n *notifier) tellJobs() {
	n.mu.Lock()
	n.jobs = true
	n.mu.Unlock()
	signal(n.wake)
}

// signal wakes the receiver of a channel whose buffer has room for one value.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sendEvery is the time between notifications.
const sendEvery = 20 * time.Millisecond

// sendLoop sends pending notifications until ctx ends.
func (n *notifier) sendLoop(ctx context.Context) {
	for {
		select {
		case <-n.wake:
		case <-ctx.Done():
			return
		}
		_, _ = n.db.change(ctx, `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, n.db.channel(), n.payload())
		if !pause(ctx, sendEvery) {
			return
		}
	}
}

// pause waits for the given time. It returns false if ctx ends first.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// channel returns the name of the channel for notifications. The name has at most 63 bytes.
func (d *database) channel() string { return "reprise:" + string(d.schema) }

// A payload contains, in this order, the ID of the sending process, someJobs if the queue has
// changed, and the IDs of the changed runs. If the IDs do not fit, allRuns replaces them.
const (
	maxPayload = 7000
	allRuns    = "*"
	someJobs   = "+"
)

func (n *notifier) payload() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	b.WriteString(strconv.FormatInt(n.db.process.Load(), 10))
	if n.jobs {
		b.WriteString(" " + someJobs)
	}
	head := b.Len()
	for id := range n.runs {
		b.WriteString(" " + id)
	}
	n.jobs = false
	clear(n.runs)
	if b.Len() > maxPayload {
		return b.String()[:head] + " " + allRuns
	}
	return b.String()
}

// listenLoop receives other processes' notifications until ctx ends. After it has lost the
// connection, it must assume that anything may have changed.
func (s *Store) listenLoop(ctx context.Context, config *pgx.ConnConfig) {
	for ctx.Err() == nil {
		_ = s.listen(ctx, config)
		if !pause(ctx, time.Second) {
			return
		}
	}
}

func (s *Store) listen(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, `listen `+pgx.Identifier{s.db.channel()}.Sanitize()); err != nil {
		return err
	}
	s.NoteChanges()
	s.queue.changed()
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		s.hear(notification.Payload)
	}
}

// hear handles a notification from another process.
func (s *Store) hear(payload string) {
	from, what, _ := strings.Cut(payload, " ")
	if from == strconv.FormatInt(s.db.process.Load(), 10) {
		return
	}
	runs := strings.Fields(what)
	if len(runs) > 0 && runs[0] == someJobs {
		s.queue.changed()
		runs = runs[1:]
	}
	switch {
	case len(runs) > 0 && runs[0] == allRuns:
		s.NoteChanges()
	case len(runs) > 0:
		s.NoteChanges(runs...)
	}
}
