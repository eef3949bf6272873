package streamer

import (
	"math"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// cursor is a position in a stream, just after the event with this number. On the wire, it is the
// event's ID. The zero cursor is the beginning.
type cursor struct {
	// generation is the record's generation in the stream of a run, and the handler's own
	// number in the stream of all runs.
	generation uint64
	n          uint64
}

func cursorOf(r *record.Record) cursor { return cursor{r.Generation, r.Seq} }

// An ID in the stream of a run begins with the time at which the run was created, in microseconds
// since 1970, and a dot. Therefore a deleted run's cursor is not valid for another run with the
// same ID. If the time is not known, it counts as 0 and is left out.

// cutCreated splits an ID into the run's creation time and the cursor.
func cutCreated(id string) (created int64, rest string) {
	text, rest, found := strings.Cut(id, ".")
	if !found || len(text) > 20 {
		return 0, id
	}
	n, ok := parseNumber(text)
	if !ok || n == 0 || n > math.MaxInt64 {
		return 0, id // not a valid ID: parseCursor refuses it
	}
	return int64(n), rest
}

// appendCreated appends the beginning of an ID: the run's creation time and a dot. If created is 0,
// it appends nothing.
func appendCreated(b []byte, created int64) []byte {
	if created == 0 {
		return b
	}
	return append(strconv.AppendInt(b, created, 10), '.')
}

// maxCursor is the maximum length of an ID without the run's creation time.
const maxCursor = 2*20 + 1

// parseCursor reads an ID. If no handler can have written it, ok is false.
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

func (c cursor) String() string { return string(c.append(nil)) }

func (c cursor) append(b []byte) []byte {
	b = strconv.AppendUint(b, c.generation, 10)
	b = append(b, '-')
	return strconv.AppendUint(b, c.n, 10)
}
