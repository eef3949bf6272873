package otel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// conventions returns the keys in the pinned version of the semantic conventions, read from the
// source of its package.
var conventions = sync.OnceValues(func() (map[string]bool, error) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "go.opentelemetry.io/otel/semconv/v1.41.0").Output()
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "attribute_group.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	keys := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Key" {
			if literal, ok := call.Args[0].(*ast.BasicLit); ok {
				key, _ := strconv.Unquote(literal.Value)
				keys[key] = true
			}
		}
		return true
	})
	return keys, nil
})

func TestKeysOfTheConventionsAreRead(t *testing.T) {
	keys, err := conventions()
	require.NoError(t, err)
	assert.Greater(t, len(keys), 500)
	for _, key := range []attribute.Key{semconv.GenAIProviderNameKey, semconv.ErrorTypeKey, semconv.ServerPortKey} {
		assert.True(t, keys[string(key)], key)
	}
	assert.False(t, keys["reprise.address"])
	assert.Equal(t, "https://opentelemetry.io/schemas/1.41.0", semconv.SchemaURL)
}

// checkKeys checks that everything exported has only attributes that are defined by the conventions
// or by this package.
func (k *kit) checkKeys(t *testing.T) {
	keys, err := conventions()
	require.NoError(t, err)
	check := func(where string, attributes []attribute.KeyValue) {
		for _, kv := range attributes {
			if name := string(kv.Key); !keys[name] && !strings.HasPrefix(name, "reprise.") {
				t.Errorf("%s has %s, which is not in the conventions", where, name)
			}
		}
	}
	for _, s := range k.spans.Started() {
		if !strings.HasPrefix(s.InstrumentationScope().Name, "github.com/reprise-go/") {
			continue
		}
		assert.Equal(t, semconv.SchemaURL, s.InstrumentationScope().SchemaURL)
		check(s.Name(), s.Attributes())
		for _, e := range s.Events() {
			check(s.Name()+": "+e.Name, e.Attributes)
		}
		for _, l := range s.Links() {
			check(s.Name()+": link", l.Attributes)
		}
	}
	k.eachPoint(t, func(name string, attributes []string, _ float64) {
		assert.True(t, strings.HasPrefix(name, "reprise.") || strings.HasPrefix(name, "gen_ai.client."), name)
		for _, text := range attributes {
			key, _, _ := strings.Cut(text, "=")
			assert.True(t, keys[key] || strings.HasPrefix(key, "reprise."), "%s has %s", name, key)
		}
	})
}

func texts(attributes []attribute.KeyValue) (all []string) {
	for _, kv := range attributes {
		all = append(all, string(kv.Key)+"="+kv.Value.String())
	}
	return all
}
