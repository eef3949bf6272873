package codec_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

type price struct {
	Cents int `json:"cents"`
}

type basket struct {
	Items []price           `json:"items"`
	By    map[string]*price `json:"by"`
	Note  string
	Small uint8     `json:"small"`
	At    time.Time `json:"at"`
}

func TestErrorOfAMisfitNamesTheFieldAndTheWantedType(t *testing.T) {
	for want, tt := range map[string]struct{ value, into any }{
		"got an object, want int":                             {map[string]any{}, new(int)},
		"got a string, want codec_test.basket":                {"text", new(basket)},
		"items[1].cents: got a string, want int":              {map[string]any{"items": []any{price{1}, map[string]any{"cents": "1"}}}, new(basket)},
		"by.x.cents: got a boolean, want int":                 {map[string]any{"by": map[string]any{"x": map[string]any{"cents": true}}}, new(basket)},
		"items: got an object, want []codec_test.price":       {map[string]any{"items": map[string]any{}}, new(basket)},
		"by: got an array, want map[string]*codec_test.price": {map[string]any{"by": []any{1}}, new(basket)},
		"Note: got a number, want string":                     {map[string]any{"Note": 1.5}, new(basket)},
		"small: got 300, want uint8":                          {map[string]any{"small": 300}, new(basket)},
		"small: got -1, want uint8":                           {map[string]any{"small": -1}, new(basket)},
		"[1]: got 40000, want int16":                          {[]int{1, 40000}, new([]int16)},
		"got 18446744073709551615, want int32":                {uint64(math.MaxUint64), new(int32)},
		"a.b: got -5, want uint":                              {map[string]any{"a": map[string]int{"b": -5}}, new(map[string]map[string]uint)},
	} {
		data, err := codec.Encode(tt.value)
		require.NoError(t, err)
		err = codec.Decode(data, tt.into)
		require.Error(t, err, want)
		assert.Equal(t, fmt.Sprintf("codec: decode into %T: %s", tt.into, want), err.Error())
		require.Error(t, codec.DecodeKnown(data, tt.into), want)
	}
}

func TestNumbersThatFitAreDecoded(t *testing.T) {
	for _, v := range []any{int8(-128), uint8(255), int32(math.MinInt32), uint64(math.MaxUint64), uint(0), int64(math.MinInt64), []byte{255}, [2]uint16{1, 65535}} {
		data, err := codec.Encode(map[string]any{"v": v})
		require.NoError(t, err)
		for _, into := range []any{new(map[string]any), &struct{ V any }{}} {
			require.NoError(t, codec.Decode(data, into))
		}
	}
	data, err := codec.Encode(struct{ A uint8 }{255})
	require.NoError(t, err)
	var v struct{ A uint8 }
	require.NoError(t, codec.Decode(data, &v))
	assert.EqualValues(t, 255, v.A)
}
