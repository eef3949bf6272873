package streamer

import (
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
)

// cursor is a place in a stream: after the event with this number. On the wire
// it is the event's ID.
type cursor struct {
	epoch string // letters and digits
	n     uint64
}

// maxCursor is how long an ID may be.
const maxCursor = 64

// parseCursor reads an ID. One that no handler wrote is not ok.
func parseCursor(id string) (c cursor, ok bool) {
	epoch, number, found := strings.Cut(id, "-")
	if !found || len(id) > maxCursor || epoch == "" || strings.ContainsFunc(epoch, notAlphanumeric) {
		return cursor{}, false
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || number != strconv.FormatUint(n, 10) {
		return cursor{}, false
	}
	return cursor{epoch, n}, true
}

func notAlphanumeric(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z')
}

func (c cursor) String() string { return string(c.append(nil)) }

func (c cursor) append(b []byte) []byte {
	b = append(b, c.epoch...)
	b = append(b, '-')
	return strconv.AppendUint(b, c.n, 10)
}

// opens reports whether r is the first record of an opening of its run.
func opens(r *core.Record) bool {
	return r.Kind == core.KindRun && r.Status == core.StatusStarted && r.Seq > 0 && !r.Replayed
}

// unopened is the epoch of records that no opening is before.
const unopened = "0"

// epochName names the opening of a run whose first record was made at t. It is
// the same in every process that reads the record.
func epochName(t time.Time) string { return strconv.FormatUint(uint64(t.UnixNano()), 36) }
