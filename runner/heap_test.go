package runner

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestQueueKeepsItsOrder checks that each of 10,000 runs becomes ready when it is due, and that
// ready runs are taken by priority and then by time.
func TestQueueKeepsItsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	begin := time.Unix(1_000_000, 0)
	q := newQueue()
	var want []*entry
	for i := range 10_000 {
		due := begin.Add(time.Duration(rng.IntN(1000)) * time.Second)
		e := &entry{runID: fmt.Sprint(i), due: due.UnixNano(), priority: int32(rng.IntN(3))}
		if q.add(e, begin); i%10 == 0 {
			q.remove(e.runID)
			q.remove(e.runID)
		} else {
			want = append(want, e)
		}
	}
	slices.SortFunc(want, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(b.priority, a.priority), cmp.Compare(a.runID, b.runID))
	})
	for len(want) > 0 {
		now := begin
		if next, ok := q.next(); ok && len(q.ready.entries) == 0 {
			now = next
		}
		q.advance(now)
		e := q.pop()
		if !assert.Same(t, want[0], e) {
			return
		}
		want = want[1:]
	}
	assert.Nil(t, q.pop())
	assert.Empty(t, q.entries)
	_, ok := q.next()
	assert.False(t, ok)
}
