package decorators_test

import (
	"context"
	"testing"

	"github.com/reprise-go/reprise/decorators"
)

// BenchmarkPrepare measures the cost of checking and decoding the arguments that a model sent.
func BenchmarkPrepare(b *testing.B) {
	type item struct {
		Name string `json:"name"`
		N    int    `json:"n"`
	}
	type order struct {
		City  string  `json:"city"`
		Unit  string  `json:"unit" enum:"celsius,fahrenheit"`
		Items []item  `json:"items"`
		Note  *string `json:"note"`
	}
	tool := decorators.Tool("order", "", func(context.Context, order) (string, error) { return "", nil })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tool.Prepare(b.Context(), `{"city":"Oslo","unit":"celsius","items":[{"name":"a","n":1},{"name":"b","n":2}],"note":null}`); err != nil {
			b.Fatal(err)
		}
	}
}
