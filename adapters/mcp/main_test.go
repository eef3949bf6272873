package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/runner"
)

// The test binary also acts as each of the servers that the tests start. serverEnv selects which
// one.
const serverEnv = "REPRISE_MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	switch kind, argument, _ := strings.Cut(os.Getenv(serverEnv), " "); kind {
	case "":
		os.Exit(m.Run())
	case "office":
		if err := office(argument).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "raw":
		serveRaw(argument)
	case "deaf":
		serveDeaf(argument)
	case "main":
		os.Args = []string{"programs", "-mcp", "-dir", argument}
		mcp.Main(func(r *runner.Runner) error {
			fmt.Println("a line that is not a message")
			return register(r)
		})
	case "program":
		programMain(argument)
	case "suite":
		if err := suiteMain(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// started returns a command that starts this test binary as a server.
func started(t *testing.T, server string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serverEnv+"="+server)
	return cmd
}

// officeOf returns a client of an office server that keeps its files in dir.
func officeOf(t *testing.T, dir string, o mcp.Options) *mcp.Client {
	t.Helper()
	c := mcp.Command("office", started(t, "office "+dir), o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// lines returns the lines of one of the office's files, or none if the file does not exist.
func lines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Fields(string(data))
}

type letter struct {
	To string `json:"to"`
}

// office is a server that writes letters and reads them.
func office(dir string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "office", Version: "1"}, nil)
	note := func(file, word string) {
		f, err := os.OpenFile(dir+"/"+file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, word)
		}
		if err != nil {
			panic(err)
		}
	}
	// dies ends the process once if there is a file that asks for this.
	dies := func(file string) {
		if os.Remove(dir+"/"+file) == nil {
			fmt.Fprintln(os.Stderr, "out of ink")
			if os.Remove(dir+"/slowly") == nil {
				_ = os.Stdout.Close()
				<-time.After(300 * time.Millisecond)
			}
			os.Exit(3)
		}
	}
	text := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "send", Description: "Sends a letter."}, func(ctx context.Context, _ *sdk.CallToolRequest, in letter) (*sdk.CallToolResult, any, error) {
		dies("dies before")
		note("sent", in.To)
		dies("dies after")
		return text("sent to " + in.To), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "read", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(ctx context.Context, _ *sdk.CallToolRequest, in letter) (*sdk.CallToolResult, any, error) {
		note("read", in.To)
		dies("dies after")
		return text("a letter to " + in.To), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "refuse"}, func(context.Context, *sdk.CallToolRequest, letter) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("the address is wrong")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "count"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3})
			}
		}
		return text("counted"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		note("waits", "begun")
		<-ctx.Done()
		note("waits", "cancelled")
		return nil, nil, ctx.Err()
	})
	type size struct {
		Bytes int `json:"bytes"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "big", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *sdk.CallToolRequest, in size) (*sdk.CallToolResult, any, error) {
		return text(strings.Repeat("x", in.Bytes)), nil, nil
	})
	return s
}

// serveRaw answers each method with a raw result from a file that contains a JSON object of results
// by method. If the result is "exit", the process exits instead.
func serveRaw(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var results map[string]json.RawMessage
	if err := json.Unmarshal(data, &results); err != nil {
		panic(err)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			panic(err)
		}
		switch result, ok := results[request.Method]; {
		case request.ID == nil:
		case string(result) == `"exit"`:
			os.Exit(3)
		case ok:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", request.ID, result)
		case request.Method == "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`+"\n", request.ID)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no %s"}}`+"\n", request.ID, request.Method)
		}
	}
}

// rawOf returns a client of a server that answers with the given raw results.
func rawOf(t *testing.T, results map[string]string, o mcp.Options) *mcp.Client {
	t.Helper()
	raw := make(map[string]json.RawMessage)
	for method, result := range results {
		raw[method] = json.RawMessage(result)
	}
	data, err := json.Marshal(raw)
	require.NoError(t, err)
	file := t.TempDir() + "/results"
	require.NoError(t, os.WriteFile(file, data, 0o600))
	c := mcp.Command("raw", started(t, "raw "+file), o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
