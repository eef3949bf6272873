package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/internal/codec"
)

type nested struct {
	Name  string            `json:"name"`
	Tags  map[string]string `json:"tags,omitempty"`
	Count int64             `json:"count"`
}

type sample struct {
	nested
	Label   string          `json:"label"`
	Skipped string          `json:"-"`
	Items   []nested        `json:"items"`
	At      time.Time       `json:"at"`
	Raw     json.RawMessage `json:"raw"`
	Score   float64         `json:"score"`
	Any     any             `json:"any"`
	Next    *sample         `json:"next,omitempty"`
}

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	in := sample{
		nested: nested{Name: "embedded", Count: -1},
		Label:  "größe",
		Items:  []nested{{Name: "a", Tags: map[string]string{"k": "v"}, Count: math.MaxInt64}},
		At:     time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC),
		Raw:    json.RawMessage(`{"x":1}`),
		Score:  math.Inf(1),
		Any:    "text",
		Next:   &sample{Label: "next", Items: []nested{}, At: time.Unix(0, 0).UTC()},
	}
	data, err := codec.Encode(in)
	require.NoError(t, err)
	var out sample
	require.NoError(t, codec.Decode(data, &out))
	assert.True(t, in.At.Equal(out.At))
	out.At, out.Next.At = in.At, in.Next.At // the instants are equal, but the locations may differ
	assert.Equal(t, in, out)
}

func TestStructFieldsHaveTheirJSONNames(t *testing.T) {
	data, err := codec.Encode(nested{Name: "x", Count: 2})
	require.NoError(t, err)
	text, err := codec.AppendJSON(nil, data, 0)
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":"x","count":2}`, string(text))
}

func TestUnsupportedValuesAreNamedByTheirPath(t *testing.T) {
	type deep struct{ Items []map[string]any }
	for name, test := range map[string]struct {
		value any
		path  string
	}{
		"channel":      {make(chan int), ""},
		"field":        {struct{ Done chan int }{make(chan int)}, ".Done"},
		"deep":         {deep{[]map[string]any{{"a": 1}, {"b": func() {}}}}, ".Items[1][b]"},
		"complex":      {struct{ Z complex128 }{1}, ".Z"},
		"through any":  {struct{ V any }{struct{ C chan int }{make(chan int)}}, ".V.C"},
		"pointer":      {&struct{ C chan int }{make(chan int)}, ".C"},
		"map of chans": {map[int]chan int{7: make(chan int)}, "[7]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := codec.Encode(test.value)
			var unsupported *codec.UnsupportedError
			require.ErrorAs(t, err, &unsupported)
			assert.Equal(t, test.path, unsupported.Path)
		})
	}
}

type panics struct{}

func (panics) MarshalText() ([]byte, error) { panic("boom") }

func TestPanicOfAMarshalMethodIsAnError(t *testing.T) {
	_, err := codec.Encode(panics{})
	assert.ErrorContains(t, err, "boom")
}

func TestCanonicalMakesEqualMapsEqualBytes(t *testing.T) {
	build := func(order []int) any {
		inner := map[string]any{}
		m := map[string]any{"inner": inner, "list": []any{map[string]int{"b": 1, "a": 2}}}
		typed := map[nested2]float64{}
		for _, i := range order {
			inner[fmt.Sprint("key", i)] = i
			typed[nested2(fmt.Sprint(i))] = float64(i)
		}
		m["typed"] = typed
		return m
	}
	var forward, backward []int
	for i := range 40 {
		forward, backward = append(forward, i), append(backward, 39-i)
	}
	var first string
	for range 20 {
		for _, order := range [][]int{forward, backward} {
			data, err := codec.Encode(build(order))
			require.NoError(t, err)
			data, err = codec.Canonical(data)
			require.NoError(t, err)
			if first == "" {
				first = string(data)
			}
			require.Equal(t, first, string(data))
		}
	}
}

type nested2 string

func TestAppendJSONKnowsEveryKindOfValue(t *testing.T) {
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"nil":        {nil, `null`},
		"bools":      {[]bool{true, false}, `[true,false]`},
		"integers":   {[]int64{0, 127, 128, -1, -33, math.MaxInt64, math.MinInt64}, `[0,127,128,-1,-33,9223372036854775807,-9223372036854775808]`},
		"unsigned":   {uint64(math.MaxUint64), `18446744073709551615`},
		"floats":     {[]float64{1.5, 1e21, math.NaN()}, `[1.5,1e+21,null]`},
		"float32":    {float32(0.5), `0.5`},
		"text":       {"a\"b\nü", `"a\"b\nü"`},
		"bytes":      {[]byte{1, 2, 3}, `"AQID"`},
		"time":       {time.Date(2026, 11, 20, 8, 0, 0, 5, time.UTC), `"2026-11-20T08:00:00.000000005Z"`},
		"old time":   {time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), `"1900-01-01T00:00:00Z"`},
		"map":        {map[int]string{1: "x"}, `{"1":"x"}`},
		"long text":  {strings.Repeat("x", 70000), `"` + strings.Repeat("x", 70000) + `"`},
		"long array": {make([]int, 70000), "[" + strings.TrimSuffix(strings.Repeat("0,", 70000), ",") + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := codec.Encode(test.value)
			require.NoError(t, err)
			text, err := codec.AppendJSON(nil, data, 0)
			require.NoError(t, err)
			assert.Equal(t, test.want, string(text))
		})
	}
}

func TestAppendReadableShowsTextAndJSONInBytes(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{json.RawMessage(`{ "token": "x", "n": [1, null] }`), `{"token":"x","n":[1,null]}`},
		{map[string][]byte{"doc": []byte(`"a text"`)}, `{"doc":"a text"}`},
		{[]byte("plain text\nin lines"), `"plain text\nin lines"`},
		{[]byte("{broken"), `"{broken"`},
		{[]byte{1, 2, 3}, `"AQID"`},
		{[]byte("\x1b[31m"), `"G1szMW0="`},
		{[]byte{}, `""`},
		{"text", `"text"`},
	} {
		data, err := codec.Encode(test.value)
		require.NoError(t, err)
		text, err := codec.AppendReadable(nil, data, 0)
		require.NoError(t, err)
		assert.Equal(t, test.want, string(text))
	}
	data, err := codec.Encode(json.RawMessage(`["` + strings.Repeat("x", 100000) + `"]`))
	require.NoError(t, err)
	text, err := codec.AppendReadable(nil, data, 100)
	require.NoError(t, err)
	assert.Len(t, text, 100)
}

func TestAppendJSONStopsSoonAfterItsLimit(t *testing.T) {
	data, err := codec.Encode(map[string]any{"list": make([]string, 100000)})
	require.NoError(t, err)
	text, err := codec.AppendJSON(nil, data, 100)
	require.NoError(t, err)
	assert.Less(t, len(text), 200)
	assert.True(t, strings.HasPrefix(string(text), `{"list":["","",`))
}

func TestDecodeRefusesAnythingButOneValue(t *testing.T) {
	whole, err := codec.Encode([]string{"one", "two"})
	require.NoError(t, err)
	var out []string
	for cut := range whole {
		require.Error(t, codec.Decode(whole[:cut], &out), "cut at %d", cut)
	}
	require.ErrorContains(t, codec.Decode(append(whole, 1), &out), "1 bytes after the value")
	require.NoError(t, codec.Decode(whole, &out))
	assert.Equal(t, []string{"one", "two"}, out)
	assert.ErrorIs(t, codec.Decode([]byte{0xc1}, &out), codec.ErrMalformed)
	assert.ErrorIs(t, codec.Decode([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, &out), codec.ErrMalformed, "a length beyond the bytes is refused before anything is allocated")
}

func FuzzDecode(f *testing.F) {
	for _, v := range []any{nil, 1, "text", []any{1, "a", nil}, map[string]any{"b": []byte{1}, "a": time.Unix(1, 2)}, sample{}} {
		data, err := codec.Encode(v)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte{0xdf, 0, 0, 0, 2, 1, 1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		rest, err := codec.Skip(data)
		if err == nil && len(rest) > len(data) {
			t.Fatal("Skip went backwards")
		}
		text, err := codec.AppendJSON(nil, data, 0)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%x became %s, which is not JSON", data, text)
		}
		text, err = codec.AppendReadable(nil, data, 0)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%x became %s, which is not JSON: %v", data, text, err)
		}
		text, err = codec.AppendRedacted(nil, data, 0, strings.ToUpper)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%x became %s, which is not JSON: %v", data, text, err)
		}
		var v any
		_ = codec.Decode(data, &v)
		var s sample
		_ = codec.Decode(data, &s)
		once, err := codec.Canonical(append([]byte(nil), data...))
		require.NoError(t, err)
		twice, err := codec.Canonical(append([]byte(nil), once...))
		require.NoError(t, err)
		require.Equal(t, once, twice)
	})
}

func Example() {
	data, err := codec.Encode(map[string]any{"city": "Oslo"})
	if err != nil {
		panic(err)
	}
	text, err := codec.AppendJSON(nil, data, 0)
	fmt.Println(string(text), err)
	// Output: {"city":"Oslo"} <nil>
}

// greedy sets flags of the encoder and decoder that are passed to it, and then fails.
type greedy struct{ A int }

func (greedy) EncodeMsgpack(enc *msgpack.Encoder) error {
	enc.UseArrayEncodedStructs(true)
	_ = enc.EncodeString("something")
	return errors.New("not today")
}

func (*greedy) DecodeMsgpack(dec *msgpack.Decoder) error {
	dec.DisallowUnknownFields(true)
	_, _ = dec.DecodeInt64()
	return errors.New("not today")
}

func TestOneValueDoesNotAffectTheNext(t *testing.T) {
	type pair struct {
		A int    `json:"a"`
		B []byte `json:"b"`
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 200 {
				_, err := codec.Encode(greedy{1})
				assert.ErrorContains(t, err, "not today")
				_, err = codec.Encode(func() {})
				assert.Error(t, err)
				var g greedy
				assert.ErrorContains(t, codec.Decode([]byte{1}, &g), "not today")
				assert.Error(t, codec.Decode([]byte{0x81, 0xa1, 'a', 0xa1, 'x'}, &pair{}))
				want := pair{i, bytes.Repeat([]byte{byte(i)}, 100)}
				data, err := codec.Encode(want)
				assert.NoError(t, err)
				other, err := codec.Encode(pair{-1, nil})
				assert.NoError(t, err)
				var got, gotOther pair
				assert.NoError(t, codec.Decode(data, &got))
				assert.NoError(t, codec.Decode(other, &gotOther))
				clear(data)
				assert.Equal(t, want, got)
				assert.Equal(t, pair{A: -1}, gotOther)
			}
		})
	}
	wait.Wait()
}
