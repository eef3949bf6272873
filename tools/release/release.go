package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// A release is a release that is being made.
type release struct {
	dir     string // directory of the repository
	version string
	date    time.Time
	out     io.Writer
}

func (r *release) say(format string, args ...any) { fmt.Fprintf(r.out, "--- "+format+"\n", args...) }

// make makes the release, or refuses to and leaves the repository unchanged.
func (r *release) make(ctx context.Context) (err error) {
	last, err := checkVersion(ctx, r.dir, r.version)
	if err != nil {
		return err
	}
	for _, check := range []func(context.Context, string) error{r.checkClean, r.checkBranch, r.checkModules, r.checkChangelog, r.checkGolden, r.checkAPI} {
		if err := check(ctx, last); err != nil {
			return err
		}
	}
	head, err := git(ctx, r.dir, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "reprise-release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	tree := filepath.Join(temporary, "tree")
	if _, err := git(ctx, r.dir, "worktree", "add", "--quiet", "--detach", tree, head); err != nil {
		return err
	}
	defer func() {
		_, removed := git(context.WithoutCancel(ctx), r.dir, "worktree", "remove", "--force", tree)
		err = errors.Join(err, removed)
	}()
	if err := r.check(ctx, tree); err != nil {
		return err
	}
	main, tagged, err := r.commit(ctx, tree, filepath.Join(temporary, "proxy"))
	if err != nil {
		return err
	}
	r.say("install %s from a file-system proxy", r.version)
	fresh, err := newFreshInstall(ctx, filepath.Join(temporary, "fresh"), filepath.Join(temporary, "proxy"))
	if err != nil {
		return err
	}
	lines, err := installLines(tree)
	if err != nil {
		return err
	}
	if err := fresh.install(ctx, lines, r.version, true); err != nil {
		return err
	}
	return r.tag(ctx, main, tagged)
}

func (r *release) checkClean(ctx context.Context, _ string) error {
	changes, err := git(ctx, r.dir, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		first, _, _ := strings.Cut(changes, "\n")
		return fmt.Errorf("the tree is dirty: %s; commit or stash the changes", strings.TrimSpace(first))
	}
	return nil
}

func (r *release) checkBranch(ctx context.Context, _ string) error {
	if _, err := git(ctx, r.dir, "symbolic-ref", "--quiet", "HEAD"); err != nil {
		return errors.New("no branch is checked out, and a release makes a commit on one; check out main")
	}
	return nil
}

func (r *release) checkModules(ctx context.Context, _ string) error {
	if err := checkModules(ctx, r.dir); err != nil {
		return err
	}
	return checkReplaces(r.dir)
}

func (r *release) checkChangelog(context.Context, string) error {
	_, err := r.datedChangelog(r.dir)
	return err
}

// datedChangelog returns CHANGELOG.md with a date for the version.
func (r *release) datedChangelog(dir string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	plain := strings.TrimPrefix(r.version, "v")
	section := regexp.MustCompile(`(?m)^## (?:Unreleased|` + regexp.QuoteMeta(plain) + ` \(not released yet\))$`)
	at := section.FindIndex(data)
	if at == nil {
		return nil, fmt.Errorf(`CHANGELOG.md has neither a section "Unreleased" nor one "%s (not released yet)"`, plain)
	}
	title := "## " + plain + " (" + r.date.Format(time.DateOnly) + ")"
	return slices.Concat(data[:at[0]], []byte(title), data[at[1]:]), nil
}

// goldenFiles is the directory with files in the formats that users have stored.
const goldenFiles = "tests/testdata"

func (r *release) checkGolden(ctx context.Context, last string) error {
	if last == "" {
		return nil
	}
	changed, err := git(ctx, r.dir, "diff", "--name-only", "--diff-filter=MDT", last, "HEAD", "--", goldenFiles)
	if err != nil {
		return err
	}
	if changed != "" {
		first, _, _ := strings.Cut(changed, "\n")
		return fmt.Errorf("%s was changed or removed since %s: users have files in this format; raise the format version and add a new file", first, last)
	}
	return nil
}

// apiFile is the list of the public API. It is written by the command api.
const apiFile = "tools/api/api.txt"

// checkAPI returns an error if the version removes something from the API, unless it is the first
// version or a new minor version before 1.0.
func (r *release) checkAPI(ctx context.Context, last string) error {
	mayBreak := last == "" || semver.Major(r.version) == "v0" && !isPatch(r.version, last)
	if there, err := git(ctx, r.dir, "ls-tree", "--name-only", cmp.Or(last, "HEAD"), apiFile); mayBreak || err != nil || there == "" {
		return err
	}
	before, err := git(ctx, r.dir, "show", last+":"+apiFile)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(filepath.Join(r.dir, apiFile))
	if err != nil {
		return err
	}
	lines := strings.Split(string(now), "\n")
	for _, line := range strings.Split(before, "\n") {
		if !slices.Contains(lines, line) {
			return fmt.Errorf("%s must not remove anything from the API of %s: %s", r.version, last, line)
		}
	}
	return nil
}

// check runs the checks that every change must pass, and fuzzing.
func (r *release) check(ctx context.Context, tree string) error {
	for _, command := range [][]string{{".ci/run", "all"}, {"make", "fuzz", "FUZZTIME=5m"}} {
		name := strings.Join(command, " ")
		r.say("%s", name)
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Dir, c.Stdout, c.Stderr = tree, r.out, r.out
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s failed: %w", name, err)
		}
	}
	return nil
}

// commit makes the commit for the branch and, on top of it, the commit that will be tagged. It also
// writes the modules in the tagged commit to the proxy.
func (r *release) commit(ctx context.Context, tree, proxy string) (main, tagged string, err error) {
	changelog, err := r.datedChangelog(tree)
	if err != nil {
		return "", "", err
	}
	if main, err = r.commitFiles(ctx, tree, "Release "+r.version, map[string][]byte{"CHANGELOG.md": changelog}); err != nil {
		return "", "", err
	}
	changed, err := writeProxy(ctx, tree, proxy, r.version)
	if err != nil {
		return "", "", err
	}
	if tagged, err = r.commitFiles(ctx, tree, "Nested modules require the root module at "+r.version+"\n\nThis commit is tagged and is not on a branch.", changed); err != nil {
		return "", "", err
	}
	for _, folder := range append([]string{"."}, released...) {
		f, err := readGoMod(filepath.Join(tree, folder, "go.mod"))
		if err != nil {
			return "", "", err
		}
		for _, replace := range f.Replace {
			return "", "", replaceError(folder+"/go.mod", replace)
		}
	}
	return main, tagged, nil
}

func (r *release) commitFiles(ctx context.Context, tree, message string, files map[string][]byte) (commit string, err error) {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(tree, name), data, 0o644); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", message}} {
		if _, err := git(ctx, tree, args...); err != nil {
			return "", err
		}
	}
	return git(ctx, tree, "rev-parse", "HEAD")
}

// tag tags the commit tagged, once for each module, and moves the branch to the commit main. If any
// of this fails, tag removes the tags.
func (r *release) tag(ctx context.Context, main, tagged string) error {
	branch, err := git(ctx, r.dir, "rev-parse", "--abbrev-ref", "HEAD")
	if err != nil {
		return err
	}
	tags := []string{r.version}
	for _, folder := range released {
		tags = append(tags, folder+"/"+r.version)
	}
	for i, tag := range tags {
		if _, err := git(ctx, r.dir, "tag", "--annotate", "--message", tag, tag, tagged); err != nil {
			return errors.Join(err, r.untag(ctx, tags[:i]))
		}
	}
	if _, err := git(ctx, r.dir, "merge", "--quiet", "--ff-only", main); err != nil {
		return errors.Join(err, r.untag(ctx, tags))
	}
	r.say("%s is tagged; publish it with\ngit push --atomic origin %s %s", r.version, branch, strings.Join(tags, " "))
	return nil
}

func (r *release) untag(ctx context.Context, tags []string) error {
	if len(tags) == 0 {
		return nil
	}
	_, err := git(context.WithoutCancel(ctx), r.dir, append([]string{"tag", "--delete"}, tags...)...)
	return err
}
