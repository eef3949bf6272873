package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A server syncs a consumer and its stream separately. A server that was killed may therefore have
// stored that a job was acknowledged, but not that the job was removed. Such a job is never delivered
// again, and no other job can be added for its run.

// repair republishes such jobs and returns how many there were. If the run of a job has ended in
// the meantime, the job does no harm: the worker that takes it notices the end.
func (q *Queue) repair(ctx context.Context) (queued int, err error) {
	q.forgetNotes()
	consumers, err := q.consumers(ctx)
	for i := 0; err == nil && i < len(consumers); i++ {
		if _, ofJobs := q.programOf(consumers[i]); !ofJobs {
			continue
		}
		var n int
		n, err = q.repairBelow(ctx, consumers[i].Config.FilterSubject, consumers[i].AckFloor.Stream)
		queued += n
	}
	if err != nil {
		return queued, fmt.Errorf("jetstream: repair the queue: %w", err)
	}
	return queued, nil
}

// repairBelow republishes the jobs that are still on a subject although they were acknowledged. These
// are the jobs with a sequence of at most floor.
func (q *Queue) repairBelow(ctx context.Context, subject string, floor uint64) (queued int, err error) {
	for at := uint64(1); ; {
		m, err := q.store.get(ctx, q.config().Name, query{Next: subject, Seq: at})
		if errors.Is(err, errNotFound) || err == nil && m.Seq > floor {
			return queued, nil
		} else if err != nil {
			return queued, err
		}
		at = m.Seq + 1
		e, err := decodeJob(m.Data)
		if err != nil {
			continue // no worker can run the job
		}
		e.Due = time.Time{}
		if _, err := q.put(ctx, &e); err != nil {
			return queued, err
		}
		queued++
	}
}

// repairLoop repairs the queue until its store is closed.
func (q *Queue) repairLoop() {
	tick := time.NewTicker(repairEvery * q.store.options.Lease)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			queued, _ := q.repair(q.store.ctx) // after an error, the next repair tries again
			q.store.noteRepaired(RepairReport{Queued: queued})
		case <-q.store.ctx.Done():
			return
		}
	}
}

// repairEvery is the time between repairs, as a multiple of the lease.
const repairEvery = 6
