package codec_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

// What is made once for a type outlives the bubble of a test that happened to
// need it first.
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
