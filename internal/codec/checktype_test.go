package codec_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

type signal struct{ C chan int }

// shadowed hides the field of what it embeds.
type shadowed struct {
	signal
	C int
}

type spelled func()

func (spelled) MarshalText() ([]byte, error) { return []byte("f"), nil }

func TestTypeIsRefusedIfItsZeroValueCannotBeEncoded(t *testing.T) {
	for _, c := range []struct {
		zero any
		path string
		ok   bool
	}{
		{zero: make(chan int)},
		{zero: (func())(nil)},
		{zero: complex(1, 2)},
		{zero: uintptr(1)},
		{zero: signal{}, path: ".C"},
		{zero: [2]signal{}, path: "[0].C"},
		{zero: struct{ Inner struct{ S [1]signal } }{}, path: ".Inner.S[0].C"},
		{zero: struct{ signal }{}, path: ".signal.C"},
		{zero: struct {
			F func() `json:"f,omitempty"`
			S spelled
			C chan int
		}{}, path: ".C"},
		{zero: shadowed{}, path: ".signal.C"}, // the library encodes both
		{zero: []signal(nil), ok: true},
		{zero: (*signal)(nil), ok: true},
		{zero: map[string]func(){}, ok: true},
		{zero: [0]signal{}, ok: true},
		{zero: struct {
			F func() `json:"-"`
		}{}, ok: true},
		{zero: struct {
			F func() `json:"f,omitempty"`
		}{}, ok: true},
		{zero: spelled(nil), ok: true},
		{zero: struct{ S spelled }{}, ok: true},
		{zero: struct {
			Err error
			Any any
		}{}, ok: true},
		{zero: 1, ok: true},
		{zero: nil, ok: true},
	} {
		err := codec.CheckType(reflect.TypeOf(c.zero))
		if c.ok {
			require.NoError(t, err, "%T", c.zero)
			continue
		}
		var unsupported *codec.UnsupportedError
		require.ErrorAs(t, err, &unsupported, "%T", c.zero)
		assert.Equal(t, c.path, unsupported.Path)
		_, err = codec.Encode(c.zero)
		require.Error(t, err)
		assert.Equal(t, codec.CheckType(reflect.TypeOf(c.zero)), error(unsupported), "it is found once")
	}
}
