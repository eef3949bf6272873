package codec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

// benchItem is a struct like those that calls typically return.
type benchItem struct {
	ID    string   `json:"id"`
	Name  string   `json:"name,omitempty"`
	Count int      `json:"count"`
	Price float64  `json:"price"`
	OK    bool     `json:"ok"`
	Tags  []string `json:"tags"`
}

func benchItems(n int) []benchItem {
	items := make([]benchItem, n)
	for i := range items {
		items[i] = benchItem{ID: "item-00017", Name: "a name", Count: 1000 * i, Price: 12.5, OK: true, Tags: []string{"a", "b"}}
	}
	return items
}

// benchValues returns values of common types.
func benchValues() []struct {
	name  string
	value any
	into  func() any
} {
	return []struct {
		name  string
		value any
		into  func() any
	}{
		{"int", 12345, func() any { return new(int) }},
		{"string", "a text of some length, such as a name", func() any { return new(string) }},
		{"struct", benchItems(1)[0], func() any { return new(benchItem) }},
		{"structs=100", benchItems(100), func() any { return new([]benchItem) }},
		{"map", map[string]any{"id": "item", "count": 7, "tags": []any{"a", "b"}, "at": time.Unix(1_800_000_000, 5).UTC()}, func() any { return new(map[string]any) }},
		{"time", struct{ At time.Time }{time.Unix(1_800_000_000, 5).UTC()}, func() any { return new(struct{ At time.Time }) }},
		{"bytes=64KB", make([]byte, 64<<10), func() any { return new([]byte) }},
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range benchValues() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := codec.Encode(c.value)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkEncodeIdentity(b *testing.B) {
	for _, c := range benchValues() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := codec.EncodeIdentity(c.value)
				require.NoError(b, err)
				_, err = codec.Canonical(data)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchValues() {
		b.Run(c.name, func(b *testing.B) {
			data, err := codec.Encode(c.value)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, codec.Decode(data, c.into()))
			}
		})
	}
}
