package codec_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

type point struct{ X, Y int }

type anything struct {
	Name  string         `json:"name"`
	Value any            `json:"value"`
	Map   map[string]any `json:"map"`
}

// identity returns the canonical encoding of the identity of v.
func identity(t *testing.T, v any) []byte {
	t.Helper()
	data, err := codec.EncodeIdentity(v)
	require.NoError(t, err)
	data, err = codec.Canonical(data)
	require.NoError(t, err)
	return data
}

// again returns v after encoding and decoding it.
func again[T any](t *testing.T, v T) (decoded T) {
	t.Helper()
	data, err := codec.Encode(v)
	require.NoError(t, err)
	require.NoError(t, codec.Decode(data, &decoded))
	return decoded
}

// An output may be the input of the next call. In a resumed run, the output comes from the records,
// and must then still have the same identity.
func TestIdentityOutlivesDecoding(t *testing.T) {
	for name, v := range map[string]any{
		"struct": point{Y: 1}, "pointer": &point{}, "structs": []point{{}, {X: 1}},
		"struct with a time": struct{ At time.Time }{}, "nested": map[string]any{"p": point{}, "q": []any{point{X: 2}}},
		"integers": []any{0, -1, uint64(math.MaxUint64), int8(5)}, "float32": float32(1.5), "zero": math.Copysign(0, -1),
		"bytes": []byte("x"), "array": [3]byte{1}, "raw": json.RawMessage(`{"a":0}`), "empty": []any{nil, "", []int{}, map[string]int{}},
		"keys that are numbers": map[int]point{1: {}, -2: {X: 1}}, "time": time.Unix(5, 6), "duration": time.Minute, "nil": nil,
	} {
		t.Run(name, func(t *testing.T) {
			one := anything{Name: "n", Value: v}
			assert.Equal(t, identity(t, one), identity(t, again(t, one)))
			two := anything{Map: map[string]any{"v": v, "other": 1}}
			assert.Equal(t, identity(t, two), identity(t, again(t, two)))
			assert.NotEqual(t, identity(t, one), identity(t, two))
		})
	}
	assert.NotEqual(t, identity(t, anything{Value: point{X: 1}}), identity(t, anything{Value: point{Y: 1}}))
	assert.NotEqual(t, identity(t, anything{Value: 1}), identity(t, anything{Value: "1"}))
}

func TestMapWithKeysOfAnyKindIsDecodedIntoAnInterface(t *testing.T) {
	decoded := again(t, anything{Value: map[int]string{1: "one", -2: "two"}})
	assert.Equal(t, map[string]any{"1": "one", "-2": "two"}, decoded.Value)
}

func TestCanonicalSortsEqualKeysByTheirValues(t *testing.T) {
	m := make(map[float64]int)
	for i := range 10 {
		m[math.NaN()] = i
	}
	first := identity(t, m)
	for range 20 {
		require.Equal(t, first, identity(t, m))
	}
}
