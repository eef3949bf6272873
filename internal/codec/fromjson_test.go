package codec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFromJSONKeepsNumbersWhole(t *testing.T) {
	for text, want := range map[string]any{
		"1": int64(1), "-9223372036854775808": int64(-1 << 63), "18446744073709551615": uint64(1<<64 - 1),
		"1.5": 1.5, "1e3": 1e3, "100000000000000000000": 1e20, "1.0e30": 1e30,
		`[1,{"a":2}]`: []any{int64(1), map[string]any{"a": int64(2)}},
	} {
		got, err := FromJSON([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"100000000000000000001": "the number 100000000000000000001 is too large: want a whole number of at most 64 bits, or one with an exponent, which is rounded",
		"1e999":                 "the number 1e999 is too large",
		`{"a":[-1e999]}`:        "the number -1e999 is too large",
		"":                      "it is empty",
		"[1":                    "it ends in the middle",
		"1 2":                   "unexpected data after the value",
	} {
		_, err := FromJSON([]byte(text))
		assert.EqualError(t, err, want, text)
	}
}

func FuzzFromJSON(f *testing.F) {
	for _, text := range []string{"1", "1.5", `{"a":[1,null,true,"x"]}`, "123456789012345678901", "1e400"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := FromJSON(data)
		if err != nil {
			return
		}
		encoded, err := Encode(v)
		if err != nil { // nested too deeply
			return
		}
		_, err = AppendJSON(nil, encoded, 0)
		require.NoError(t, err)
	})
}
