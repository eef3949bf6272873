package jetstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatWasWrittenBeforeAServerStartedAgainIsCompared, even if more was written to
// the restarted server before the comparison.
func TestWhatWasWrittenBeforeAServerStartedAgainIsCompared(t *testing.T) {
	var w lastWritten
	assert.Zero(t, w.take("one"))
	w.add(stamp{7, "a"}, "one")
	assert.Zero(t, w.take("one"), "the server is the same")
	assert.Equal(t, stamp{7, "a"}, w.take("two"))
	w.add(stamp{8, "b"}, "two")
	w.add(stamp{9, "c"}, "two")
	assert.Equal(t, stamp{7, "a"}, w.take("two"))
	assert.Zero(t, w.take("two"))
	w.add(stamp{3, "d"}, "three")
	w.add(stamp{4, "e"}, "four")
	assert.Equal(t, stamp{9, "c"}, w.take("four"), "the oldest message that was not compared")
}
