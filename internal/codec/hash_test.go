package codec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

func TestHashDoesNotDependOnMapOrder(t *testing.T) {
	data, err := codec.Encode(map[string]int{"a": 1, "b": 2})
	require.NoError(t, err)
	want, err := codec.Hash(data)
	require.NoError(t, err)
	for _, encoded := range []string{"\x82\xa1a\x01\xa1b\x02", "\x82\xa1b\x02\xa1a\x01"} {
		got, err := codec.Hash([]byte(encoded))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, none := range []string{"", "\xc1", "\x82\xa1a\x01"} {
		_, err := codec.Hash([]byte(none))
		require.Error(t, err, "%q", none)
	}
}
