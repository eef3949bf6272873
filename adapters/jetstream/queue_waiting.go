package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/runner"
)

// Now implements [runner.Queue]. It returns the server's time.
func (q *Queue) Now(ctx context.Context) (time.Time, error) { return q.store.now.Now(ctx) }

// askTime asks the server that leads the stream of records for its time.
func (s *Store) askTime(ctx context.Context) (now time.Time, err error) {
	err = s.retry(ctx, s.api+"STREAM.INFO.", func(ctx context.Context) error {
		stream, err := s.js.Stream(ctx, s.names.records())
		if err == nil {
			now = stream.CachedInfo().TimeStamp
		}
		return err
	})
	switch {
	case err != nil:
		return time.Time{}, err
	case now.IsZero():
		return time.Time{}, errors.New("jetstream: the server's answer does not contain its time")
	}
	return now, nil
}

// Waiting implements [runner.Queue]. The server counts the jobs, but the number of jobs that have
// been taken comes from the processes' heartbeats, so the result may be as old as the last
// heartbeats.
func (q *Queue) Waiting(ctx context.Context, programs []runner.ProgramID) (due, parked int, err error) {
	own, err := q.store.session(ctx)
	if err == nil {
		err = q.learnAll(ctx, own)
	}
	if err != nil {
		return 0, 0, err
	}
	consumers, err := q.consumers(ctx)
	if err == nil {
		consumers, err = q.complete(ctx, consumers, programs)
	}
	if err != nil && context.Cause(ctx) != nil {
		return 0, 0, context.Cause(ctx)
	} else if err != nil {
		return 0, 0, unavailable(fmt.Errorf("count the jobs: %w", err))
	}
	taken, err := q.takenJobs(ctx)
	if err != nil {
		return 0, 0, err
	}
	jobs, untaken := make(map[string]int), make(map[string]int)
	for _, c := range consumers {
		if p, ofJobs := q.programOf(c); ofJobs {
			jobs[p] += int(c.NumPending) + c.NumAckPending
			untaken[p] += int(c.NumPending)
		} else if c.Config.FilterSubject == q.waitSubjects() {
			parked = int(c.NumPending)
		}
	}
	for _, p := range programs {
		due += max(untaken[programToken(p)], jobs[programToken(p)]-taken[programToken(p)])
	}
	return due, parked, nil
}

// programToken returns the form of a program that is used in subjects.
func programToken(p runner.ProgramID) string { return safeToken(p.Name) + "." + safeToken(p.Version) }

// waitSubjects returns the subject filter for all jobs that wait until they are due.
func (q *Queue) waitSubjects() string { return "rq." + q.store.names.store + ".w.*" }

// programOf returns the program whose jobs a consumer delivers, and reports whether the consumer
// delivers jobs at all.
func (q *Queue) programOf(c *jetstream.ConsumerInfo) (token string, ofJobs bool) {
	rest, ofJobs := strings.CutPrefix(c.Config.FilterSubject, "rq."+q.store.names.store+".j.")
	parts := strings.Split(rest, ".") // level, program, version, run
	if !ofJobs || len(parts) != 4 {
		return "", false
	}
	return parts[1] + "." + parts[2], true
}

// consumers returns the state of all consumers.
func (q *Queue) consumers(ctx context.Context) (all []*jetstream.ConsumerInfo, err error) {
	err = q.store.retry(ctx, q.store.api+"CONSUMER.LIST.", func(ctx context.Context) error {
		all = all[:0]
		list := q.jobs.ListConsumers(ctx)
		for info := range list.Info() {
			all = append(all, info)
		}
		return list.Err()
	})
	return all, err
}

// complete creates the missing consumers that are needed for counting: those for programs, and one,
// from which no worker takes jobs, for the jobs that wait until they are due.
func (q *Queue) complete(ctx context.Context, all []*jetstream.ConsumerInfo, programs []runner.ProgramID) ([]*jetstream.ConsumerInfo, error) {
	there := make(map[string]bool)
	for _, c := range all {
		there[c.Config.FilterSubject] = true
	}
	if !there[q.waitSubjects()] {
		c, err := q.jobs.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: "parked", Description: "counts the runs that wait for their time", FilterSubject: q.waitSubjects(),
			AckPolicy: jetstream.AckExplicitPolicy, InactiveThreshold: consumerUnused,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, c.CachedInfo())
	}
	for _, p := range q.inUse(programs) {
		if there[q.filter(p)] {
			continue
		}
		c, err := q.consumer(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, c.CachedInfo())
	}
	return all, nil
}

// takenJobs returns how many jobs of each program have been taken by live processes.
func (q *Queue) takenJobs(ctx context.Context) (map[string]int, error) {
	own, err := q.store.session(ctx)
	if err != nil {
		return nil, err
	}
	now, err := q.Now(ctx)
	if err != nil {
		return nil, err
	}
	all := own.jobs()
	for beat, err := range q.store.readThere(ctx, q.store.names.records(), q.store.names.all("s"), 1, endOfStream) {
		if err != nil {
			return nil, err
		}
		lease, _ := time.ParseDuration(beat.Header.Get(headerLease))
		if _, id := parse(beat.Subject); id == own.id || now.Sub(beat.Time) > lease {
			continue // the session is over, or is this process's own, which was counted already
		}
		var jobs map[string]int
		if err := json.Unmarshal(beat.Data, &jobs); err != nil {
			continue
		}
		for p, n := range jobs {
			all[p] += n
		}
	}
	return all, nil
}

// jobs returns, for each program, the number of jobs that Take has handed out in this process.
func (s *session) jobs() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int)
	for l, handed := range s.leases {
		if handed {
			all[programToken(l.entry.Program)]++
		}
	}
	return all
}
