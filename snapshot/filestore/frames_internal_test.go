package filestore

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeadsAreFoundWhereverTheyAre checks that heads are found at every offset in a file, with any
// other bytes around them, and nowhere else.
func TestHeadsAreFoundWhereverTheyAre(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		base := random.Int64N(1 << uint(1+random.IntN(50)))
		buf := make([]byte, frameHead+random.IntN(700))
		for i := range buf {
			buf[i] = byte(random.IntN(1 + random.IntN(256)))
		}
		at := random.IntN(len(buf) - frameHead + 1)
		framed, err := endFrame(beginFrame(nil, frameRecords), 0, base+int64(at), base)
		require.NoError(t, err)
		copy(buf[at:], framed[:frameHead])
		begin := random.IntN(at + 1)
		require.Equal(t, at, nextHead(buf, begin, base), "from %d at %d", begin, base)
		buf[at]++
		require.Equal(t, len(buf)-frameHead, nextHead(buf, begin, base), "where no head fits")
	}
	require.Equal(t, 3, nextHead(make([]byte, frameHead+2), 3, 0))
}
