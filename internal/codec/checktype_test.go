package codec_test

import (
	"bytes"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

type signal struct{ C chan int }

// shadowed hides a field of the struct that it embeds.
type shadowed struct {
	signal
	C int
}

type spelled func()

func (spelled) MarshalText() ([]byte, error) { return []byte("f"), nil }
func (*spelled) UnmarshalText([]byte) error  { return nil }

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
		{zero: shadowed{}, path: ".signal.C"}, // both fields are encoded
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
			Any any
			By  map[string]any
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
		assert.Equal(t, codec.CheckType(reflect.TypeOf(c.zero)), error(unsupported), "the error is cached")
	}
}

type (
	onlyHidden struct{ a int }    //nolint:unused // not encoded
	someHidden struct{ A, b int } //nolint:unused // not encoded
	deepHidden struct{ Items map[string][]*onlyHidden }
	stringer   struct{ S fmt.Stringer }
	leftOut    struct {
		F onlyHidden `json:"-"`
	}
	event struct {
		time.Time
		Note string
	}
	twice struct {
		A int `msgpack:"x"`
		B int `msgpack:"x"`
	}
	pointsHidden struct{ *signalName }
	signalName   struct{ Name string }
	locked       struct {
		sync.Mutex
		N int
	}
	list struct {
		Next *list
		Err  error
	}
	generic[T any] struct{ V T }
)

func TestTypeIsRefusedIfSomethingWouldBeLost(t *testing.T) {
	for _, c := range []struct {
		zero any
		path string
		why  string
	}{
		{onlyHidden{}, "", "it has no exported field"},
		{&onlyHidden{}, "", "it has no exported field"},
		{deepHidden{}, ".Items[][]", "it has no exported field"},
		{struct{ onlyHidden }{}, "", "it has no exported field"},
		{struct{ level }{}, "", "it has no exported field"},
		{bytes.Buffer{}, "", "it has no exported field"},
		{atomic.Int64{}, "", "it has no exported field"},
		{struct{ M sync.Map }{}, ".M", "it has no exported field"},
		{stringer{}, ".S", "it is an interface with methods"},
		{struct{ Err error }{}, ".Err", "it is an interface with methods"},
		{[]error{}, "[]", "it is an interface with methods"},
		{map[string]io.Reader{}, "[]", "it is an interface with methods"},
		{map[fmt.Stringer]int{}, "[key]", "it is an interface with methods"},
		{list{}, ".Err", "it is an interface with methods"},
		{generic[[]list]{}, ".V[].Err", "it is an interface with methods"},
		{event{}, "", "its MarshalBinary is promoted from an embedded type, and omits Note"},
		{twice{}, "", `fields A and B are both named "x"`},
		{pointsHidden{}, ".signalName", "cannot be set"},
		{struct{ A http.Response }{}, ".A.Body", "it is an interface with methods"},
	} {
		err := codec.CheckType(reflect.TypeOf(c.zero))
		require.Error(t, err, "%T", c.zero)
		var loss *codec.LossError
		require.ErrorAs(t, err, &loss, "%T", c.zero)
		assert.Equal(t, c.path, loss.Path, "%T", c.zero)
		assert.Contains(t, loss.Why, c.why)
		assert.Equal(t, err, codec.CheckInput(reflect.TypeOf(c.zero)))
	}
}

type readsText struct{ N int }

func (*readsText) UnmarshalText([]byte) error { return nil }

func TestTypeThatCanOnlyBeWrittenIsRefusedAsAnOutput(t *testing.T) {
	half := reflect.TypeFor[struct{ T halfText }]()
	require.EqualError(t, codec.CheckType(half), "codec: field .T: a codec_test.halfText would be lost: it has MarshalText, but no UnmarshalText")
	require.NoError(t, codec.CheckInput(half), "its values can be hashed")
	require.ErrorContains(t, codec.CheckType(reflect.TypeFor[readsText]()), "it has UnmarshalText, but no MarshalText")
	require.Error(t, codec.CheckType(reflect.TypeFor[chan int]()))
	require.NoError(t, codec.CheckInput(reflect.TypeFor[chan int]()), "the type has no values to lose")
}

func TestTypeThatLosesNothingIsNotRefused(t *testing.T) {
	for _, v := range append(append(plainValues(), jsonValues()...),
		someHidden{}, leftOut{}, locked{}, struct{}{}, struct{ mu sync.Mutex }{}, time.Time{}, time.Duration(0), big.Int{}, &big.Rat{}, netip.Addr{}, url.URL{}, &url.URL{},
		net.IPNet{}, json.RawMessage{}, http.Header{}, slog.LevelInfo, regexp.Regexp{}, tree{}, everything{}, generic[string]{}, struct{ V generic[map[string]any] }{},
		reflect.New(reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int]()}})).Interface(), x509.Certificate{}.Subject, shadowing{}, sql.NullString{}, sql.Null[time.Time]{},
	) {
		switch v.(type) {
		case halfText, struct{ Err error }, []ownBytes:
			continue
		case pointerBase, nested3, everything, *everything, []everything:
			continue // these types embed an unexported pointer
		}
		require.NoError(t, codec.CheckType(reflect.TypeOf(v)), "%T", v)
		require.NoError(t, codec.CheckInput(reflect.TypeOf(v)), "%T", v)
	}
}
