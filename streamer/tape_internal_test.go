package streamer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A cleared tape keeps nothing in memory, not even the array that held its events.
func TestClearedTapeHoldsNothing(t *testing.T) {
	const limit = 5
	tape := newTape(limit, 1<<20)
	n := uint64(0)
	put := func(count int) {
		for range count {
			n++
			tape.append(&frame{size: 1}, cursor{1, n})
		}
	}
	for _, count := range []int{0, 3, 5, 7, 12} {
		put(count)
		tape.clear()
		assert.Nil(t, tape.entries)
		assert.Zero(t, tape.bytes)
		put(2)
		pos, where := tape.locate(cursor{1, n - 1})
		require.Equal(t, placeFound, where)
		var got [1]entry
		read, ok := tape.read(pos, got[:])
		require.True(t, ok)
		require.Equal(t, 1, read)
		assert.Equal(t, n, got[0].id.n)
	}
}
