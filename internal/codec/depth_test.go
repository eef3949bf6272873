package codec_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

type ringOf struct {
	Next *ringOf
	Any  any
}

type ofItself []ofItself

func TestValueThatContainsItselfIsRefused(t *testing.T) {
	ring, through := &ringOf{}, &ringOf{}
	ring.Next, through.Any = ring, through
	list, m, slice := []any{nil}, map[string]any{}, ofItself{nil}
	list[0], m["m"], slice[0] = list, m, slice
	keyed := map[any]int{through: 1}
	for name, v := range map[string]any{"pointer": ring, "interface": through, "list": list, "map": m, "slice": slice, "key": keyed, "inside": struct{ R any }{ring}} {
		for _, encode := range []func(any) ([]byte, error){codec.Encode, codec.EncodeIdentity, codec.EncodeIdentityOfAny, codec.EncodeBefore} {
			_, err := encode(v)
			require.ErrorIs(t, err, codec.ErrTooDeep, name)
			assert.Less(t, len(err.Error()), 200, name)
		}
	}
}

// The deepest value that can be encoded can also be decoded.
func TestDeepestValueIsDecoded(t *testing.T) {
	for name, nest := range map[string]func(any) any{
		"lists":    func(v any) any { return []any{v} },
		"maps":     func(v any) any { return map[string]any{"v": v} },
		"pointers": func(v any) any { return &v },
		"structs":  func(v any) any { return ringOf{Any: v} },
	} {
		t.Run(name, func(t *testing.T) {
			var v any = [1][1]int{{1}}
			deepest := 0
			for depth := range 1100 {
				if depth > 300 {
					data, err := codec.Encode(v)
					if err != nil {
						require.ErrorIs(t, err, codec.ErrTooDeep)
						break
					}
					var back any
					require.NoError(t, codec.Decode(data, &back), depth)
					deepest = depth
				}
				v = nest(v)
			}
			assert.Greater(t, deepest, 300)
			assert.Less(t, deepest, 1000)
		})
	}
}

// If keys contain keys, the text of a key doubles in length with each level.
func TestKeysOfMapsAreNotNestedDeeply(t *testing.T) {
	nested := append(bytes.Repeat([]byte{0x81}, 40), bytes.Repeat([]byte{0xc0}, 41)...)
	for _, read := range []func([]byte) error{
		func(data []byte) error { return codec.Decode(data, new(any)) },
		func(data []byte) error { _, err := codec.AppendJSON(nil, data, 0); return err },
		func(data []byte) error { _, err := codec.Canonical(data); return err },
		func(data []byte) error { r := codec.NewReader(data); defer r.Release(); r.Any(); return r.Err() },
	} {
		require.ErrorIs(t, read(nested), codec.ErrMalformed)
		require.NoError(t, read(nested[38:43]))
	}
	var v any = "key"
	for depth := range 40 {
		data, err := codec.Encode(v)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrTooDeep)
			assert.Greater(t, depth, 3)
			return
		}
		require.NoError(t, codec.Decode(data, new(any)))
		key := v
		v = map[any]int{&key: 1}
	}
	t.Fatal("encoded")
}
