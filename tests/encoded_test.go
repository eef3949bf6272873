package tests

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// goldenValues is a file with a line for each of the values below: its name and its encoding. Lines
// may be added, but are never edited.
const goldenValues = "testdata/values-v1.txt"

type stamped struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	Of   asJSON    `json:"of"`
	Rest []any     `json:"rest,omitempty"`
}

// encodedValues returns the names and the values that all later versions must be able to read.
func encodedValues() (names []string, values []any) {
	at := time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC)
	for _, v := range []struct {
		name  string
		value any
	}{
		{"time in UTC", at},
		{"time without a fraction", at.Truncate(time.Second)},
		{"time far away", time.Date(12345, 1, 2, 3, 4, 5, 6, time.UTC)},
		{"zero time", time.Time{}},
		{"time east", at.In(time.FixedZone("", 5*60*60+45*60))},
		{"time west", at.In(time.FixedZone("", -9*60*60-30*60))},
		{"time with an odd offset", at.In(time.FixedZone("", 3208))},
		{"JSON object", asJSON{`{"b":1,"a":"größe"}`}},
		{"JSON null", asJSON{"null"}},
		{"long JSON", asJSON{`"` + strings.Repeat("x", 300) + `"`}},
		{"struct", stamped{"n", at.In(time.FixedZone("", 3600)), asJSON{"[1]"}, []any{"x"}}},
		{"map with JSON keys", map[asJSON]bool{{`"k"`}: true}},
		{"nothing", (*asJSON)(nil)},
	} {
		names, values = append(names, v.name), append(values, v.value)
	}
	return names, values
}

func TestEncodedValuesAreReadForEver(t *testing.T) {
	names, values := encodedValues()
	golden, err := os.ReadFile(goldenValues)
	if *addGolden && os.IsNotExist(err) {
		var lines bytes.Buffer
		for i, v := range values {
			encoded, err := record.Encode(v)
			require.NoError(t, err)
			fmt.Fprintf(&lines, "%s\t%x\n", names[i], encoded)
		}
		add(t, goldenValues, lines.Bytes())
		golden, err = lines.Bytes(), nil
	}
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	require.Len(t, lines, len(values))
	for i, line := range lines {
		name, digits, _ := strings.Cut(line, "\t")
		require.Equal(t, names[i], name)
		encoded, err := hex.DecodeString(digits)
		require.NoError(t, err)
		got := reflect.New(reflect.TypeOf(values[i]))
		require.NoError(t, record.Decode(encoded, got.Interface()), name)
		assert.Equal(t, values[i], got.Elem().Interface(), name)
		again, err := record.Encode(values[i])
		require.NoError(t, err)
		assert.Equal(t, digits, hex.EncodeToString(again), name)
	}
}
