package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
)

// For an alias of an internal type, go doc shows only the comment. So the comment must mention
// every field, and every method except those that all errors have.
func TestCommentsOfAliasesNameFieldsAndMethods(t *testing.T) {
	comments := make(map[string]string)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, spec := range d.Specs {
					comments[spec.(*ast.TypeSpec).Name.Name] = d.Doc.Text()
				}
			}
		}
	}
	ofEveryError := map[string]bool{"Error": true, "Is": true, "Unwrap": true, "Class": true, "Timeout": true}
	for _, alias := range []any{
		core.CallError{},
		core.PanicError{},
		core.TimeoutError{},
		core.DivergenceError{},
		core.CompensationError{},
		core.FailedCompensation{},
		core.Interceptor{},
		core.CallInfo{},
	} {
		typ := reflect.TypeOf(alias)
		var names []string
		for i := range typ.NumField() {
			if field := typ.Field(i); field.IsExported() {
				names = append(names, field.Name)
			}
		}
		for i := range reflect.PointerTo(typ).NumMethod() {
			if name := reflect.PointerTo(typ).Method(i).Name; !ofEveryError[name] {
				names = append(names, name)
			}
		}
		for _, name := range names {
			assert.Regexp(t, `\b`+name+`\b`, comments[typ.Name()], "the comment of core.%s does not name %s", typ.Name(), name)
		}
	}
}
