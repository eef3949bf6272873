package main

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A repository is a small repository with the same structure as this one, for tests.
type repository struct {
	*testing.T
	dir string
}

// program is a program that prints its version.
const program = `package main

import (
	"fmt"
	"runtime/debug"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println("NAME", info.Main.Version)
}
`

func newRepository(t *testing.T) *repository {
	needsGit(t)
	r := &repository{t, t.TempDir()}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "A")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.com")
	}
	r.git("init", "--quiet", "--initial-branch=main")
	r.write("go.mod", "module "+rootPath+"\n\ngo 1.26\n")
	r.write("LICENSE", "free\n")
	r.write("README.md", "```sh\ngo get "+rootPath+"\ngo install "+rootPath+"/cmd/reprise@latest\n```\n")
	r.write("runner/service/service.go", "package service\n\nconst Name = \"service\"\n")
	r.write("cmd/reprise/main.go", strings.ReplaceAll(program, "NAME", "reprise"))
	for _, folder := range released {
		name := path.Base(folder)
		r.write(folder+"/go.mod", "module "+rootPath+"/"+folder+"\n\ngo 1.26\n\nrequire "+rootPath+" v0.0.0\n\nreplace "+rootPath+" => ../../\n")
		r.write(folder+"/nested.go", "package "+name+"\n\nimport \""+rootPath+"/runner/service\"\n\nconst Name = service.Name\n")
		if folder != "adapters/otel" && folder != "adapters/eino" { // these modules have no programs
			source := strings.ReplaceAll(program, "NAME", "reprise-"+name)
			r.write(folder+"/cmd/reprise-"+name+"/main.go", strings.Replace(source, "import (", "import (\n\t_ \""+rootPath+"/"+folder+"\"", 1))
		}
	}
	r.write("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (not released yet)\n\nThe first release.\n")
	r.write("tests/testdata/v1", "golden\n")
	r.write("tools/api/api.txt", "core func A()\ncore func B()\n")
	r.write(".ci/run", "#!/bin/sh\necho ci is green with $1\n")
	require.NoError(t, os.Chmod(filepath.Join(r.dir, ".ci", "run"), 0o755))
	r.write("Makefile", "fuzz:\n\t@echo fuzzed for $(FUZZTIME)\n")
	r.commit()
	return r
}

func needsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
}

func (r *repository) write(name, data string) {
	r.Helper()
	file := filepath.Join(r.dir, name)
	require.NoError(r, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(r, os.WriteFile(file, []byte(data), 0o644))
}

func (r *repository) git(args ...string) string {
	r.Helper()
	out, err := git(r.Context(), r.dir, args...)
	require.NoError(r, err)
	return out
}

func (r *repository) commit() {
	r.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", "a change")
}

// release makes a release, and returns its output.
func (r *repository) release(version string) (string, error) {
	var out bytes.Buffer
	made := &release{dir: r.dir, version: version, date: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), out: &out}
	err := made.make(r.Context())
	return out.String(), err
}

// state returns everything that a release may change.
func (r *repository) state() string {
	return strings.Join([]string{r.git("show-ref"), r.git("status", "--porcelain"), r.git("worktree", "list")}, "\n")
}

func TestReleaseIsTaggedWithoutReplaces(t *testing.T) {
	r := newRepository(t)
	before := r.git("rev-parse", "HEAD")
	said, err := r.release("v0.1.0")
	require.NoError(t, err)
	assert.Contains(t, said, "ci is green with all")
	assert.Contains(t, said, "fuzzed for 5m")
	assert.Contains(t, said, "git push --atomic origin main v0.1.0 adapters/eino/v0.1.0 adapters/jetstream/v0.1.0 adapters/mcp/v0.1.0 adapters/otel/v0.1.0 adapters/postgres/v0.1.0")

	assert.Equal(t, before, r.git("rev-parse", "HEAD^"), "the branch has one more commit")
	assert.Equal(t, "CHANGELOG.md", r.git("diff", "--name-only", "HEAD^", "HEAD"))
	assert.Contains(t, r.git("show", "HEAD:CHANGELOG.md"), "## 0.1.0 (2026-01-05)\n")
	assert.Contains(t, r.git("show", "HEAD:adapters/otel/go.mod"), "replace", "in the repository, modules find each other")
	assert.Equal(t, "adapters/eino/v0.1.0\nadapters/jetstream/v0.1.0\nadapters/mcp/v0.1.0\nadapters/otel/v0.1.0\nadapters/postgres/v0.1.0\nv0.1.0", r.git("tag"))
	for _, folder := range released {
		goMod := r.git("show", folder+"/v0.1.0:"+folder+"/go.mod")
		assert.NotContains(t, goMod, "replace")
		assert.Contains(t, goMod, rootPath+" v0.1.0")
		assert.Contains(t, r.git("show", folder+"/v0.1.0:"+folder+"/go.sum"), rootPath+" v0.1.0 h1:")
	}
	assert.Empty(t, r.git("status", "--porcelain"))
	assert.Equal(t, 1, strings.Count(r.git("worktree", "list"), "\n")+1)

	r.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\nMore.\n\n## 0.1.0 (2026-01-05)\n")
	r.write("tools/api/api.txt", "core func A()\ncore func B()\ncore func C()\n")
	r.write("tests/testdata/v2", "golden\n")
	r.commit()
	_, err = r.release("v0.1.1")
	require.NoError(t, err)
	assert.Contains(t, r.git("show", "v0.1.1:CHANGELOG.md"), "## 0.1.1 (2026-01-05)\n")
}

func TestInvalidReleaseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		version string // v0.2.0 if empty
		change  func(r *repository)
		want    string
	}{
		"no version":            {"next", nil, `"next" is not a version; want one such as v0.1.0`},
		"a short version":       {"v0.2", nil, `"v0.2" is not a version`},
		"a version without v":   {"0.2.0", nil, `"0.2.0" is not a version`},
		"a version of a build":  {"v0.2.0+1", nil, `"v0.2.0+1" is not a version`},
		"a major of other path": {"v2.0.0", nil, "v2.0.0 requires modules whose paths end with /v2"},
		"a version that exists": {"v0.1.0", nil, "v0.1.0 exists: the tag v0.1.0 is present"},
		"one of a nested module": {
			"v0.1.5", func(r *repository) { r.git("tag", "adapters/otel/v0.1.5") },
			"v0.1.5 exists: the tag adapters/otel/v0.1.5 is present",
		},
		"one that exists there": {"v0.3.0", func(r *repository) {
			there := r.TempDir()
			r.git("clone", "--quiet", "--bare", r.dir, there)
			_, err := git(r.Context(), there, "tag", "v0.3.0")
			require.NoError(r, err)
			r.git("remote", "add", "origin", there)
		}, "v0.3.0 exists: the tag v0.3.0 is present"},
		"a version that goes down": {"v0.0.9", nil, "v0.0.9 is lower than the last version, v0.1.0"},
		"a candidate of the last":  {"v0.1.0-rc.1", nil, "v0.1.0-rc.1 is lower than"},
		"a dirty tree":             {"", func(r *repository) { r.write("README.md", "") }, "the tree is dirty: M README.md"},
		"a new file":               {"", func(r *repository) { r.write("new", "") }, "the tree is dirty: ?? new"},
		"no branch":                {"", func(r *repository) { r.git("checkout", "--quiet", "--detach") }, "no branch is checked out"},
		"a replace of the root": {"", func(r *repository) {
			r.write("go.mod", "module "+rootPath+"\n\ngo 1.26\n\nreplace example.com/a => ../a\n")
			r.commit()
		}, "go.mod replaces example.com/a with ../a: go install refuses modules with replace directives"},
		"another replace of a nested module": {"", func(r *repository) {
			r.write("adapters/otel/go.mod", "module "+rootPath+"/adapters/otel\n\ngo 1.26\n\nreplace example.com/a => ../a\n")
			r.commit()
		}, "adapters/otel/go.mod replaces example.com/a with ../a"},
		"a module that nobody knows": {"", func(r *repository) {
			r.write("mysql/go.mod", "module "+rootPath+"/mysql\n")
			r.commit()
		}, "the module mysql is new"},
		"no section": {"v0.1.1", func(r *repository) {
			r.write("CHANGELOG.md", "## 0.1.0 (2026-01-01)\n")
			r.commit()
		}, `CHANGELOG.md has neither a section "Unreleased" nor one "0.1.1 (not released yet)"`},
		"a golden file that changed": {"", func(r *repository) {
			r.write("tests/testdata/v1", "other\n")
			r.commit()
		}, "tests/testdata/v1 was changed or removed since v0.1.0"},
		"a patch that removes a name": {"v0.1.1", func(r *repository) {
			r.write("tools/api/api.txt", "core func A()\n")
			r.commit()
		}, "v0.1.1 must not remove anything from the API of v0.1.0: core func B()"},
		"a red CI": {"", func(r *repository) {
			r.write(".ci/run", "#!/bin/sh\necho it is red\nexit 3\n")
			r.commit()
		}, ".ci/run all failed: exit status 3"},
		"a fuzzer that finds a bug": {"", func(r *repository) {
			r.write("Makefile", "fuzz:\n\t@exit 1\n")
			r.commit()
		}, "make fuzz FUZZTIME=5m failed"},
		"a command that cannot be installed": {"", func(r *repository) {
			r.write("README.md", "go install "+rootPath+"/cmd/other@latest\n")
			r.commit()
		}, "go install " + rootPath + "/cmd/other@latest: exit status 1"},
		"a tag that cannot be made": {"", func(r *repository) { r.git("tag", "adapters/postgres") }, "git tag --annotate"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.write("CHANGELOG.md", "## Unreleased\n")
			r.commit()
			r.git("tag", "v0.1.0")
			if c.change != nil {
				c.change(r)
			}
			version := c.version
			if version == "" {
				version = "v0.2.0"
			}
			before := r.state()
			_, err := r.release(version)
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, before, r.state(), "the repository is unchanged")
		})
	}
}

func TestVersionIsTheOnlyArgument(t *testing.T) {
	for _, args := range [][]string{nil, {"v0.1.0", "now"}} {
		var out bytes.Buffer
		assert.ErrorContains(t, run(t.Context(), args, &out), "want a version, such as v0.1.0")
	}
}
