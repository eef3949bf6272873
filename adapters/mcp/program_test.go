package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// programMain is the main function of a process whose run calls a tool that the server answers with
// a task. The process is killed and started again. The argument contains the directory and the
// server's URL.
func programMain(argument string) {
	dir, url, _ := strings.Cut(argument, " ")
	if err := runProgram(context.Background(), dir, url); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func runProgram(ctx context.Context, dir, url string) error {
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	st, err := state.Open(ctx, store, "r", state.WithPublisher(telling{}))
	if err != nil {
		return err
	}
	c := mcp.HTTP("far", url, mcp.Options{})
	defer func() { _ = c.Close() }()
	llm := decorators.LLM("m", func(_ context.Context, r actors.Request) (actors.Response, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == actors.RoleTool {
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: "the server says: " + last.Text}, FinishReason: "stop"}, nil
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: "far_work", Arguments: "{}"}}}, FinishReason: "tool_calls"}, nil
	})
	out, err := actors.NewAgent("a", llm, mcp.WithServers(c)).Call(st.Context(ctx), actors.Prompt{Text: "go"})
	fmt.Println(out.Text)
	if err != nil {
		return err
	}
	return st.Close()
}

// telling prints a line when the task has begun.
type telling struct{}

func (telling) Publish(r record.Record) {
	if r.Name == "begin" && r.Status == record.StatusCompleted {
		fmt.Println("begun")
	}
}

// A process is killed while it polls a task. The next process polls the same task instead of
// beginning another.
func TestAProcessThatIsKilledInATaskPollsItAgain(t *testing.T) {
	store, release := memstore.New(), make(chan struct{})
	url, _, _ := served(t, store, mcp.ServerOptions{PollInterval: 100 * 1e6}, func(r *runner.Runner) {
		runner.Register(r, decorators.Tool("work", "Works for long.", func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case <-release:
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}))
	})
	dir := t.TempDir()
	first := started(t, "program "+dir+" "+url)
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	first.Stderr = os.Stderr
	require.NoError(t, first.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "begun", lines.Text())
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())

	close(release)
	again, err := started(t, "program "+dir+" "+url).CombinedOutput()
	require.NoError(t, err, "%s", again)
	assert.Equal(t, "the server says: done\n", string(again))
	page, err := store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 1, "the task was begun once")
}
