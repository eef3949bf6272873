package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/testkit/process"
)

// longForm is the environment variable that makes the test kill the process 100
// times instead of 8.
const longForm = "REPRISE_LONG"

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{
		"write": func(args ...string) error {
			f := flags{dir: args[0], answer: "y", subject: "tea", model: "m"}
			ctx := live.Watch(context.Background(), func(live.Delta) {}) // stream replies, so that they can be cut off in the middle
			return run(ctx, f, os.Stdin, os.Stdout, os.Stderr)
		},
		"research": func(...string) error {
			main()
			return nil
		},
	})
}

func TestUnknownArgumentIsRefused(t *testing.T) { process.RefusesArguments(t, "research") }

// worker returns the command of a process that starts or continues writing the report. The process
// writes the report to the buffer.
func worker(t *testing.T, dir string, server *openaitest.Server) (*exec.Cmd, *bytes.Buffer) {
	var out bytes.Buffer
	cmd := process.Command(t, "write", dir)
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY=test", "OPENAI_BASE_URL="+server.URL())
	cmd.Stdout = &out
	return cmd, &out
}

// finish runs a worker to its end and returns the report.
func finish(t *testing.T, dir string, server *openaitest.Server) string {
	cmd, out := worker(t, dir, server)
	var progress bytes.Buffer
	cmd.Stderr = &progress
	require.NoError(t, cmd.Run(), "%s", &progress)
	return out.String()
}

func brain(t *testing.T) *openaitest.Server {
	return openaitest.New(t, openaitest.Forever(openaitest.Respond(nextTurn)))
}

func published(t *testing.T, dir string) []string {
	names, err := filepath.Glob(filepath.Join(dir, "published", "*"))
	require.NoError(t, err)
	return names
}

// The model is called at most once for each turn and once more for each kill, the answer is always
// the same, and the approved report is published once.
func TestResumesAfterAKillAtAnyPoint(t *testing.T) {
	kills := 8
	if os.Getenv(longForm) != "" {
		kills = 100
	}
	undisturbed := brain(t)
	dir := t.TempDir()
	begin := time.Now()
	want := finish(t, dir, undisturbed)
	took := time.Since(begin)
	turns := len(undisturbed.Requests())
	require.Len(t, published(t, dir), 1)
	assert.Equal(t, 7, turns, "the turns are sequential, so a kill repeats at most one of them")

	for run := 1; kills > 0; run++ {
		dir, server := t.TempDir(), brain(t)
		killed := 0
		for ended := false; !ended && kills > 0; {
			cmd, out := worker(t, dir, server)
			require.NoError(t, cmd.Start())
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case <-time.After(rand.N(took)):
				_ = cmd.Process.Kill() // the process may already have ended
				if err := <-done; err == nil {
					ended = true
					assert.Equal(t, want, out.String())
				} else {
					killed++
					kills--
				}
			case err := <-done:
				require.NoError(t, err)
				ended = true
			}
		}
		got := finish(t, dir, server)
		assert.Equal(t, want, got)
		assert.Len(t, published(t, dir), 1)
		assert.LessOrEqual(t, len(server.Requests()), turns+killed, "run %d, killed %d times", run, killed)
	}
}

// A killed process may have left behind a draft that is linked to the report. The repeated call
// does not change the report, and removes the draft.
func TestARepeatedPublicationLeavesNoDraft(t *testing.T) {
	dir := t.TempDir()
	const name = "report-1.md"
	publish := func() {
		require.NoError(t, Publication{Title: "T", Text: "text"}.write(filepath.Join(dir, "published"), name))
	}
	publish()
	report := filepath.Join(dir, "published", name)
	before, err := os.Stat(report)
	require.NoError(t, err)
	require.NoError(t, os.Link(report, filepath.Join(dir, "published", ".draft-"+name)))

	publish()
	assert.Equal(t, []string{report}, published(t, dir))
	after, err := os.Stat(report)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	assert.Equal(t, before.ModTime(), after.ModTime(), "the report has not changed")
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	assert.Equal(t, "# T\n\ntext\n", string(text))
}

func TestADifferentAnswerIsADifferentReport(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	for answer, want := range map[string]string{
		"n":                             "page 3)\n",
		"not today":                     "page 3)\n",
		`{"title":"T","text":"edited"}`: "Published as report-",
	} {
		dir := t.TempDir()
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), flags{dir: dir, answer: answer, subject: "tea"}, strings.NewReader(""), &out, new(bytes.Buffer)))
		assert.Contains(t, out.String(), want)
		files := published(t, dir)
		require.Len(t, files, strings.Count(answer, "{"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, "# T\n\nedited\n", string(text))
		}
	}
}

func TestWithoutAnAnswerItWaits(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	dir := t.TempDir()
	var out, progress bytes.Buffer
	err := run(t.Context(), flags{dir: dir, subject: "tea"}, strings.NewReader(""), &out, &progress)
	require.ErrorContains(t, err, "was not answered")
	assert.Contains(t, progress.String(), "Approve publish")
	require.NoError(t, run(t.Context(), flags{dir: dir, subject: "tea"}, strings.NewReader("\ny\n"), &out, &progress))
	assert.Contains(t, out.String(), "Published as")
}
