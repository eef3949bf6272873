package jetstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatWasWrittenBeforeAServerStartedAgainIsCompared covers the case that more was written to
// the restarted server before the comparison.
func TestWhatWasWrittenBeforeAServerStartedAgainIsCompared(t *testing.T) {
	var w lastWritten
	assert.Empty(t, w.takeOthers("one"))
	w.add(stamp{7, "a"}, "one")
	assert.Empty(t, w.takeOthers("one"), "the server is the same")
	assert.Equal(t, []stamp{{7, "a"}}, w.takeOthers("two"))
	assert.Empty(t, w.takeOthers("two"), "it was compared")
	w.add(stamp{9, "c"}, "two")
	w.add(stamp{8, "b"}, "two") // the writer of this message noted it late
	w.add(stamp{3, "d"}, "three")
	w.add(stamp{4, "e"}, "four")
	assert.ElementsMatch(t, []stamp{{9, "c"}, {3, "d"}}, w.takeOthers("four"))
	assert.Equal(t, []stamp{{4, "e"}}, w.takeOthers("five"))
}
