package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// serveDeaf is a server that answers calls. If there is a file "deaf" in its directory, the server
// removes the file after it has listed its tools, stops reading at the beginning of the next
// message, and notes "stopped" in the file "notes". It writes its process ID to the file "pids".
func serveDeaf(dir string) {
	note := func(file string, line any) {
		f, err := os.OpenFile(dir+"/"+file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, line)
		}
		if err != nil {
			panic(err)
		}
	}
	note("pids", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			panic(err)
		}
		if request.ID == nil {
			continue
		}
		result, ok := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"heard"}]}`,
		}[request.Method]
		if !ok {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no %s"}}`+"\n", request.ID, request.Method)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", request.ID, result)
		if request.Method == "tools/list" && os.Remove(dir+"/deaf") == nil {
			if n, err := os.Stdin.Read(make([]byte, 1)); n > 0 && err == nil {
				note("notes", "stopped")
				<-time.After(time.Hour)
			}
		}
	}
}

// deafTool returns a tool of a server whose first process stops reading. Its next process keeps
// reading.
func deafTool(t *testing.T, o mcp.Options) (dir string, c *mcp.Client, call func(context.Context, int) (actors.ToolOutput, error)) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/deaf", nil, 0o600))
	c = mcp.Command("s", started(t, "deaf "+dir), o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	tools, err := c.Tools(t.Context())
	require.NoError(t, err)
	set, err := actors.NewToolSet(tools...)
	require.NoError(t, err)
	tool, ok := set.Lookup("s_t")
	require.True(t, ok)
	return dir, c, func(ctx context.Context, size int) (actors.ToolOutput, error) {
		prepared, err := tool.Prepare(ctx, `{"text":"`+strings.Repeat("x", size)+`"}`)
		if err != nil {
			return actors.ToolOutput{}, err
		}
		return prepared(ctx)
	}
}

// hasEnded reports whether the server's first process has ended.
func hasEnded(t *testing.T, dir string) bool {
	t.Helper()
	pid, err := strconv.Atoi(lines(t, dir+"/pids")[0])
	require.NoError(t, err)
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	return errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// The arguments are larger than what the pipe to the server can hold.
func TestACallToAServerThatDoesNotReadTimesOut(t *testing.T) {
	before := runtime.NumGoroutine()
	dir, c, call := deafTool(t, mcp.Options{CallTimeout: 3 * time.Second, InDoubt: core.InDoubtFail})
	_, err := call(t.Context(), 1<<20)
	require.ErrorIs(t, err, core.ErrInDoubt)
	require.ErrorIs(t, err, mcp.ErrLost)
	require.ErrorContains(t, err, "no response within 3s (the server does not read its standard input)")
	require.True(t, hasEnded(t, dir))

	out, err := call(t.Context(), 1<<20)
	for err != nil { // another process is started, which on a slow machine may take longer than the timeout
		require.ErrorContains(t, err, "no response within 3s")
		out, err = call(t.Context(), 1<<20)
	}
	assert.Equal(t, "heard", out.Text)
	require.NoError(t, c.Close())
	for began := time.Now(); runtime.NumGoroutine() > before; <-time.After(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			stacks := make([]byte, 1<<20)
			require.Failf(t, "goroutines are left", "%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestAnInterruptEndsACallToAServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	dir, _, call := deafTool(t, mcp.Options{CallTimeout: core.NoTimeout})
	st := state.New()
	ended := make(chan error, 1)
	go func() {
		_, err := call(st.Context(t.Context()), 1<<20)
		ended <- err
	}()
	awaitLine(t, dir+"/notes", "stopped")
	st.Interrupt(snapshot.Stop{})
	require.ErrorIs(t, <-ended, core.ErrInterrupted)
	require.NoError(t, st.Close())
	require.True(t, hasEnded(t, dir))
}

// Each call fits into the pipe on its own, but all of them together do not.
func TestAServerThatDoesNotReadIsReplacedWhenItsPipeIsFull(t *testing.T) {
	t.Parallel()
	dir, _, call := deafTool(t, mcp.Options{CallTimeout: core.NoTimeout, InDoubt: core.InDoubtFail})
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := call(ctx, 30<<10)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if hasEnded(t, dir) {
			break
		}
	}
	require.True(t, hasEnded(t, dir))
	out, err := call(t.Context(), 30<<10)
	require.NoError(t, err)
	assert.Equal(t, "heard", out.Text)
}

// A call that is still waiting for another one to be written has done nothing, so it is made again.
func TestACallBehindOneThatTheServerDoesNotReadIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir, _, call := deafTool(t, mcp.Options{CallTimeout: 20 * time.Second, InDoubt: core.InDoubtFail, ToolOptions: atOnce})
	var calls sync.WaitGroup
	var blocked error
	calls.Go(func() { _, blocked = call(t.Context(), 1<<20) })
	awaitLine(t, dir+"/notes", "stopped")
	out, err := call(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, "heard", out.Text)
	calls.Wait()
	require.ErrorIs(t, blocked, core.ErrInDoubt)
	require.True(t, hasEnded(t, dir))
}
