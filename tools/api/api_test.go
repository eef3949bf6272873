package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPublicSurfaceMatchesTheListing compares the public API with api.txt, so that each change to
// the API is visible there.
func TestPublicSurfaceMatchesTheListing(t *testing.T) {
	lines, err := list("../..", folders)
	require.NoError(t, err)
	data, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	listed := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	var changes []string
	for _, line := range listed {
		if !slices.Contains(lines, line) {
			changes = append(changes, "- "+line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(listed, line) {
			changes = append(changes, "+ "+line)
		}
	}
	if len(changes) > 0 {
		t.Errorf("the public API has changed. If this is intended, run `cd tools && go run ./api`, and say in CHANGELOG.md what users will notice:\n%s", strings.Join(changes, "\n"))
	}
	assert.True(t, slices.IsSorted(listed), "api.txt was not written by go run ./api")
}

func TestEachExportedNameHasALine(t *testing.T) {
	const source = `package p

import "io"

const Two, three = 2, 3
const Word Text = "a"

var Err error

type Text string
func (Text) String() string { return "" }

type Box[T any, K comparable] struct {
	Value T
	hidden int
	io.Reader
}
func (*Box[T, K]) Put(key K, values ...T) (n int, err error) { return }
func (*Box[T, K]) put() {}

type hidden struct{ Seen int }
type Alias = map[string]*Text

type Open interface { Do(io.Writer) error; io.Closer }
type Closed interface { Do(); do() }
type Number interface { ~int | ~float64 }

func Make[T any](f func(Text) T) (*Box[T, string], error) { return nil, nil }
func private() {}
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	require.NoError(t, err)
	config := types.Config{Importer: importer.ForCompiler(set, "source", nil)}
	p, err := config.Check(root+"/folder/p", set, []*ast.File{file}, nil)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{
		"folder/p: const Two untyped int = 2",
		`folder/p: const Word Text = "a"`,
		"folder/p: var Err error",
		"folder/p: type Text string",
		"folder/p: method (Text) String() string",
		"folder/p: type Box[T any, K comparable] struct",
		"folder/p: field Box.Value T",
		"folder/p: field Box.Reader io.Reader",
		"folder/p: method (*Box) Put(key K, values ...T) (n int, err error)",
		"folder/p: method (Box) Read(p []byte) (n int, err error)",
		"folder/p: type Alias = map[string]*Text",
		"folder/p: type Open interface",
		"folder/p: method (Open) Do(io.Writer) error",
		"folder/p: method (Open) Close() error",
		"folder/p: type Closed interface (closed)",
		"folder/p: method (Closed) Do()",
		"folder/p: type Number interface interface{~int | ~float64}",
		"folder/p: func Make[T any](f func(Text) T) (*Box[T, string], error)",
	}, linesOf(p))
}
