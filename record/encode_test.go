package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

func TestHashOfEncodedDoesNotDependOnMapOrder(t *testing.T) {
	want, err := record.HashOf(map[string]int{"a": 1, "b": 2})
	require.NoError(t, err)
	for _, encoded := range []string{"\x82\xa1a\x01\xa1b\x02", "\x82\xa1b\x02\xa1a\x01"} {
		got, err := record.HashOfEncoded([]byte(encoded))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, none := range []string{"", "\xc1", "\x82\xa1a\x01"} {
		_, err := record.HashOfEncoded([]byte(none))
		require.Error(t, err, "%q", none)
	}
}
