package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
)

func noRun(runID, dir string) string {
	return "there is no run " + runID + " in " + dir + "; `reprise runs` lists the runs"
}

// everyCommand has a line for each command that takes a run, with % in place of its ID.
var everyCommand = []string{
	"show %", "diff % %", "export %", "questions %", "answer % q true", "interrupt %", "resume %", "retry %", "cancel %", "fork % agent new", "verify %", "repair %", "delete -y %",
}

func TestEveryCommandSaysWhichRunsThereAre(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	for _, line := range everyCommand {
		t.Run(line, func(t *testing.T) {
			call(t, dir, strings.Fields(strings.ReplaceAll(line, "%", "nobody"))...).failed(t, exitFailure, noRun("nobody", dir))
		})
	}
	assert.NoDirExists(t, filepath.Join(dir, "runs", "nobody"))
	assert.Equal(t, `{"error":"`+noRun("nobody", dir)+`","code":"not_found"}`+"\n", call(t, dir, "show", "nobody", "--json").stderr)
}

func TestEveryCommandRefusesInvalidRunIDs(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	for _, line := range everyCommand {
		for _, id := range []string{"../etc", "a/b", ".", "..", `a\b`, "a\x00b", strings.Repeat("x", 100_000)} {
			got := call(t, dir, strings.Fields(strings.ReplaceAll(line, "%", id))...)
			assert.Equal(t, exitUsage, got.code, line)
			assert.Contains(t, got.stderr, "want 1 to 128 letters, digits, dots, dashes and underscores, not beginning with a dot or a dash", line)
			assert.Less(t, len(got.stderr), 500, line)
		}
	}
}

func TestEveryCommandNeedsTheDirectoryOfAStore(t *testing.T) {
	const which = "; name the directory that the program gave to filestore.New, with --dir or REPRISE_DIR"
	lines := append([]string{"runs", "verify", "gc"}, everyCommand...)
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, line := range lines {
		args := strings.Fields(strings.ReplaceAll(line, "%", "oslo"))
		call(t, missing, args...).failed(t, exitFailure, "there is no directory "+missing+which)
		call(t, file, args...).failed(t, exitFailure, file+" is not a directory"+which)
		call(t, empty, args...).failed(t, exitFailure, empty+" is not a store: it has no directory \"runs\""+which)
	}
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	assert.Empty(t, entries, "no directory is created")
	call(t, "", "runs", "--dir=").failed(t, exitUsage, "--dir is empty; name the directory that the program gave to filestore.New")
}

func TestFlagOutranksTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	assert.Contains(t, call(t, "elsewhere", "--dir", dir, "runs").text(t), "oslo")
	t.Chdir(t.TempDir())
	assert.Contains(t, call(t, "", "runs").stderr, "there is no directory ./reprise-data")
}

func TestStrayFileIsNotARun(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "notes.txt"), nil, 0o600))
	call(t, dir, "show", "notes.txt").failed(t, exitFailure, "notes.txt in "+filepath.Join(dir, "runs")+" is not a stored run")
	call(t, dir, "verify").text(t)
}

func TestWrongUsageExitsWith2(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	for _, line := range []string{
		"bogus", "show", "show a b", "diff a", "runs a", "runs --bogus", "runs --limit x", "gc --grace x", "help bogus", "help runs x",
		"answer a b", "--bogus", "show a --input b --output c",
	} {
		got := call(t, dir, strings.Fields(line)...)
		assert.Equal(t, exitUsage, got.code, line)
		assert.Empty(t, got.stdout, line)
		assert.True(t, strings.HasPrefix(got.stderr, "reprise: "), line)
		assert.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	}
	call(t, dir, "show").failed(t, exitUsage, "RUN is missing: usage is reprise show RUN [flags]")
	call(t, dir, "answer", "a").failed(t, exitUsage, "QUESTION is missing: `reprise questions a` lists them; usage is reprise answer RUN QUESTION JSON-VALUE [flags]")
	call(t, dir, "show", "a", "b").failed(t, exitUsage, `"b" is one argument too many: usage is reprise show RUN [flags]`)
	call(t, dir, "run").failed(t, exitUsage, `unknown command "run" for "reprise"; did you mean runs or runner?`)
	call(t, dir, "answer", "a", "b", "-5").failed(t, exitUsage, "unknown shorthand flag: '5' in -5; see reprise answer --help")
	assert.Contains(t, call(t, dir, "show", "--json").stderr, `"code":"usage"`)
}

func TestFlagWithOneDashIsExplained(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	assert.Equal(t, call(t, dir, "--help").text(t), call(t, dir, "-help").text(t))
	assert.Equal(t, call(t, dir, "runs", "--help").text(t), call(t, dir, "runs", "-help").text(t))
	for line, want := range map[string]string{
		"-dir " + dir + " runs":            "-dir has one dash: want --dir; see reprise --help",
		"-json runs":                       "-json has one dash: want --json; see reprise runs --help",
		"-version":                         "-version has one dash: want --version; see reprise --help",
		"-status failed runs":              "-status has one dash: want --status; see reprise --help",
		"runs -status=failed":              "-status has one dash: want --status; see reprise runs --help",
		"runs --limit 1 -since 1h":         "-since has one dash: want --since; see reprise runs --help",
		"export oslo -output oslo.reprise": "-output has one dash: want --output; see reprise export --help",
		"runs -x":                          "unknown shorthand flag: 'x' in -x; see reprise runs --help",
		"show oslo -- -dir":                `"-dir" is one argument too many: usage is reprise show RUN [flags]`,
	} {
		call(t, dir, strings.Fields(line)...).failed(t, exitUsage, want)
	}
	assert.Contains(t, call(t, dir, "runs", "-limit", "1", "--json").stderr, `{"error":"-limit has one dash: want --limit`)
}

func TestInterruptEndsAListing(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"runs", "show oslo", "verify", "gc", "export oslo", "delete -y oslo"} {
		got := callContext(ctx, dir, func(*environment) {}, strings.Fields(line)...)
		assert.Equal(t, result{exitInterrupted, "", "reprise: interrupted\n"}, got, line)
	}
}

func TestClosedOutputIsNotReported(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	for _, line := range []string{"runs", "show oslo", "export oslo", "diff oslo oslo", "verify", "help", "--version"} {
		for _, err := range []error{syscall.EPIPE, syscall.EBADF} {
			got := callWith(t, dir, func(env *environment) { env.stdout = brokenWriter{err} }, strings.Fields(line)...)
			assert.Equal(t, result{exitFailure, "", ""}, got, line)
		}
		got := callWith(t, dir, func(env *environment) { env.stdout = brokenWriter{errors.New("disk full")} }, strings.Fields(line)...)
		assert.Equal(t, "reprise: write the output: disk full\n", got.stderr, line)
		assert.NotEqual(t, exitOK, got.code, line)
	}
}

func TestEveryCommandHasExamplesThatExist(t *testing.T) {
	dir := t.TempDir()
	a := &app{environment: &environment{getenv: func(string) string { return "" }, username: func() string { return "" }}}
	for _, cmd := range a.root().Commands() {
		assert.NotEmpty(t, cmd.Short, cmd.Name())
		require.NotEmpty(t, cmd.Example, cmd.Name())
		for line := range strings.Lines(cmd.Example) {
			words := strings.Fields(strings.TrimSpace(line))
			require.Equal(t, "reprise", words[0], line)
			found, rest, err := a.root().Find(words[1:])
			require.NoError(t, err, line)
			for _, word := range rest {
				if word == "|" || word == "--" {
					break
				}
				if name, ok := strings.CutPrefix(word, "--"); ok {
					assert.NotNil(t, flagOf(found, name), line)
				}
			}
		}
		help := call(t, dir, "help", cmd.Name()).text(t)
		assert.Contains(t, help, "Examples:")
		assert.Equal(t, help, call(t, dir, cmd.Name(), "--help").text(t))
	}
}

func flagOf(cmd *cobra.Command, name string) any {
	name, _, _ = strings.Cut(name, "=")
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	if f := cmd.Root().PersistentFlags().Lookup(name); f != nil {
		return f
	}
	return nil
}

func TestHelpListsTheCommandsInGroups(t *testing.T) {
	help := call(t, "", "help").text(t)
	assert.Equal(t, help, call(t, "").text(t))
	for _, want := range []string{
		"Inspect runs:\n  diff ", "Work on runs:\n  answer ", "Maintain the store:\n  delete ",
		"  completion  Generate the autocompletion script", `(default "./reprise-data")`,
	} {
		assert.Contains(t, help, want)
	}
	assert.Regexp(t, `^reprise \S+ \(go.*\)\n$`, call(t, "", "--version").text(t))
}

func TestShellsCompleteRunsAddressesAndQuestions(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	weather(t, dir, "paris", true, snapshot.Metadata{})
	refund(t, dir, "refund-1")
	for _, c := range []struct{ line, want string }{
		{"show %", "refund-1\tpaused|paris\tfailed|oslo\tcompleted"},
		{"show o%", "oslo\tcompleted"},
		{"show oslo %", ""},
		{"diff oslo %", "refund-1\tpaused|paris\tfailed"},
		{"verify oslo paris %", "refund-1\tpaused"},
		{"fork oslo %", "agent|agent/look|agent/tell"},
		{"fork oslo agent/t%", "agent/tell"},
		{"answer refund-1 %", `refund?1` + "\t" + `refund \x1b[31mit\x1b[0m?`},
		{"runs --status %", "queued|running|paused|interrupted|completed|failed|cancelled"},
		{"export oslo --format %", "jsonl|json|msgpack"},
		{"--dir /nowhere show %", ""},
		{"help re%", "repair\tRepair a damaged run so that it can be opened"},
	} {
		args := append([]string{"__complete"}, strings.Fields(c.line)...)
		args[len(args)-1] = strings.TrimSuffix(args[len(args)-1], "%")
		got := call(t, dir, args...)
		require.Equal(t, exitOK, got.code, c.line)
		lines := strings.Split(got.stdout, "\n")
		var offers []string
		for _, l := range lines {
			if l != "" && !strings.HasPrefix(l, ":") {
				offers = append(offers, l)
			}
		}
		if c.line == "help re%" {
			assert.Contains(t, offers, c.want)
			continue
		}
		assert.Equal(t, c.want, strings.Join(offers, "|"), c.line)
	}
	assert.Contains(t, call(t, dir, "completion", "bash").text(t), "reprise")
}
