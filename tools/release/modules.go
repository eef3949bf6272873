package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
)

// rootPath is the path of the root module.
const rootPath = "github.com/reprise-go/reprise"

var (
	// released lists the folders of the nested modules that users import.
	released = []string{"adapters/eino", "adapters/jetstream", "adapters/mcp", "adapters/otel", "adapters/postgres"}

	// unreleased lists the folders of the nested modules that are only for this repository.
	unreleased = []string{"bench", "snapshot/storekit/sqlitestore", "tests/browser", "tests/clients", "tests/recordings", "tests/types", "tools"}
)

// checkModules returns an error if a nested module is in neither list.
func checkModules(ctx context.Context, dir string) error {
	files, err := filesOf(ctx, dir, ".")
	if err != nil {
		return err
	}
	for _, file := range files {
		folder, name := path.Split(file)
		folder = strings.TrimSuffix(folder, "/")
		if name == "go.mod" && folder != "" && !strings.Contains(folder, "testdata") && !slices.Contains(released, folder) && !slices.Contains(unreleased, folder) {
			return fmt.Errorf("the module %s is new: add it to released or to unreleased in tools/release/modules.go", folder)
		}
	}
	return nil
}

// filesOf returns the files in a folder that git tracks or would add. The names are relative to the
// folder.
func filesOf(ctx context.Context, dir, folder string) ([]string, error) {
	list, err := git(ctx, filepath.Join(dir, folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(list, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return slices.Compact(files), nil
}

// checkReplaces returns an error if there is a replace directive, because users cannot install
// commands from a module that has one. Only nested modules may replace the root module.
func checkReplaces(dir string) error {
	f, err := readGoMod(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for _, r := range f.Replace {
		return replaceError("go.mod", r)
	}
	for _, folder := range released {
		if _, err := goModOf(dir, folder, "v0.0.0"); err != nil {
			return err
		}
	}
	return nil
}

func readGoMod(file string) (*modfile.File, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(file, data, nil)
}

func replaceError(file string, r *modfile.Replace) error {
	return fmt.Errorf("%s replaces %s with %s: go install refuses modules with replace directives; require a published version", file, r.Old.Path, r.New.Path)
}

// goModOf returns the go.mod of a nested module in the form that users get: it requires the given
// version of the root module, without the replace directive that it has in this repository.
func goModOf(dir, folder, version string) ([]byte, error) {
	f, err := readGoMod(filepath.Join(dir, folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	if err := f.DropReplace(rootPath, ""); err != nil {
		return nil, err
	}
	if err := f.AddRequire(rootPath, version); err != nil {
		return nil, err
	}
	f.Cleanup()
	for _, r := range f.Replace {
		return nil, replaceError(folder+"/go.mod", r)
	}
	return f.Format()
}

// goSumOf returns the go.sum of a nested module, including the hashes of the root module.
func goSumOf(dir, folder string, rootModule module.Version, zipHash string, rootGoMod []byte) ([]byte, error) {
	before, err := os.ReadFile(filepath.Join(dir, folder, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	modHash, err := dirhash.Hash1([]string{"go.mod"}, openerOf(rootGoMod))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(before)), "\n")
	lines = append(lines, rootModule.Path+" "+rootModule.Version+" "+zipHash, rootModule.Path+" "+rootModule.Version+"/go.mod "+modHash)
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	slices.Sort(lines)
	return append(bytes.TrimSpace([]byte(strings.Join(lines, "\n"))), '\n'), nil
}
