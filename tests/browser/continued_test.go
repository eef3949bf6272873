package browser

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// vote opens the run and calls an agent that asks two people at the same time. It may be called
// several times for the same run.
func vote(ctx context.Context, t *testing.T, store *filestore.Store) (done bool) {
	t.Helper()
	st, err := state.Open(ctx, store, "r")
	require.NoError(t, err)
	ask := decorators.Tool("ask", "asks", func(ctx context.Context, in City) (bool, error) { return core.Await[bool](ctx, in.Name+"?") })
	_, err = actors.Map(st.Context(ctx), actors.Group{Name: "people", CollectAll: true}, ask, []City{{"Ada"}, {"Grace"}})
	require.NoError(t, st.Close())
	if err != nil {
		require.ErrorIs(t, err, core.ErrAwaiting)
	}
	return err == nil
}

// followed serves the store in a directory, to which other processes may write, as the command
// reprise serve does.
func followed(t *testing.T, dir string) *site {
	t.Helper()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	runs := stored.New(store)
	s := newSite(t, runs, streamer.Options{Control: stored.NewControl(store)}, nil)
	background(t, func() {
		if err := runs.Follow(t.Context(), s.dash); !errors.Is(err, context.Canceled) {
			t.Errorf("follow: %v", err)
		}
	})
	return s
}

// TestPageSaysWhetherAProgramContinues checks what the page says after an answer, and that the page
// updates the text when a program continues the run.
func TestPageSaysWhetherAProgramContinues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := newStore(t, dir)
	require.False(t, vote(t.Context(), t, store))
	p := open(t, followed(t, dir).url())
	p.wait(`document.querySelectorAll(".question").length === 2`)
	p.settle()
	p.click(".question:nth-child(1) .yes")
	p.waitText(".question:nth-child(1) .answer", "Answered. The run waits for 1 more answer.")
	p.click(".question:nth-child(2) .yes")
	p.waitText(".question:nth-child(2) .answer", "Answered. No program has continued the run yet; it continues when one resumes it.")

	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	p.waitText(".question:nth-child(2) .answer", "Answered. A program continues the run.")
	require.NoError(t, st.Close())
	require.True(t, vote(t.Context(), t, store))
	p.waitText(".question:nth-child(2) .answer", "Answered. A program continues the run.")
}

// TestPageAndCommandSayThatAProgramWaitsForTheAnswer checks that the page and the command say that
// a waiting program has received the answer and continued the run.
func TestPageAndCommandSayThatAProgramWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := newStore(t, dir)
	require.False(t, vote(t.Context(), t, store))
	ctx, cancel := context.WithCancel(t.Context())
	var program sync.WaitGroup
	program.Go(func() {
		for done := false; !done; {
			if err := state.AwaitAnswers(ctx, store, "r"); err != nil {
				assert.NoError(t, err)
				return
			}
			done = vote(ctx, t, store)
		}
	})
	t.Cleanup(program.Wait)
	t.Cleanup(cancel)

	p := open(t, followed(t, dir).url())
	p.wait(`document.querySelectorAll(".question").length === 2`)
	p.settle()
	const first, second = `[data-question="group:people/1?1"]`, `[data-question="group:people/2?1"]` // asked at the same time, in any order
	p.click(first + " .yes")
	p.waitText(first+" .answer", "Answered. ")
	command := built(t, "./cmd/reprise")
	out, err := exec.CommandContext(t.Context(), command, "--dir", dir, "answer", "r", "group:people/2?1", "true").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "question group:people/2?1 of run r is answered; a program has resumed the run\n", string(out))
	program.Wait()
	p.waitText(`[data-run="r"] .chip`, "completed")
	p.waitText(second+" .answer", "No longer asked.")
}

// TestAnAnsweredQuestionIsNotOfferedAgainAfterAReload checks that, after a reload, the page of the
// run says that the answer is waiting for a program to open the run.
func TestAnAnsweredQuestionIsNotOfferedAgainAfterAReload(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	require.False(t, vote(t.Context(), t, store))
	s := followed(t, dir)
	p := open(t, s.url())
	p.wait(`document.querySelectorAll(".question").length === 2`)
	p.settle()
	asked := p.text(".question:nth-child(1) .question-text")
	p.click(".question:nth-child(1) .yes")
	p.waitText(".question:nth-child(1) .answer", "Answered. The run waits for 1 more answer.")
	p.load("about:blank")
	p.load(s.url())
	p.wait(`document.querySelector(".question .yes")`)
	assert.Equal(t, 1, p.count(".question"), "the open one")
	assert.NotEqual(t, asked, p.text(".question .question-text"))

	p.load("about:blank")
	p.load(s.url() + "#run=r")
	p.wait(`document.querySelectorAll("#run-questions .question").length === 2`)
	assert.Equal(t, asked, p.text("#run-questions .question.answered .question-text"))
	p.waitText("#run-questions .question.answered .answer", "Answered. The run waits for 1 more answer.")
	assert.Equal(t, 1, p.count("#run-questions .question .yes"), "only the other question can be answered")
}
