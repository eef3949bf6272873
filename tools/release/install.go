package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A freshInstall installs modules from a file-system proxy into an empty GOPATH, as a user would.
// Other modules come from this machine's module cache or, if they are not in the cache, from the
// configured proxies.
type freshInstall struct {
	dir, proxies string
}

// newFreshInstall returns a freshInstall whose GOPATH is in dir, an empty directory.
func newFreshInstall(ctx context.Context, dir, proxy string) (*freshInstall, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w%s", err, stderrOf(err))
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	proxies := []string{fileURL(proxy), fileURL(filepath.Join(cache, "cache", "download")), others}
	return &freshInstall{dir, strings.Join(proxies, ",")}, nil
}

// run runs a go command in a folder of the empty directory.
func (f *freshInstall) run(ctx context.Context, folder string, args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = filepath.Join(f.dir, folder)
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	c.Env = append(os.Environ(),
		"GOPATH="+filepath.Join(f.dir, "gopath"), "GOMODCACHE=", "GOBIN="+filepath.Join(f.dir, "bin"),
		"GOPROXY="+f.proxies,
		"GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=", "GOWORK=off", "GOENV=off",
		// With -trimpath, the build cache can be used for packages that were built in a different
		// GOPATH. The flags -ldflags and -gcflags omit debug information.
		"GOFLAGS=-trimpath -modcacherw -ldflags=-w -gcflags="+rootPath+"/...=-dwarf=false",
	)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func fileURL(dir string) string {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + path
}

// install installs a version in two ways. It runs the commands in lines, which are from the
// documentation. Then it installs all commands of the modules or, if programs is set, all their
// programs. For each module, it also builds a package that imports the module.
func (f *freshInstall) install(ctx context.Context, lines []string, version string, programs bool) error {
	for _, line := range lines {
		args := strings.Fields(line)[1:]
		if args[0] == "get" {
			if err := f.run(ctx, "documented", "mod", "init", "example.com/documented"); err != nil && !strings.Contains(err.Error(), "already exists") {
				return err
			}
		}
		if err := f.run(ctx, "documented", args...); err != nil {
			return err
		}
	}
	for _, m := range modulePaths() {
		pattern := m + "/cmd/..."
		if programs {
			pattern = m + "/..."
		}
		err := f.run(ctx, "all", "install", pattern+"@"+version)
		if err != nil && !strings.Contains(err.Error(), "does not contain packages matching") { // the module has no programs
			return err
		}
	}
	return errors.Join(f.checkPrograms(ctx, version), f.build(ctx, version))
}

func modulePaths() []string {
	paths := []string{rootPath}
	for _, folder := range released {
		paths = append(paths, rootPath+"/"+folder)
	}
	return paths
}

// checkPrograms checks that the installed programs have the right version, and that the
// commands among them print their usage.
func (f *freshInstall) checkPrograms(ctx context.Context, version string) error {
	there, err := os.ReadDir(filepath.Join(f.dir, "bin"))
	if err != nil {
		return err
	}
	var commands []string
	for _, program := range there {
		name := strings.TrimSuffix(program.Name(), ".exe")
		at := filepath.Join(f.dir, "bin", program.Name())
		info, err := buildinfo.ReadFile(at)
		if err != nil {
			return err
		}
		if info.Main.Version != version || !slices.Contains(modulePaths(), info.Main.Path) {
			return fmt.Errorf("%s belongs to module %s %s, not to version %s", name, info.Main.Path, info.Main.Version, version)
		}
		for _, d := range info.Deps {
			if d.Path == rootPath && d.Version != version {
				return fmt.Errorf("%s has %s %s, not %s", name, d.Path, d.Version, version)
			}
		}
		if !strings.Contains(info.Path, "/cmd/") {
			continue
		}
		commands = append(commands, name)
		if out, err := exec.CommandContext(ctx, at, "-h").CombinedOutput(); err != nil || !strings.Contains(string(out), name) {
			return fmt.Errorf("%s -h: %w: %s", name, err, out)
		}
		if name == "reprise" {
			if out, err := exec.CommandContext(ctx, at, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
				return fmt.Errorf("reprise --version: %w: %s", err, out)
			}
		}
	}
	if want := []string{"reprise", "reprise-jetstream", "reprise-mcp", "reprise-postgres"}; !slices.Equal(commands, want) {
		return fmt.Errorf("the installed commands are %v, want %v", commands, want)
	}
	return nil
}

// build builds a package for each module, which imports that module.
func (f *freshInstall) build(ctx context.Context, version string) error {
	for _, m := range modulePaths() {
		folder, imported := "uses-"+path.Base(m), m
		if m == rootPath {
			imported += "/runner/service"
		}
		if err := f.run(ctx, folder, "mod", "init", "example.com/"+folder); err != nil {
			return err
		}
		source := "package uses\n\nimport _ \"" + imported + "\"\n"
		if err := os.WriteFile(filepath.Join(f.dir, folder, "uses.go"), []byte(source), 0o644); err != nil {
			return err
		}
		if err := f.run(ctx, folder, "get", imported+"@"+version); err != nil {
			return err
		}
		if err := f.run(ctx, folder, "build", "."); err != nil {
			return err
		}
	}
	return nil
}

// installLine matches a command in the documentation that installs something from this repository.
var installLine = regexp.MustCompile("go (?:install|get|run) " + regexp.QuoteMeta(rootPath) + "[^\\s`\"')]*")

// installLines returns the commands in the documentation with which users install something
// that is released.
func installLines(dir string) ([]string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "tools" || strings.HasPrefix(entry.Name(), ".") && file != dir):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".md") && !strings.HasSuffix(file, ".go"):
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines = append(lines, installLine.FindAllString(string(data), -1)...)
		return nil
	})
	slices.Sort(lines)
	return slices.Compact(lines), err
}
