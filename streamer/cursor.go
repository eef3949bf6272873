package streamer

import (
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// cursor is a place in a stream: after the event with this number. On the wire
// it is the event's ID. The zero cursor is the beginning.
type cursor struct {
	// generation is that of the record in the stream of a run, and the
	// handler's own number in the stream of all runs.
	generation uint64
	n          uint64
}

func cursorOf(r *record.Record) cursor { return cursor{r.Generation, r.Seq} }

// maxCursor is how long an ID may be.
const maxCursor = 2*20 + 1

// parseCursor reads an ID. It is not ok if no handler wrote it.
func parseCursor(id string) (c cursor, ok bool) {
	generation, number, found := strings.Cut(id, "-")
	if !found || len(id) > maxCursor {
		return cursor{}, false
	}
	c.generation, ok = parseNumber(generation)
	if !ok {
		return cursor{}, false
	}
	c.n, ok = parseNumber(number)
	return c, ok
}

func parseNumber(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && text == strconv.FormatUint(n, 10)
}

// Another run may have the ID of one that was deleted, and records with the same
// generations and numbers. So what a run's IDs have as the generation also has
// in it when the run was created, as far as that is known.
const (
	tagShift      = 32
	maxGeneration = 1<<tagShift - 1
)

// tagOf is what is above the generation in the IDs of a run that was created
// then: 0 for the zero time.
func tagOf(created time.Time) uint64 {
	if created.IsZero() {
		return 0
	}
	return uint64(uint32(created.UnixNano())) << tagShift //nolint:gosec // some bits of it
}

// tagged is the cursor as it is in an ID of a run with the tag.
func (c cursor) tagged(tag uint64) cursor {
	if c.generation <= maxGeneration {
		c.generation |= tag
	}
	return c
}

// untagged is the reverse of tagged.
func (c cursor) untagged() (_ cursor, tag uint64) {
	tag = c.generation &^ maxGeneration
	c.generation &= maxGeneration
	return c, tag
}

func (c cursor) String() string { return string(c.append(nil)) }

func (c cursor) append(b []byte) []byte {
	b = strconv.AppendUint(b, c.generation, 10)
	b = append(b, '-')
	return strconv.AppendUint(b, c.n, 10)
}
