package main

import (
	"fmt"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// root is the path of the root module and the prefix of all package paths.
const root = "github.com/reprise-go/reprise"

// buildFlags are the flags with which `make test` builds the released modules, if this machine
// supports them. With the same flags, the packages of the modules are already in the build cache.
var buildFlags = func() []string {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}) && runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return []string{"-race"}
	}
	return nil
}()

// list returns the lines for the public packages of the modules in the folders, sorted.
func list(dir string, folders []string) ([]string, error) {
	var lines []string
	for _, folder := range folders {
		config := &packages.Config{
			Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports,
			Dir:  filepath.Join(dir, folder),
			Env:  append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOWORK=off"), // the same list on every system

			BuildFlags: buildFlags,
		}
		loaded, err := packages.Load(config, "./...")
		if err != nil {
			return nil, err
		}
		for _, p := range loaded {
			if len(p.Errors) > 0 {
				return nil, p.Errors[0]
			}
			if isPublic(p) {
				lines = append(lines, linesOf(p.Types)...)
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// isPublic reports whether users may import a package.
func isPublic(p *packages.Package) bool {
	path := short(p.PkgPath) + "/"
	for _, own := range []string{"examples/", "tests/", "internal/", "cmd/", "snapshot/storekit/sqlitestore/"} {
		if strings.HasPrefix(path, own) || strings.Contains(path, "/"+own) {
			return false
		}
	}
	return p.Name != "main"
}

func short(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, root), "/") }

// linesOf returns a line for each exported name of a package, and for each exported field and
// method of the package's types.
func linesOf(p *types.Package) []string {
	l := &lister{p: p}
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			l.object(o)
		}
	}
	return l.lines
}

type lister struct {
	p     *types.Package
	lines []string
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, short(l.p.Path())+": "+fmt.Sprintf(format, args...))
}

// name returns the qualifier for names of a package, as programs write it. Packages of this
// repository are qualified by their folders.
func (l *lister) name(p *types.Package) string {
	if p == l.p {
		return ""
	}
	return short(p.Path())
}

func (l *lister) typeString(t types.Type) string { return types.TypeString(t, l.name) }

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		l.add("const %s %s = %s", o.Name(), l.typeString(o.Type()), o.Val())
	case *types.Var:
		l.add("var %s %s", o.Name(), l.typeString(o.Type()))
	case *types.Func:
		l.add("func %s%s", o.Name(), l.signature(o))
	case *types.TypeName:
		l.typeName(o)
	}
}

func (l *lister) typeName(o *types.TypeName) {
	if o.IsAlias() {
		l.add("type %s = %s", o.Name(), l.typeString(types.Unalias(o.Type())))
		return
	}
	named := o.Type().(*types.Named)
	parameters := l.parameters(named)
	switch under := named.Underlying().(type) {
	case *types.Struct:
		l.add("type %s%s struct", o.Name(), parameters)
		l.fields(o.Name(), under)
	case *types.Interface:
		l.add("type %s%s interface%s", o.Name(), parameters, l.closed(under))
		for m := range under.Methods() {
			if m.Exported() {
				l.method(o.Name(), m)
			}
		}
		return
	default:
		l.add("type %s%s %s", o.Name(), parameters, l.typeString(under))
	}
	for s := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if m := s.Obj().(*types.Func); m.Exported() {
			star := "*"
			if types.NewMethodSet(named).Lookup(m.Pkg(), m.Name()) != nil {
				star = ""
			}
			l.method(star+o.Name(), m)
		}
	}
}

func (l *lister) method(receiver string, m *types.Func) {
	l.add("method (%s) %s%s", receiver, m.Name(), l.signature(m))
}

// result matches the name that the compiler gives to an unnamed result of a function that contains
// a range over a function.
var result = regexp.MustCompile(`#rv[0-9]+ `)

func (l *lister) signature(f *types.Func) string {
	text := strings.TrimPrefix(l.typeString(f.Signature()), "func")
	if f.Signature().Results().Len() == 1 {
		if before, only, found := strings.Cut(text, "(#rv1 "); found {
			return before + strings.TrimSuffix(only, ")")
		}
	}
	return result.ReplaceAllString(text, "")
}

// closed returns " (closed)" for an interface that other packages cannot implement. For a
// constraint, it returns the type itself.
func (l *lister) closed(i *types.Interface) string {
	for m := range i.Methods() {
		if !token.IsExported(m.Name()) {
			return " (closed)"
		}
	}
	if !i.IsMethodSet() {
		return " " + l.typeString(i)
	}
	return ""
}

func (l *lister) fields(of string, s *types.Struct) {
	for f := range s.Fields() {
		if f.Exported() {
			l.add("field %s.%s %s", of, f.Name(), l.typeString(f.Type()))
		}
	}
}

func (l *lister) parameters(t *types.Named) string {
	var all []string
	for p := range t.TypeParams().TypeParams() {
		all = append(all, p.Obj().Name()+" "+l.typeString(p.Constraint()))
	}
	if all == nil {
		return ""
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }
