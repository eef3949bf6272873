package bus_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/record"
)

// A model predicts what a subscriber with a queue of the given limit receives.
type model struct {
	limit   int
	current bool    // an entry has been delivered but not yet released
	waiting []entry // entries to deliver next
	entries []string
	stats   bus.Stats
}

type entry struct {
	isGap bool
	gap   bus.Gap
	seq   uint64
}

func (m *model) publish(seq uint64) {
	records := 0
	for _, e := range m.waiting {
		if !e.isGap {
			records++
		}
	}
	if records < m.limit {
		m.waiting = append(m.waiting, entry{seq: seq})
	} else {
		m.stats.Dropped++
		if last := &m.waiting[len(m.waiting)-1]; last.isGap {
			last.gap.To = seq
			last.gap.Missed++
		} else {
			m.waiting = append(m.waiting, entry{isGap: true, gap: bus.Gap{From: seq, To: seq, Missed: 1}})
		}
	}
	m.settle()
}

func (m *model) release() {
	m.current = false
	m.settle()
}

func (m *model) settle() {
	if !m.current && len(m.waiting) > 0 {
		e := m.waiting[0]
		m.waiting, m.current = m.waiting[1:], true
		if e.isGap {
			m.entries = append(m.entries, fmt.Sprintf("%d-%d:%d", e.gap.From, e.gap.To, e.gap.Missed))
		} else {
			m.entries = append(m.entries, fmt.Sprint(e.seq))
			m.stats.Delivered++
		}
	}
	m.stats.Queued = 0
	for _, e := range m.waiting {
		if !e.isGap {
			m.stats.Queued++
		}
	}
}

// A modeled subscriber handles each record or gap only when the test releases it.
type modeled struct {
	model
	diary
	*bus.Subscription
}

func TestSubscribersGetWhatTheModelPredicts(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			b := bus.New()
			var seq uint64
			var all, live []*modeled
			check := func(s *modeled) {
				require.Equal(t, s.model.entries, s.diary.entries, "seed %d", seed)
				require.Equal(t, s.stats, s.Stats(), "seed %d", seed)
			}
			for range 300 {
				switch action := random.IntN(20); {
				case action == 0 && len(live) < 5:
					s := &modeled{diary: diary{hold: make(chan struct{})}}
					s.limit = 1 + random.IntN(4)
					s.Subscription = s.subscribe(b, bus.WithQueue(s.limit))
					all, live = append(all, s), append(live, s)
				case action == 1 && len(live) > 0:
					i := random.IntN(len(live))
					s := live[i]
					live = append(live[:i], live[i+1:]...)
					go close(s.hold)
					if random.IntN(2) == 0 { // possibly with queued records
						s.stats.Queued = 0
						s.Close()
						stats := s.Stats()
						require.LessOrEqual(t, s.stats.Delivered, stats.Delivered)
						require.LessOrEqual(t, stats.Delivered+stats.Queued+stats.Dropped, seq)
						s.model.entries, s.stats = s.diary.entries, stats
						break
					}
					synctest.Wait()
					for s.current {
						s.release()
					}
					s.Close()
				case action < 10:
					for range 1 + random.IntN(3) {
						seq++
						b.Publish(record.Record{Seq: seq})
						for _, s := range live {
							s.publish(seq)
						}
						synctest.Wait()
					}
				case len(live) > 0:
					if s := live[random.IntN(len(live))]; s.current {
						s.hold <- struct{}{}
						s.release()
					}
				}
				synctest.Wait()
				for _, s := range all {
					check(s)
				}
			}
			for _, s := range live {
				go close(s.hold)
				for s.current {
					s.release()
				}
			}
			b.Close()
			for _, s := range all {
				check(s)
			}
		})
	}
}

// A witness checks that the records and gaps that it receives leave no holes.
type witness struct {
	name            string
	random          *rand.Rand
	pace            int
	first, last     uint64
	records, missed uint64
	afterGap        bool
	faults          []string
}

func (w *witness) record(r record.Record) {
	w.follow(r.Seq, r.Seq)
	w.records++
	w.afterGap = false
	for range w.random.IntN(w.pace) {
		runtime.Gosched()
	}
	if w.pace > 1 && w.random.IntN(50) == 0 {
		panic("now and then")
	}
}

func (w *witness) gap(g bus.Gap) {
	w.follow(g.From, g.To)
	w.missed += g.Missed
	if g.Missed != g.To-g.From+1 || w.afterGap {
		w.faults = append(w.faults, fmt.Sprintf("%s: %+v", w.name, g))
	}
	w.afterGap = true
}

func (w *witness) follow(from, to uint64) {
	if w.first == 0 {
		w.first = from
	} else if from != w.last+1 {
		w.faults = append(w.faults, fmt.Sprintf("%s: %d follows %d", w.name, from, w.last))
	}
	w.last = to
}

func TestRecordsAndGapsLeaveNoHoleHoweverManyComeAndGo(t *testing.T) {
	const published = 20_000
	b := bus.New()
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range 12 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 2))
			<-start
			for round := range 20 {
				w := &witness{
					name: fmt.Sprintf("%d/%d", i, round), pace: 1 + i%4*5,
					random: rand.New(rand.NewPCG(uint64(i), uint64(round))),
				}
				options := []bus.Option{bus.WithQueue(1 + random.IntN(64)), bus.WithGap(w.gap)}
				if i%3 == 0 {
					options = append(options, bus.WithBlock(time.Duration(1+random.IntN(50))*time.Microsecond))
				}
				if i%2 == 0 {
					n := 0
					for r := range b.Records(t.Context(), options...) {
						func() {
							defer func() { _ = recover() }()
							w.record(r)
						}()
						if n++; round < 19 && n > 100 {
							break
						}
					}
				} else {
					s := b.Subscribe(w.record, options...)
					for range random.IntN(200) {
						runtime.Gosched()
					}
					s.Close()
					stats := s.Stats()
					assert.Equal(t, w.records, stats.Delivered)
					assert.GreaterOrEqual(t, stats.Dropped, w.missed)
				}
				assert.Empty(t, w.faults)
			}
		})
	}
	close(start)
	for seq := range uint64(published) {
		b.Publish(record.Record{Seq: seq + 1})
	}
	b.Close()
	group.Wait()
}

func TestDeliveredAndDroppedAreAllThatWasPublished(t *testing.T) {
	b := bus.New()
	random := rand.New(rand.NewPCG(3, 4))
	var seq uint64
	type open struct {
		*witness
		*bus.Subscription
		since uint64
	}
	var subscribers []open
	for i := range 16 {
		w := &witness{name: fmt.Sprint(i), random: rand.New(rand.NewPCG(uint64(i), 5)), pace: 1 + i%4*10}
		s := b.Subscribe(w.record, bus.WithQueue(1+random.IntN(100)), bus.WithGap(w.gap))
		subscribers = append(subscribers, open{w, s, seq})
		for range random.IntN(2000) {
			seq++
			b.Publish(record.Record{Seq: seq})
		}
	}
	b.Close()
	for _, s := range subscribers {
		stats := s.Stats()
		assert.Empty(t, s.faults)
		assert.Equal(t, s.records, stats.Delivered)
		assert.Equal(t, s.missed, stats.Dropped)
		assert.Equal(t, seq-s.since, stats.Delivered+stats.Dropped)
		if seq > s.since {
			assert.Equal(t, []uint64{s.since + 1, seq}, []uint64{s.first, s.last})
		}
	}
}

func TestConcurrentPublishersLoseNothing(t *testing.T) {
	b := bus.New()
	s := b.Subscribe(func(record.Record) {}, bus.WithQueue(8), bus.WithBlock(time.Hour))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { publish(b, 1, 2000) })
	}
	group.Wait()
	b.Close()
	assert.Equal(t, bus.Stats{Delivered: 16_000}, s.Stats())
}
