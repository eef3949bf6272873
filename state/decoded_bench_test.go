package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// row is an output with a slice, so it is decoded before it is returned.
type row struct {
	ID   int      `json:"id"`
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

func rows(n int) []row {
	all := make([]row, n)
	for i := range all {
		all[i] = row{i, fmt.Sprint("row ", i), []string{"one", "two"}}
	}
	return all
}

// BenchmarkStoredCall makes calls, with different outputs, in a run that is stored in a directory.
func BenchmarkStoredCall(b *testing.B) {
	b.Run("text1KB", func(b *testing.B) { storedCall(b, strings.Repeat("x", 1000)) }) // needs no decoding
	b.Run("rows1", func(b *testing.B) { storedCall(b, rows(1)) })
	b.Run("rows30", func(b *testing.B) { storedCall(b, rows(30)) }) // about 1 KB
	b.Run("rows300", func(b *testing.B) { storedCall(b, rows(300)) })
	b.Run("rows9000", func(b *testing.B) { storedCall(b, rows(9000)) })
}

func storedCall[Out any](b *testing.B, out Out) {
	store, err := filestore.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	tool, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (Out, error) { return out, nil })
	if err != nil {
		b.Fatal(err)
	}
	st, err := state.Open(b.Context(), store, "run-1")
	if err != nil {
		b.Fatal(err)
	}
	ctx := st.Context(b.Context())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := tool.Event().Execute(ctx, i); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}
