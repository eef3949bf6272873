package mcp_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// These are the examples of the SDK to build: servers that our client uses, and clients that use
// our server. With REPRISE_LONG, they are all the examples that talk to another process. The
// following are left out: basic, completion, custom-method, elicitation and middleware, which have
// the server and the client in one process; proxy, which listens on fixed ports; sse, which uses
// the transport of 2024; and those of auth, which need accounts.
var (
	exampleServers = []string{"server/everything"}
	exampleClients = []string{"client/listfeatures"}
	moreServers    = []string{"server/hello", "server/memory", "server/toolschemas", "server/sequentialthinking", "server/custom-transport"}
	moreClients    = []string{"client/loadtest", "http"}
)

// builtExamples builds examples of the SDK in the same way as this test was built, and returns
// their directory.
func builtExamples(t *testing.T, few, more []string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race") // so that cached packages can be used
			}
		}
	}
	if os.Getenv("REPRISE_LONG") != "" {
		few = append(few, more...)
	}
	for _, example := range few {
		args = append(args, path.Join("github.com/modelcontextprotocol/go-sdk/examples", example))
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// An exampleCall is a call to an example's tool, with the expected result.
type exampleCall struct {
	tool, arguments string
	text            string // expected in the result
	err             string // expected in the error
}

func TestToolsOfTheExamplesOfTheSDK(t *testing.T) {
	t.Parallel()
	dir := builtExamples(t, exampleServers, moreServers)
	greet := []exampleCall{{tool: "greet", arguments: `{"name":"Ada"}`, text: "Hi Ada"}}
	for program, c := range map[string]struct {
		args  []string
		calls []exampleCall
	}{
		"everything": {calls: append([]exampleCall{
			{tool: "greet (structured)", arguments: `{"name":"Ada"}`, text: `{"message":"Hi Ada"}`},
			{tool: "greet (content with ResourceLink)", arguments: `{"name":"Ada"}`, text: "greeting: data:text/plain,Hi%20Ada"},
			{tool: "log", arguments: `{}`, text: "(no output)"},
			{tool: "sample", arguments: `{}`, err: "sampling failed"},
			{tool: "elicit (form)", arguments: `{}`, err: "eliciting failed"},
			{tool: "roots", arguments: `{}`, err: "listing roots failed"},
		}, greet...)},
		"hello":            {calls: greet},
		"custom-transport": {calls: greet},
		"memory": {args: []string{"-memory", filepath.Join(t.TempDir(), "knowledge")}, calls: []exampleCall{
			{tool: "create_entities", arguments: `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`, text: "Ada"},
			{tool: "search_nodes", arguments: `{"query":"Ada"}`, text: `"observations":["counts"]`},
			{tool: "add_observations", arguments: `{"observations":[{"entityName":"nobody","contents":["x"],"observations":[]}]}`, err: "nobody"},
		}},
		"toolschemas": {calls: []exampleCall{
			{tool: "simple greeting", arguments: `{"name":"Ada"}`, text: "Hi Ada"},
			{tool: "manual greeting", arguments: `{"name":"Ada"}`, text: "Hi Ada"},
			{tool: "unvalidated greeting", arguments: `{"user":"Ada"}`, text: "Hi Ada"},
			{tool: "customized greeting 2", arguments: `{"name":"Ada"}`, text: "Hi Ada"},
		}},
		"sequentialthinking": {calls: []exampleCall{
			{tool: "start_thinking", arguments: `{"problem":"why","sessionId":"s"}`, text: "Started thinking session 's'"},
			{tool: "continue_thinking", arguments: `{"sessionId":"s","thought":"because"}`, text: "because"},
			{tool: "review_thinking", arguments: `{"sessionId":"s"}`, text: "because"},
			{tool: "review_thinking", arguments: `{"sessionId":"none"}`, err: "not found"},
		}},
	} {
		program = filepath.Join(dir, program)
		if _, err := os.Stat(program); err != nil {
			continue // the example was not built
		}
		t.Run(filepath.Base(program), func(t *testing.T) {
			client := mcp.Command("sdk", exec.Command(program, c.args...), mcp.Options{})
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			callExamples(t, client, c.calls)
		})
	}
}

// callExamples makes the calls, which name the tools as the server does.
func callExamples(t *testing.T, c *mcp.Client, calls []exampleCall) {
	t.Helper()
	listed, err := c.List(t.Context())
	require.NoError(t, err)
	names := make(map[string]string)
	for _, l := range listed {
		assert.Empty(t, l.LeftOut, l.ServerName)
		names[l.ServerName] = l.Name
	}
	for _, made := range calls {
		require.Contains(t, names, made.tool)
		out, err := call(t, t.Context(), c, names[made.tool], made.arguments)
		if made.err != "" {
			require.ErrorContains(t, err, made.err, made.tool)
			require.ErrorIs(t, err, core.ErrPermanent, made.tool)
			continue
		}
		require.NoError(t, err, made.tool)
		assert.Contains(t, out.Text, made.text, made.tool)
	}
}

// The example is a proxy in front of two servers without sessions: each request may go
// to either server.
func TestAnExampleOfTheSDKOverHTTPWithoutSessions(t *testing.T) {
	if os.Getenv("REPRISE_LONG") == "" {
		t.Skip("skipped: set REPRISE_LONG=1")
	}
	t.Parallel()
	dir := builtExamples(t, []string{"server/distributed"}, nil)
	free, err := ports.Free(3)
	require.NoError(t, err)
	address := fmt.Sprint("127.0.0.1:", free[0])
	cmd := exec.Command(filepath.Join(dir, "distributed"), "-http", address, "-child_ports", fmt.Sprint(free[1], ",", free[2]))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the exit status says how the child processes ended
	})
	c := mcp.HTTP("sdk", "http://"+address, mcp.Options{Trust: mcp.TrustHints, ToolOptions: atOnce})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Eventually(t, func() bool {
		_, err := c.List(t.Context())
		return err == nil
	}, 20*time.Second, 20*time.Millisecond)
	for range 4 {
		callExamples(t, c, []exampleCall{{tool: "inc", arguments: `{}`, text: `{"Count":`}})
	}
}

// The clients among the SDK's examples use our server.
func TestExampleClientsOfTheSDKUseThePrograms(t *testing.T) {
	t.Parallel()
	dir := builtExamples(t, exampleClients, moreClients)
	cityTime := func(r *runner.Runner) {
		runner.Register(r, decorators.Tool("cityTime", "The time in a city.", func(_ context.Context, in struct {
			City string `json:"city"`
		},
		) (string, error) {
			return "It is noon in " + in.City, nil
		}))
	}
	address, _, _ := served(t, memstore.New(), mcp.ServerOptions{}, cityTime)
	at, err := url.Parse(address)
	require.NoError(t, err)
	for program, c := range map[string]struct {
		args []string
		want []string
	}{
		"listfeatures": {[]string{"-http", address}, []string{"tools:", "greet", "cityTime", "run_wait"}},
		"loadtest":     {[]string{"-tool", "greet", "-args", `{"name":"Ada"}`, "-duration", "1s", "-workers", "2", "-timeout", "10s", address}, []string{"success: ", "failure: 0 "}},
		"http":         {[]string{"-host", at.Hostname(), "-port", at.Port(), "client"}, []string{"It is noon in nyc", "It is noon in boston", "Client completed successfully"}},
	} {
		program = filepath.Join(dir, program)
		if _, err := os.Stat(program); err != nil {
			continue // the example was not built
		}
		out, err := exec.Command(program, c.args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, want := range c.want {
			assert.Contains(t, string(out), want)
		}
	}
	program := started(t, "main "+t.TempDir()) // over its standard input and output
	list := exec.Command(filepath.Join(dir, "listfeatures"), program.Path)
	list.Env = program.Env
	out, err := list.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "travel")
}
