package jetstream

import (
	"context"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/runner"
)

// A consumer delivers its jobs in the order in which they were added. Each program therefore has
// one consumer for each priority, which is called a level here, and jobs are pulled from the
// highest level first. Workers do not ask for jobs of unused levels: before the first job with a
// level other than 0 is added, the level is announced in a note. Workers read the notes and listen
// for new ones.

// maxLevel is the highest level, and -maxLevel the lowest.
const maxLevel = 100

// levelOf returns the level for jobs with the given priority.
func levelOf(priority int) int { return max(-maxLevel, min(priority, maxLevel)) }

// levelTTL is how long a note is kept. The note is renewed when jobs with its level are added,
// including those added by a sweep.
const levelTTL = "168h"

// note announces an entry's level to all workers, unless this process has done so recently.
func (q *Queue) note(ctx context.Context, e *runner.QueueEntry) error {
	p := puller{e.Program, levelOf(e.Priority)}
	q.mu.Lock()
	noted := p.level == 0 || q.noted[p]
	q.mu.Unlock()
	if noted {
		return nil
	}
	data, err := encodeJob(&runner.QueueEntry{RunID: "*", Program: p.program, Priority: p.level})
	if err != nil {
		return err
	}
	msg := nats.NewMsg(q.store.names.level(p))
	msg.Data = data
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	msg.Header.Set(jetstream.MsgTTLHeader, levelTTL)
	if _, err := q.store.publishAny(ctx, q.store.names.records(), msg); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.noted[p] = true
	q.learn(p)
	return nil
}

// forgetNotes makes this process write its notes again, since the server may have lost them or may
// soon remove them.
func (q *Queue) forgetNotes() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.noted)
}

// learn records that a level is in use. q.mu must be held.
func (q *Queue) learn(p puller) {
	known := q.levelsOf(p.program)
	if !slices.Contains(known, p.level) {
		known = append(slices.Clone(known), p.level)
		slices.SortFunc(known, func(a, b int) int { return b - a })
	}
	q.levels[p.program] = known
	q.signal()
}

// inUse returns a puller for each level that is known to be in use by the given programs.
func (q *Queue) inUse(programs []runner.ProgramID) (all []puller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, program := range programs {
		for _, level := range q.levelsOf(program) {
			all = append(all, puller{program, level})
		}
	}
	return all
}

// levelsOf returns the levels that a program is known to use, highest first. q.mu must be held.
func (q *Queue) levelsOf(program runner.ProgramID) []int {
	if known := q.levels[program]; len(known) > 0 {
		return known
	}
	return []int{0}
}

// learnFrom learns the level that a note announces.
func (q *Queue) learnFrom(data []byte) {
	e, err := decodeJob(data)
	if err != nil {
		return // a note that cannot be read is ignored
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.learn(puller{e.Program, levelOf(e.Priority)})
}

// learnAll reads all notes, once in each session. Later notes are received as they arrive.
func (q *Queue) learnAll(ctx context.Context, own *session) error {
	q.mu.Lock()
	done := q.learned == own
	q.mu.Unlock()
	if done {
		return nil
	}
	for m, err := range q.store.readThere(ctx, q.store.names.records(), q.store.names.all("p"), 1, endOfStream) {
		if err != nil {
			return err
		}
		q.learnFrom(m.Data)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.learned = own
	return nil
}
