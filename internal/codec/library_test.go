package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/big"
	"net"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/internal/codec"
)

// Old records were written with the msgpack library, before this package had its own encoder. The
// tests compare this package's bytes, which are hashed, and its decoded values with those of the
// library.

// byLibrary encodes v with the library, as was done for old records.
func byLibrary(v any, omitZero bool) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.SetCustomStructTag("json")
	enc.UseCompactInts(true)
	enc.SetOmitEmpty(omitZero)
	err = enc.Encode(v)
	return buf.Bytes(), err
}

// readByLibrary decodes data with the library, as was done for old records.
func readByLibrary(data []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	dec := msgpack.NewDecoder(bytes.NewReader(data))
	dec.SetCustomStructTag("json")
	dec.UseLooseInterfaceDecoding(true)
	dec.SetMapDecoder(func(d *msgpack.Decoder) (any, error) {
		return nil, errors.New("read by Reprise")
	})
	return dec.Decode(v)
}

type base struct {
	ID   string `json:"id"`
	Note string `json:"note,omitempty"`
}

type hidden struct {
	Inner int `json:"inner"`
	lost  int //nolint:unused // not encoded
}

type (
	text      string
	level     int8
	bitmask   uint16
	keys      map[level]text
	names     []text
	shortHash [4]byte
	letters   []byte
	nothing   struct{}
)

type tree struct {
	Name  string           `json:"name"`
	Left  *tree            `json:"left,omitempty"`
	Right *tree            `json:"right"`
	More  []tree           `json:"more,omitempty"`
	By    map[string]*tree `json:"by,omitempty"`
}

type everything struct {
	base
	*hidden
	Named     base `json:"named"`
	B         bool
	I         int
	I8        int8 `json:"i8,omitempty"`
	I64       int64
	U         uint
	U8        uint8
	U64       uint64 `json:",omitempty"`
	F32       float32
	F64       float64 `json:"f64,omitempty"`
	S         string  `json:"s,omitempty"`
	Bytes     []byte
	None      []byte `json:"none,omitempty"`
	Hash      [4]byte
	List      []int    `json:"list,omitempty"`
	Strings   []string `json:"strings"`
	Array     [2]string
	Map       map[string]int
	Any       any            `json:"any,omitempty"`
	Anything  map[string]any `json:"anything"`
	Flags     map[string]bool
	Texts     map[string]string
	Pointer   *int
	Deep      **string
	Skipped   int           `json:"-"`
	At        time.Time     `json:"at"`
	Maybe     *time.Time    `json:"maybe,omitempty"`
	Wait      time.Duration `json:"wait"`
	Big       *big.Int
	Addr      netip.Addr `json:"addr"`
	IP        net.IP
	Raw       json.RawMessage `json:"raw,omitempty"`
	Number    json.Number
	Colon     string `json:"a:b"`
	Tree      tree
	Level     level
	Keys      keys
	Names     names
	unwritten int //nolint:unused // not encoded
}

type (
	clock    struct{ time.Time }
	twoBases struct {
		base
		other
	}
	other      struct{ ID, Other int }
	outerFirst struct {
		ID string `json:"id"`
		base
	}
	pointerBase struct {
		*base
		N int `json:"n,omitempty"`
	}
	named struct {
		base `json:"base"`
	}
	noInline struct {
		base `msgpack:",noinline"`
	}
	asArray struct {
		_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by reflection
		A, B     int
	}
	tagged struct {
		A int `json:"a" msgpack:"x,alias:old"`
		B int `json:"b,string"`
	}
	unexportedInt struct {
		level
		N int
	}
	halfText struct{ A int }
	custom   struct{ A int }
	ownBytes struct{ A int }
	nested3  struct{ pointerBase }
)

func (halfText) MarshalText() ([]byte, error) { return []byte("half"), nil }

func (c *custom) EncodeMsgpack(e *msgpack.Encoder) error { return e.Encode(map[string]int{"v": c.A}) }

func (c *custom) DecodeMsgpack(d *msgpack.Decoder) error {
	var m map[string]int
	err := d.Decode(&m)
	c.A = m["v"]
	return err
}

func (o ownBytes) MarshalMsgpack() ([]byte, error)     { return msgpack.Marshal(o.A) }
func (o *ownBytes) UnmarshalMsgpack(data []byte) error { return msgpack.Unmarshal(data, &o.A) }

func plainValues() []any {
	n, s, at := 7, "text", time.Unix(1_800_000_000, 123).UTC()
	p := &s
	full := everything{
		base: base{ID: "id"}, hidden: &hidden{Inner: 1}, Named: base{"n", "o"}, B: true, I: -1, I8: -128, I64: math.MinInt64, U: 1, U8: 255,
		U64: math.MaxUint64, F32: 1.5, F64: math.Copysign(0, -1), S: "größe\xff", Bytes: []byte{0, 1}, Hash: [4]byte{1}, List: []int{1, 128, 1 << 20},
		Strings: []string{"a", ""}, Array: [2]string{"x"}, Map: map[string]int{"k": 1}, Any: []any{1, "a", nil, 1.5, map[string]any{"x": true}},
		Anything: map[string]any{"n": 200}, Flags: map[string]bool{"f": true}, Texts: map[string]string{"t": "u"}, Pointer: &n, Deep: &p, Skipped: 1,
		At: at, Maybe: &at, Wait: time.Minute, Big: big.NewInt(1 << 40), Addr: netip.MustParseAddr("10.0.0.1"), IP: net.IPv4(1, 2, 3, 4).To4(),
		Raw: json.RawMessage(`{"x":1}`), Number: "12", Colon: "c", Tree: tree{Name: "root", Left: &tree{Name: "l"}, More: []tree{{Name: "m"}}, By: map[string]*tree{"x": {}}},
		Level: 3, Keys: keys{1: "one"}, Names: names{"n"},
	}
	return []any{
		nil, true, 0, 1, -1, -32, -33, 127, 128, 255, 256, 65535, 65536, 1 << 32, -128, -129, -32768, -32769, -1 << 31, -1<<31 - 1, int64(math.MinInt64),
		uint64(math.MaxUint64), uint8(200), int8(-7), float32(0.25), 1.5, math.Inf(1), "", "text", strings.Repeat("x", 31), strings.Repeat("x", 32),
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 65536), []byte(nil),
		[]byte{},
		[]byte("bytes"), make([]byte, 256), make([]byte, 65536),
		[]string(nil),
		[]string{},
		[]string{"a"},
		make([]int, 15), make([]int, 16), make([]bool, 65536),
		[0]int{},
		[3]byte{1, 2, 3},
		[2][]string{{"x"}},
		map[string]string(nil),
		map[string]string{},
		map[string]int{"a": 1},
		map[int]string{-1: "x"},
		map[float64]bool{1.5: true},
		map[text]level{"a": 1},
		map[string]any{"a": nil},
		map[[2]int]string{{1, 2}: "x"},
		time.Minute, time.Unix(1, 0).UTC(), time.Unix(1<<33, 5).UTC(), time.Unix(1<<35, 5).UTC(), time.Unix(-5, 7).UTC(),
		time.Time{},
		big.NewInt(-5), big.NewFloat(1.5), netip.MustParsePrefix("10.0.0.0/8"), net.IPv4(1, 2, 3, 4), json.RawMessage(nil), json.RawMessage(`[1]`), json.Number("1.0"),
		text("x"), level(3), bitmask(9), names(nil),
		names{"a"},
		keys{2: "two"},
		shortHash{1, 2},
		letters("abc"),
		nothing{},
		&nothing{},
		[]nothing{{}},
		everything{},
		full, &full,
		[]everything{full, {}},
		tree{},
		tree{Left: &tree{}},
		(*tree)(nil), &n, &p,
		clock{at},
		twoBases{base{ID: "i"}, other{ID: 5}},
		outerFirst{"o", base{ID: "i"}},
		pointerBase{},
		pointerBase{&base{ID: "i"}, 1},
		nested3{},
		nested3{pointerBase{nil, 2}},
		named{base{ID: "n"}},
		noInline{base{ID: "n"}},
		asArray{A: 1, B: 2},
		tagged{1, 2},
		unexportedInt{3, 4},
		halfText{1},
		&custom{5},
		ownBytes{6},
		[]ownBytes{{1}},
		struct{ Err error }{io.EOF},
		struct{ Err error }{},
		struct{ V any }{tree{Name: "t"}},
		[]any{level(3), names{"x"}, &n, at},
		struct {
			A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P int `json:",omitempty"`
		}{A: 1, P: 2},
		struct {
			A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P int
			Q                                              string `json:"q,omitempty"`
		}{A: 1},
		struct {
			S struct{} `json:"s,omitempty"`
			N nothing
			T struct{ A int } `json:"t,omitempty"`
			F float64         `json:"f,omitempty"`
			L []int           `json:"l,omitempty"`
			P *int            `json:"p,omitempty"`
			A any             `json:"a,omitempty"`
		}{L: []int{}, A: 0, F: math.Copysign(0, -1)},
	}
}

func TestOldFormHasTheSameBytesAsTheLibrary(t *testing.T) {
	for i, v := range plainValues() {
		name := fmt.Sprintf("%d %T", i, v)
		for _, omitZero := range []bool{false, true} {
			want, err := byLibrary(v, omitZero)
			if err != nil {
				continue // there are no old records with this value
			}
			encode := codec.EncodeBefore
			if omitZero {
				if v != nil && codec.IsOpen(reflect.TypeOf(v)) {
					continue // this package encodes the value differently
				}
				encode = codec.EncodeIdentityBefore
			}
			got, err := encode(v)
			require.NoError(t, err, name)
			assert.Equal(t, sorted(t, want), sorted(t, got), name)
		}
	}
}

func TestTypesWithoutJSONAndZonesAreEncodedAsBefore(t *testing.T) {
	for i, v := range plainValues() {
		want, err := codec.EncodeBefore(v)
		require.NoError(t, err)
		got, err := codec.Encode(v)
		require.NoError(t, err)
		assert.Equal(t, sorted(t, want), sorted(t, got), "%d %T", i, v)
	}
}

func sorted(t *testing.T, data []byte) string {
	t.Helper()
	data, err := codec.Canonical(bytes.Clone(data))
	require.NoError(t, err)
	return fmt.Sprintf("%x", data)
}

func TestValuesAreDecodedAsByTheLibrary(t *testing.T) {
	for i, v := range plainValues() {
		if v == nil {
			continue
		}
		name := fmt.Sprintf("%d %T", i, v)
		data, err := codec.EncodeBefore(v)
		require.NoError(t, err)
		want, got := reflect.New(reflect.TypeOf(v)), reflect.New(reflect.TypeOf(v))
		if readByLibrary(data, want.Interface()) != nil {
			continue // the library could not decode it
		}
		require.NoError(t, codec.Decode(data, got.Interface()), name)
		assert.Equal(t, inUTC(want.Elem().Interface()), got.Elem().Interface(), name)
	}
}

// inUTC returns v with its times in UTC; the library decodes them in Local.
func inUTC(v any) any {
	data := reflect.New(reflect.TypeOf(v))
	data.Elem().Set(reflect.ValueOf(v))
	setUTC(data.Elem())
	return data.Elem().Interface()
}

func setUTC(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if at, ok := v.Interface().(time.Time); ok && v.Kind() == reflect.Interface {
			v.Set(reflect.ValueOf(at.UTC()))
		} else if !v.IsNil() {
			setUTC(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() && v.CanSet() {
			v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				setUTC(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			setUTC(v.Index(i))
		}
	}
}

// FuzzDecodeAsBefore checks that this package decodes every value that the library can decode, with
// the same result.
func FuzzDecodeAsBefore(f *testing.F) {
	for _, v := range plainValues() {
		data, err := codec.EncodeBefore(v)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if rest, err := codec.Skip(data); err != nil || len(rest) > 0 || bytes.IndexByte(data, 0xcf) >= 0 {
			return // the library decodes a large unsigned number into a float as a negative one
		}
		for _, into := range []any{
			new(everything), new([]any), new(map[string]int), new(map[int]text), new([3]int8), new(*tree), new(twoBases), new(uint16), new(names), new(asArray), new(clock),
		} {
			want, got := into, reflect.New(reflect.TypeOf(into).Elem()).Interface()
			if readByLibrary(data, want) != nil {
				continue
			}
			err := codec.Decode(data, got)
			if err != nil && cutBefore.MatchString(err.Error()) {
				continue
			}
			if err != nil {
				t.Fatalf("%x into %T: %v, but the library decoded %+v", data, got, err, want)
			}
			before, err := codec.EncodeBefore(want)
			if errors.Is(err, codec.ErrTooDeep) {
				continue
			}
			require.NoError(t, err)
			now, err := codec.EncodeBefore(got)
			require.NoError(t, err)
			if sorted(t, before) != sorted(t, now) {
				t.Fatalf("%x into %T: %+v, but the library decoded %+v", data, got, got, want)
			}
		}
	})
}

// cutBefore matches errors for values that the library decodes without an error, because it
// truncates numbers and skips the heads of extensions.
var cutBefore = regexp.MustCompile(`got (-?\d+|a time|an extension|JSON), want|JSON|invalid character`)

type (
	name      struct{ Name string }
	sameName  struct{ name }
	shadowing struct {
		base
		ID int `json:"id"`
	}
	embeddedNamed struct {
		base
		X int `json:"base"`
	}
)

func TestNothingIsPrintedAboutTypes(t *testing.T) {
	var printed bytes.Buffer
	log.SetOutput(&printed)
	defer log.SetOutput(os.Stderr)
	for _, v := range []any{shadowing{base{ID: "inner"}, 5}, sameName{name{"n"}}, embeddedNamed{base{ID: "x"}, 1}} {
		data, err := codec.Encode(v)
		require.NoError(t, err)
		_, err = codec.EncodeBefore(v)
		require.NoError(t, err)
		got := reflect.New(reflect.TypeOf(v))
		require.NoError(t, codec.Decode(data, got.Interface()))
		assert.Equal(t, v, got.Elem().Interface())
	}
	assert.Empty(t, printed.String())
}
