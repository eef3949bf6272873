package codec_test

import (
	"math"
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

type flat struct {
	B       bool `json:"b,omitempty"`
	I       int
	I8      int8   `json:"i8,omitempty"`
	U64     uint64 `json:"u,omitempty"`
	F32     float32
	F64     float64
	S       string `json:"s,omitempty"`
	Wait    time.Duration
	Level   level
	Pairs   [2]Pair
	Hash    [4]byte
	Nothing struct{}
	Pair2   Pair
	Pair
}

// Pair is part of a flat struct.
type Pair struct {
	A, B string
}

type zeroInt int

func (z zeroInt) IsZero() bool { return z < 10 }

func TestUnchangedTypesAreTheSameAfterDecoding(t *testing.T) {
	require.True(t, codec.Unchanged(reflect.TypeFor[flat]()))
	require.NoError(t, quick.Check(func(v flat) bool { return again(t, v) == v }, nil))
	require.NoError(t, quick.Check(func(v [3]string) bool { return again(t, v) == v }, nil))
	for _, v := range []any{true, -1, int8(-128), uint64(math.MaxUint64), 'x', 1.5, math.Copysign(0, -1), float32(0.1), "a\xffb", text("x"), level(3), time.Second, struct{}{}, [2]bool{true}} {
		require.True(t, codec.Unchanged(reflect.TypeOf(v)), "%T", v)
		data, err := codec.Encode(v)
		require.NoError(t, err)
		got := reflect.New(reflect.TypeOf(v))
		require.NoError(t, codec.Decode(data, got.Interface()))
		assert.Equal(t, v, got.Elem().Interface())
	}
}

func TestTypesThatDecodingMayChangeAreNotUnchanged(t *testing.T) {
	n := 1
	for _, v := range []any{
		&n,
		[]int{},
		[]byte{},
		map[string]int{},
		[1]any{},
		struct{ V any }{},
		struct{ P *int }{},
		struct{ A, b int }{},
		time.Time{},
		reply{},
		color(1),
		halfText{},
		struct {
			A int `json:"-"`
		}{},
		struct {
			F float64 `json:"f,omitempty"`
		}{},
		struct {
			P Pair `json:"p,omitempty"`
		}{},
		struct {
			Z zeroInt `json:"z,omitempty"`
		}{},
		twice{},
		struct{ level }{},
		make(chan int), func() {}, complex(1, 2), uintptr(1),
		clock{},
		struct{ *Pair }{},
	} {
		assert.False(t, codec.Unchanged(reflect.TypeOf(v)), "%T", v)
	}
	assert.False(t, codec.Unchanged(nil))
}
