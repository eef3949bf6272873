package schema_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"math/rand"
	"net/netip"
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/schema"
)

func TestWrittenValuesAreValid(t *testing.T) {
	yes, text := true, "text"
	for i, value := range []any{
		true, "", "a\xffb<>&\u2028", math.MinInt64, uint64(math.MaxUint64), int8(-128), float32(math.MaxFloat32), math.MaxFloat64, math.SmallestNonzeroFloat64,
		&yes, (*bool)(nil),
		[]string{},
		[2]int{},
		[]byte{},
		[]byte("bytes"),
		[3]byte{1, 2, 3},
		map[string]int{},
		map[string]any{"a": nil, "": []any{1, "2", false}},
		map[int8]string{-128: "a"},
		map[uint]bool{0: true},
		map[netip.Addr]int{netip.MustParseAddr("::1"): 1},
		map[time.Time]int{time.Unix(0, 0): 1},
		map[level]int{"low": 1},
		struct{}{},
		json.Number("123456789012345678901234567890.5"), json.RawMessage(`{"a":[1e999]}`), time.Now(), time.Second,
		new(big.Int).Lsh(big.NewInt(1), 5000), big.NewFloat(1.5), big.NewRat(1, 3), slog.LevelWarn, netip.MustParseAddr("10.0.0.1"),
		shade{"dark"},
		level("low"), priority(1), (*node)(nil),
		chain{{}, {{}}},
		node{Next: &node{Next: &node{}}, Children: []node{{}}, ByName: nodeMap{"a b": {}}},
		wrapper{Box: box[node]{Inner: &box[node]{}}},
		EmbedLevel{"high"},
		embedsLevel{"none"},
		struct {
			A int      `json:",string"`
			B bool     `json:",string"`
			C float64  `json:",string"`
			D string   `json:",string"`
			E *uint8   `json:",string"`
			F *string  `json:",string"`
			G float32  `json:",string,omitempty"`
			H []string `json:",string"`
		}{A: math.MinInt64, C: 1e300, D: `a"b`, F: &text, G: 1e-9, H: []string{"a"}},
		struct {
			*Inner
			inner
			node
			Zip int `json:"zip,omitempty"`
		}{Inner: &Inner{}},
		struct {
			A []string       `json:"a,omitempty"`
			B map[string]int `json:"b,omitzero"`
			C any
			D **string
		}{},
	} {
		t.Run(fmt.Sprintf("%d %T", i, value), func(t *testing.T) {
			args := reflect.New(in(reflect.TypeOf(value)))
			args.Elem().Field(0).Set(reflect.ValueOf(value))
			s, err := schema.ForArguments(args.Type())
			require.NoError(t, err)
			raw, err := json.Marshal(args.Interface())
			require.NoError(t, err)
			assert.NoError(t, s.Validate(raw), "%s\n%s", raw, s.JSON())
		})
	}
}

// sample has fields whose names collide at several depths.
type sample struct {
	Bool   bool
	Int    int16 `json:"int"`
	Uint   uint64
	Float  float32           `json:",omitempty"`
	Text   string            `json:"text,string"`
	Ptr    *int64            `json:",string"`
	Array  [2]uint8          `json:"array"`
	Bytes  []byte            `json:"bytes,omitempty"`
	List   []int             `json:",omitempty"`
	Map    map[int]string    `json:",omitzero"`
	Nested map[string]Shared `json:",omitempty"`
	Wait   time.Duration
	When   time.Time `json:",omitzero"`
	Shared
	*Deep
	Left
	Right
	Renamed Shared `json:"Deep"`
	_       int
}

type Shared struct {
	City string `json:"city"`
	Int  bool   `json:"int"`
	Zip  string
}

type Deep struct {
	Tagged  int  `json:"city"`
	Postal  *int `json:"Zip"` // hides Shared.Zip
	Deepest `json:",omitempty"`
}

// Left and Right both promote Common, so the names in Common hide each other.
type Left struct {
	Common
	East bool `json:"Side"`
}

type Right struct {
	Common
	Side bool // hidden by Left.East
	West bool
}

type Common struct{ Lost int }

type Deepest struct {
	City  bool `json:"city"`
	Lake  int  `json:"lake"`
	Bool  string
	Other *Shared
}

func TestWrittenRandomValuesAreValidAndComplete(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[sample]())
	require.NoError(t, err)
	var doc struct{ Properties map[string]any }
	require.NoError(t, json.Unmarshal(s.JSON(), &doc))

	random := rand.New(rand.NewSource(1))
	seen := map[string]bool{}
	for range 500 {
		v := sample{}
		rv := reflect.ValueOf(&v).Elem()
		for i := range rv.NumField() {
			f := rv.Field(i)
			if !f.CanSet() || f.Type() == reflect.TypeFor[time.Time]() {
				continue
			}
			x, ok := quick.Value(f.Type(), random)
			require.True(t, ok, f.Type())
			f.Set(x)
		}
		v.When = time.Unix(random.Int63n(1<<33), random.Int63n(1e9))
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, s.Validate(raw), "%s", raw)

		var members map[string]any
		require.NoError(t, json.Unmarshal(raw, &members))
		for name := range members {
			seen[name] = true
		}
	}
	assert.NotContains(t, doc.Properties, "Lost")
	assert.NotContains(t, doc.Properties, "city")
	for name := range doc.Properties {
		assert.True(t, seen[name], "encoding/json never writes %s", name)
	}
}
