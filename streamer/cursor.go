package streamer

import (
	"math"
	"strconv"
	"strings"

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

// parseBorn reads the ID of an event of a run: a cursor, and when the run was created, so
// that the cursor of a run that was deleted is none of another one with the same ID. Born is
// 0 if the ID does not say.
func parseBorn(id string) (c cursor, born int64, ok bool) {
	id, text, found := strings.Cut(id, ".")
	if found {
		n, ok := parseNumber(text)
		if !ok || n > math.MaxInt64 {
			return cursor{}, 0, false
		}
		born = int64(n)
	}
	c, ok = parseCursor(id)
	return c, born, ok
}

// withBorn is the ID of an event of a run.
func (c cursor) withBorn(born int64) string {
	if born == 0 || c.n == 0 {
		return c.String()
	}
	return c.String() + "." + strconv.FormatInt(born, 10)
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
