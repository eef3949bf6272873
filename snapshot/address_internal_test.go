package snapshot

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A decoder reads many addresses and remembers some of them. Each address must be the same as if
// its text had been parsed separately.
func TestAddressesAreReadAsTheyAreParsed(t *testing.T) {
	d := newRecordDecoder()
	defer d.release()
	rng := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "a%2F", "step:a", "group:a", "/", "/", "#", "#", "@", "2", "3", "10", "01", "0", "1", "999999999", "9999999999", "pre", ""}
	for range 6_000 {
		var text strings.Builder
		for range rng.IntN(7) {
			text.WriteString(parts[rng.IntN(len(parts))])
		}
		if rng.IntN(10) == 0 {
			fmt.Fprint(&text, rng.IntN(1000)) // more than a decoder can remember
		}
		requireAddress(t, d, text.String())
	}
}

func requireAddress(t *testing.T, d *recordDecoder, text string) {
	t.Helper()
	w := codec.NewWriter(nil)
	w.Array(1)
	w.Text(text)
	in := codec.NewReader(w.Finish())
	defer in.Release()
	f := newFieldReader(in)
	require.True(t, f.next())
	got := d.address(&f)
	want, err := record.ParseAddress(text)
	if err != nil {
		require.ErrorContains(t, f.err(), err.Error())
		return
	}
	require.NoError(t, f.err(), "%q", text)
	require.Equal(t, want, got, "%q", text)
}
