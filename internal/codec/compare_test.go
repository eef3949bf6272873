package codec_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

func TestDifferencesShowValuesAsTheUserWroteThem(t *testing.T) {
	type order struct {
		Number any `json:"number"`
	}
	for _, c := range []struct {
		was, now any
		want     string
	}{
		{1, 99999, "number: recorded 1, now 99999"},
		{-300, uint64(1) << 63, "number: recorded -300, now 9223372036854775808"},
		{2.5, "2.5", `number: recorded 2.5, now "2.5"`},
		{nil, []int{200, 300}, "number: recorded nothing, now [200,300]"},
		{true, map[string]int{"a<b": 1000}, `number: recorded true, now {"a<b":1000}`},
	} {
		was, err := codec.Encode(order{c.was})
		require.NoError(t, err)
		now, err := codec.Encode(order{c.now})
		require.NoError(t, err)
		found, err := codec.Differences(was, now, 5)
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Equal(t, c.want, found[0].String())
	}
}
