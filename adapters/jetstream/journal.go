package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A journal is a run that this process has open. It writes one message at a time, because each
// message names the sequence of the previous one, which only becomes known when that message is
// acknowledged.
type journal struct {
	*storekit.Journal
	store   *Store
	session *session
	runID   string
	marker  message       // the message that opened the run
	known   snapshot.Info // the current info
	indexed entry         // the run's position in the index
	at      uint64        // the sequence of the run's last message
	stop    func() bool   // stops waiting for the end of the session
}

// begin starts and returns the journal after the message j.marker has opened the run.
func (j *journal) begin(restored *snapshot.Run) *journal {
	j.Journal = storekit.NewJournal(restored, j, storekit.JournalOptions{MaxBatchBytes: j.store.maxPayload() - closingRoom})
	j.session.add(j)
	j.stop = context.AfterFunc(j.session.ctx, j.Lose)
	return j
}

// closingRoom is the space reserved for the info in the message that closes a run.
const closingRoom = 16 << 10

// Append implements [snapshot.Journal]. It checks the clock; see isOver.
func (j *journal) Append(records ...record.Record) error {
	if j.session.isOver() {
		j.Lose()
	}
	return j.Journal.Append(records...)
}

// Write implements [storekit.Writer].
func (j *journal) Write(ctx context.Context, b storekit.Batch) error {
	return j.send(ctx, &message{
		kind: kindAppended, generation: j.marker.generation, session: j.session.id, opening: j.marker.seq, last: b.Last, records: b.Data,
	}, nil)
}

// Finish implements [storekit.Writer].
func (j *journal) Finish(ctx context.Context, end snapshot.End, rest storekit.Batch) error {
	m := &message{kind: kindSettled, generation: j.marker.generation, born: j.marker.born, last: max(rest.Prev, rest.Last), records: rest.Data}
	info := storekit.ClosedInfo(j.known, end)
	info.LastSeq = m.last
	if err := j.send(ctx, m, &info); err != nil {
		return err
	}
	j.store.showNow(ctx, &head{message: *m, info: info}, j.indexed)
	return nil
}

// send appends a message to the run.
func (j *journal) send(ctx context.Context, m *message, info *snapshot.Info) error {
	lost := snapshot.ErrLease
	if len(m.records) > 0 {
		lost = snapshot.ErrMaybeStored
	}
	if j.session.isOver() {
		return fmt.Errorf("%w: run %s", lost, j.runID)
	}
	ctx, cancel := j.session.bound(ctx)
	defer cancel()
	seq, err := j.store.append(ctx, j.runID, m, info, j.at)
	switch {
	case err == nil:
		j.at, m.seq = seq, seq
		return nil
	case errors.Is(err, errConflict):
		return storekit.FencedError(j.runID)
	case j.session.ctx.Err() != nil:
		return fmt.Errorf("%w: run %s: %w", snapshot.ErrMaybeStored, j.runID, err)
	}
	return fmt.Errorf("snapshot: run %s: %w", j.runID, err)
}

// Closed implements [storekit.Writer].
func (j *journal) Closed(err error) {
	j.stop()
	if err != nil {
		j.session.leave(j)
	}
	j.session.remove(j)
}
