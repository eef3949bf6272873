package codec_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

// Values that are cached per type must be usable outside the synctest bubble in
// which the type was first used.
func TestTypeFirstUsedInABubbleIsUsableOutside(t *testing.T) {
	type tree struct {
		Name  string
		Inner *tree
	}
	value := tree{Name: "a", Inner: &tree{Name: "b", Inner: &tree{Name: "c"}}}
	var data []byte
	synctest.Test(t, func(t *testing.T) {
		var err error
		data, err = codec.Encode(tree{Name: "a"})
		require.NoError(t, err)
		var got tree
		require.NoError(t, codec.Decode(data, &got))
	})
	for range 3 {
		runtime.GC()
		data, err := codec.Encode(value)
		require.NoError(t, err)
		var got tree
		require.NoError(t, codec.Decode(data, &got))
		assert.Equal(t, value, got)
	}
}
