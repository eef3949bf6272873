package streamer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzCursorIsReadAsItWasWritten(f *testing.F) {
	for _, id := range []string{"3-7", "0-0", "-1", "1-", "1--1", "1-01", "01-1", "+1-1", "a-1", "1-1\n", "18446744073709551615-18446744073709551615"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		c, ok := parseCursor(id)
		if !ok {
			return
		}
		require.Equal(t, id, c.String())
		require.False(t, strings.ContainsAny(id, "\r\n\x00 :"), "it would begin another line of the event")
	})
}
