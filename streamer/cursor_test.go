package streamer

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzCursorIsReadAsItWasWritten(f *testing.F) {
	for _, id := range []string{"dn080octmj9l-7", "a-0", "-1", "a-", "a--1", "a-01", "A-1", "a-1\n", "a-18446744073709551615"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		c, ok := parseCursor(id)
		if !ok {
			return
		}
		require.Equal(t, id, c.String())
		require.False(t, strings.ContainsAny(id, "\r\n\x00 :"), "it would be another line on the wire")
	})
}

func TestEpochIsThatOfTheInstantInEveryZone(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 7, time.UTC)
	assert.Equal(t, epochName(at), epochName(at.In(time.FixedZone("x", 3600))))
	assert.NotEqual(t, epochName(at), epochName(at.Add(1)))
	_, ok := parseCursor(cursor{epochName(at), 1}.String())
	assert.True(t, ok)
	_, ok = parseCursor(cursor{epochName(time.Time{}), 1}.String())
	assert.True(t, ok, "also for a record without a time")
	_, ok = parseCursor(cursor{randomEpoch(), 1}.String())
	assert.True(t, ok)
}
