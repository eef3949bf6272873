package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestMailIsSentWhenItsServiceIsBack(t *testing.T) {
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(time.Minute, func() { _ = os.WriteFile("mail-is-up", nil, 0o644) })
		llm := actorstest.NewScript(t,
			actorstest.Calls(actorstest.Call("reserve", Table{Guests: 4, At: "19:30"})),
			actorstest.Calls(actorstest.Call("send", Mail{To: "ann@example.com"})),
			actorstest.Say("Done."),
		)
		st := state.New()
		answer, err := host(llm.LLM("model")).Call(st.Context(t.Context()), actors.Ask("A table for 4, please."))
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Equal(t, "Done.", answer.Text)
		assert.GreaterOrEqual(t, st.Report().Waited, 50*time.Second) // took no time
	})
}

func TestStoppedRunReservesOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		dine := func(ctx context.Context) (string, error) {
			st, err := state.Open(ctx, store, "dinner")
			require.NoError(t, err)
			answer, err := host(model()).Call(st.Context(ctx), actors.Ask("A table for 4, please."))
			return answer.Text, errors.Join(err, st.Close())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := dine(ctx) // stops while it waits for the mail service
		require.ErrorIs(t, err, core.ErrInterrupted)

		require.NoError(t, os.WriteFile("mail-is-up", nil, 0o644))
		answer, err := dine(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "Your table is reserved, and Ann knows.", answer)
		reservations, err := os.ReadFile("reservations.txt")
		require.NoError(t, err)
		assert.Equal(t, "table for 4 at 19:30\n", string(reservations))
	})
}

func TestReservesOnceWhereverTheProcessEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("mail-is-up", nil, 0o644))
	dine := func(store snapshot.Store) error {
		st, err := state.Open(t.Context(), store, "dinner")
		require.NoError(t, err)
		_, err = host(model()).Call(st.Context(t.Context()), actors.Ask("A table for 4, please."))
		return errors.Join(err, st.Close())
	}
	store := memstore.New()
	require.NoError(t, dine(store))
	for records, left := range actorstest.AfterEachRecord(t, store, "dinner") {
		want := "table for 4 at 19:30\n"
		if slices.Contains(actorstest.Endings(records), "host/reserve completed") {
			want = "" // reserved before the process ended
		}
		require.NoError(t, os.WriteFile("reservations.txt", nil, 0o644))
		require.NoError(t, dine(left))
		reservations, err := os.ReadFile("reservations.txt")
		require.NoError(t, err)
		assert.Equal(t, want, string(reservations), "after record %d", len(records))
	}
}

func TestRateLimitIsWaitedOut(t *testing.T) {
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		service := openaitest.NewLocal(t,
			openaitest.RateLimited(time.Minute),
			openaitest.ToolCalls(openaitest.Call("reserve", Table{Guests: 4, At: "19:30"})).
				Expect(openaitest.HasTool("send")),
			openaitest.Text("Done.").Expect(openaitest.HasToolResult("reserve", "reserved")),
		)
		llm := openai.New("model", openai.WithBaseURL(service.URL()), openai.WithHTTPClient(service.Client()))
		st := state.New()
		_, err := host(llm).Call(st.Context(t.Context()), actors.Ask("A table for 4, please."))
		require.NoError(t, errors.Join(err, st.Close()))
		records, err := st.Records(t.Context())
		require.NoError(t, err)
		actorstest.CheckCalls(t, records,
			"host completed",
			"host/model completed after 2 attempts",
			"host/reserve completed",
			"host/model#2 completed",
		)
	})
}

func TestChangedAgentFitsStoredRun(t *testing.T) {
	data, err := os.ReadFile("testdata/dinner-1.run")
	require.NoError(t, err)
	run, err := snapshot.Decode(data)
	require.NoError(t, err)
	store := memstore.New()
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	differences, err := state.Validate(t.Context(), store, run.RunID, func(ctx context.Context) error {
		_, err := host(model()).Call(ctx, actors.Ask("A table for 4 at 19:30, please, and tell ann@example.com."))
		return err
	})
	require.NoError(t, err)
	require.Empty(t, differences)
}

func TestChangedAgentFitsStoredTurn(t *testing.T) {
	store := memstore.New()
	for _, turn := range []string{"ann-0001", "ann-0002"} {
		data, err := os.ReadFile("testdata/" + turn + ".run")
		require.NoError(t, err)
		run, err := snapshot.Decode(data)
		require.NoError(t, err)
		_, err = store.Create(t.Context(), run)
		require.NoError(t, err)
	}
	program := conversation.NewProgram(store, host(model()))
	differences, err := state.Validate(t.Context(), store, "ann-0002", func(ctx context.Context) error {
		_, err := program.Call(ctx, conversation.Input(actors.Ask("And one for Bob, please.")))
		return err
	})
	require.NoError(t, err)
	require.Empty(t, differences)
}

// The program as the tutorial runs it: killed while it waits, and run again.
func TestKilledProgramReservesOnce(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "dinner")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	command := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "OPENAI_API_KEY=")
		return cmd
	}
	first := command()
	stdout, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), "Retrying (attempt 2/20)") {
			require.NoError(t, first.Process.Kill())
		}
	}
	require.Error(t, first.Wait())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mail-is-up"), nil, 0o644))
	out, err = command().CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "↻ 3 calls [RECOVERED from history]")
	assert.True(t, strings.HasSuffix(string(out), "\nYour table is reserved, and Ann knows.\n"), string(out))
	reservations, err := os.ReadFile(filepath.Join(dir, "reservations.txt"))
	require.NoError(t, err)
	assert.Equal(t, "table for 4 at 19:30\n", string(reservations))
}

// TestTutorialShowsThisProgram compares the fragments of the pages with the files here.
func TestTutorialShowsThisProgram(t *testing.T) {
	var sources string
	for _, name := range []string{"main.go", "model.go", "main_test.go", "questions_test.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		sources += string(source)
	}
	for _, page := range []string{"first-agent.md", "testing.md", "questions.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		require.NoError(t, err)
		fragments := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		assert.NotEmpty(t, fragments, page)
		for _, fragment := range fragments {
			assert.Contains(t, sources, fragment[1], page)
		}
	}
}
