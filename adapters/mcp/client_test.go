package mcp_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// call calls a tool outside a run.
func call(t *testing.T, ctx context.Context, c *mcp.Client, name, arguments string) (actors.ToolOutput, error) {
	t.Helper()
	tools, err := c.Tools(t.Context())
	require.NoError(t, err)
	set, err := actors.NewToolSet(tools...)
	require.NoError(t, err)
	tool, ok := set.Lookup(name)
	require.True(t, ok, "there is no tool %s", name)
	prepared, err := tool.Prepare(ctx, arguments)
	require.NoError(t, err)
	return prepared(ctx)
}

// run runs an agent with the client's tools in a stored run.
func run(t *testing.T, store snapshot.Store, c *mcp.Client, steps ...actorstest.Step) (actors.Answer, error) {
	t.Helper()
	agent := actors.NewAgent("a", actorstest.NewScript(t, steps...).LLM("m"), mcp.WithServers(c))
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	out, err := agent.Call(st.Context(t.Context()), actors.Prompt{Text: "go"})
	require.NoError(t, st.Close())
	return out, err
}

func send(to string) actorstest.Step {
	return actorstest.Calls(actorstest.Call("office_send", map[string]string{"to": to}))
}

func TestToolsOfAServerAreToolsOfAgents(t *testing.T) {
	dir := t.TempDir()
	out, err := run(t, memstore.New(), officeOf(t, dir, mcp.Options{}), send("Ada"), actorstest.Say("done"))
	require.NoError(t, err)
	assert.Equal(t, "done", out.Text)
	assert.Equal(t, "sent to Ada", out.Messages[2].Text)
	assert.Equal(t, []string{"Ada"}, lines(t, dir+"/sent"))
}

func TestAnErrorOfAToolGoesToTheModel(t *testing.T) {
	out, err := run(t, memstore.New(), officeOf(t, t.TempDir(), mcp.Options{}),
		actorstest.Calls(actorstest.Call("office_refuse", map[string]string{"to": "x"})), actorstest.Say("I see"))
	require.NoError(t, err)
	assert.True(t, out.Messages[2].IsError)
	assert.Equal(t, "error: the address is wrong", out.Messages[2].Text)
}

// The worst case: the server dies during a call that must not be made twice.
func TestAWriteDuringWhichTheServerDiesIsMadeOnceAndTheRunAsks(t *testing.T) {
	dir, store := t.TempDir(), memstore.New()
	require.NoError(t, os.WriteFile(dir+"/dies after", nil, 0o600))
	c := officeOf(t, dir, mcp.Options{})
	_, err := run(t, store, c, send("Ada"))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.ErrorContains(t, err, "exit status 3: out of ink")
	assert.Equal(t, []string{"Ada"}, lines(t, dir+"/sent"))

	open, err := state.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	require.Len(t, open, 1)
	assert.Equal(t, "a/office_send?in-doubt1", open[0].ID)
	require.NoError(t, state.Answer(t.Context(), store, "r", open[0].ID, "", state.InDoubtCompleted(actors.ToolOutput{Text: "it is in the outbox"})))
	out, err := run(t, store, c, actorstest.Say("done"))
	require.NoError(t, err)
	assert.Equal(t, "it is in the outbox", out.Messages[2].Text)
	assert.Equal(t, []string{"Ada"}, lines(t, dir+"/sent"))
}

// On a busy machine, the standard output of a process ends well before the process does.
func TestAServerThatDiesSlowlyIsExplained(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/dies after", nil, 0o600))
	require.NoError(t, os.WriteFile(dir+"/slowly", nil, 0o600))
	_, err := call(t, t.Context(), officeOf(t, dir, mcp.Options{InDoubt: core.InDoubtFail}), "office_send", `{"to":"Ada"}`)
	require.ErrorContains(t, err, "exit status 3: out of ink")
}

func TestAWriteThatMustNotAskFails(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/dies before", nil, 0o600))
	_, err := call(t, t.Context(), officeOf(t, dir, mcp.Options{InDoubt: core.InDoubtFail}), "office_send", `{"to":"Ada"}`)
	require.ErrorIs(t, err, core.ErrInDoubt)
	require.ErrorIs(t, err, mcp.ErrLost)
	assert.Empty(t, lines(t, dir+"/sent"))
}

func TestAReadDuringWhichTheServerDiesIsMadeAgainByANewServer(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/dies after", nil, 0o600))
	out, err := call(t, t.Context(), officeOf(t, dir, mcp.Options{}), "office_read", `{"to":"Ada"}`)
	require.NoError(t, err)
	assert.Equal(t, "a letter to Ada", out.Text)
	assert.Equal(t, []string{"Ada", "Ada"}, lines(t, dir+"/read"))
}

// The hints of an untrusted server are ignored.
func TestAReadOfAServerThatIsNotTrustedIsInDoubt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/dies after", nil, 0o600))
	_, err := call(t, t.Context(), officeOf(t, dir, mcp.Options{Trust: mcp.TrustNothing}), "office_read", `{"to":"Ada"}`)
	require.ErrorIs(t, err, core.ErrInDoubt)
	assert.Len(t, lines(t, dir+"/read"), 1)
}

func TestARunThatIsResumedNeedsNoServerForTheList(t *testing.T) {
	dir, store := t.TempDir(), memstore.New()
	require.NoError(t, os.WriteFile(dir+"/dies after", nil, 0o600))
	_, err := run(t, store, officeOf(t, dir, mcp.Options{}), send("Ada"))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, state.Answer(t.Context(), store, "r", "a/office_send?in-doubt1", "", state.InDoubtFailed("the server has ended")))
	gone := mcp.Command("office", exec.Command("/nonexistent/server"), mcp.Options{})
	script := actorstest.NewScript(t, actorstest.Say("done"))
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	_, err = actors.NewAgent("a", script.LLM("m"), mcp.WithServers(gone)).Call(st.Context(t.Context()), actors.Prompt{Text: "go"})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Len(t, script.Requests()[0].Tools, 6)
}

func TestAServerThatCannotBeStartedIsNamed(t *testing.T) {
	_, err := mcp.Command("gone", exec.Command("/nonexistent/server"), mcp.Options{}).List(t.Context())
	require.ErrorContains(t, err, "mcp: gone: start the server: fork/exec /nonexistent/server: no such file or directory")
	_, err = mcp.Command("gone", exec.Command("no-such-command"), mcp.Options{}).List(t.Context())
	require.ErrorContains(t, err, `mcp: gone: start the server: exec: "no-such-command": executable file not found`)
	_, err = mcp.Command("talks", exec.Command("sh", "-c", "echo hello; cat > /dev/null"), mcp.Options{}).List(t.Context())
	require.ErrorContains(t, err, "the server writes something other than messages to its standard output")
	_, err = mcp.Command("silent", exec.Command("sleep", "60"), mcp.Options{DialTimeout: 50 * time.Millisecond}).List(t.Context())
	require.ErrorContains(t, err, "mcp: silent: no answer within 50ms")
}

func TestProgressOfAServerIsShown(t *testing.T) {
	var mu sync.Mutex
	var texts []string
	ctx := live.Watch(t.Context(), func(d live.Delta) {
		mu.Lock()
		defer mu.Unlock()
		if d.Part == live.PartProgress {
			texts = append(texts, d.Text)
		}
	})
	_, err := call(t, ctx, officeOf(t, t.TempDir(), mcp.Options{}), "office_count", `{}`)
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{"1/3", "2/3", "3/3"}, texts)
}

func TestACancelledCallIsCancelledAtTheServer(t *testing.T) {
	dir := t.TempDir()
	c := officeOf(t, dir, mcp.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if data, err := os.ReadFile(dir + "/waits"); err == nil && strings.Contains(string(data), "begun") {
				cancel()
			}
		}
	}()
	_, err := call(t, ctx, c, "office_wait", `{}`)
	require.ErrorIs(t, err, context.Canceled)
	awaitLine(t, dir+"/waits", "cancelled")
	_, err = call(t, t.Context(), c, "office_read", `{"to":"Ada"}`)
	require.NoError(t, err, "the session must still work")
}

// awaitLine waits until a file contains the given line.
func awaitLine(t *testing.T, file, line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), line)
	}, 10*time.Second, 5*time.Millisecond)
}

func TestAClosedClientSaysSo(t *testing.T) {
	c := officeOf(t, t.TempDir(), mcp.Options{})
	_, err := c.List(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.List(t.Context())
	require.ErrorIs(t, err, mcp.ErrClosed)
}

func TestResultsOfAServerAreReadAsTheyAre(t *testing.T) {
	const one = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	const reader = `{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
	for name, c := range map[string]struct {
		result string
		want   actors.ToolOutput
		err    string
	}{
		"text":             {result: `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, want: actors.ToolOutput{Text: "a\nb"}},
		"image":            {result: `{"content":[{"type":"image","mimeType":"image/png","data":"QUI="}]}`, want: actors.ToolOutput{Parts: []actors.Part{actors.Image("image/png", []byte("AB"))}}},
		"audio":            {result: `{"content":[{"type":"audio","mimeType":"audio/wav","data":"QUI="}]}`, want: actors.ToolOutput{Parts: []actors.Part{{MIME: "audio/wav", Data: []byte("AB")}}}},
		"link":             {result: `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`, want: actors.ToolOutput{Text: "a: file:///a"}},
		"embedded text":    {result: `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"A"}}]}`, want: actors.ToolOutput{Text: "A"}},
		"embedded blob":    {result: `{"content":[{"type":"resource","resource":{"uri":"file:///a.pdf","mimeType":"application/pdf","blob":"QUI="}}]}`, want: actors.ToolOutput{Parts: []actors.Part{{MIME: "application/pdf", Data: []byte("AB"), Name: "a.pdf"}}}},
		"structured":       {result: `{"content":[],"structuredContent":{"id":9007199254740993}}`, want: actors.ToolOutput{Text: `{"id":9007199254740993}`}},
		"structured array": {result: `{"structuredContent":[1,2]}`, want: actors.ToolOutput{Text: `[1,2]`}},
		"both":             {result: `{"content":[{"type":"text","text":"{\"id\": 1}"}],"structuredContent":{"id":1}}`, want: actors.ToolOutput{Text: `{"id": 1}`}},
		"other words":      {result: `{"content":[{"type":"text","text":"found one"}],"structuredContent":{"id":1}}`, want: actors.ToolOutput{Text: "found one\n{\"id\":1}"}},
		"for users":        {result: `{"content":[{"type":"text","text":"hidden","annotations":{"audience":["user"]}},{"type":"text","text":"seen"}]}`, want: actors.ToolOutput{Text: "seen"}},
		"nothing":          {result: `{"content":[]}`, want: actors.ToolOutput{Text: "(no output)"}},
		"a failure":        {result: `{"content":[{"type":"text","text":"it broke"}],"isError":true}`, err: "it broke"},
		"a silent failure": {result: `{"content":[],"isError":true}`, err: "the tool failed without a message"},

		"content of a wrong type":    {result: `{"content":"text"}`, err: "invalid tool result: json: cannot unmarshal string"},
		"a number":                   {result: `42`, err: "invalid tool result"},
		"a text of a wrong type":     {result: `{"content":[{"type":"text","text":7}]}`, err: "invalid tool result"},
		"an unknown part":            {result: `{"content":[{"type":"smell"}]}`, err: `content 1: unknown type "smell", want text, image, audio, resource or resource_link`},
		"data that is not base64":    {result: `{"content":[{"type":"image","mimeType":"image/png","data":"%"}]}`, err: "illegal base64"},
		"an image without a type":    {result: `{"content":[{"type":"image","data":"QUI="}]}`, err: `content 1: the type of the image is ""`},
		"an empty image":             {result: `{"content":[{"type":"image","mimeType":"image/png"}]}`, err: "content 1: the image is empty"},
		"a resource without content": {result: `{"content":[{"type":"resource"}]}`, err: "content 1: the resource is missing"},
		"a task nobody asked for":    {result: `{"resultType":"task","taskId":"1","status":"working"}`, err: "the server answered with a task, but did not announce tasks"},
		"input":                      {result: `{"resultType":"input_required","inputRequests":{}}`, err: "the server requires user input"},
		"an unknown result":          {result: `{"resultType":"dream"}`, err: `resultType is "dream"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := call(t, t.Context(), rawOf(t, map[string]string{"tools/list": one, "tools/call": c.result}, mcp.Options{}), "raw_t", `{}`)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				if strings.Contains(err.Error(), "invalid tool result") { // the tool may have taken effect
					require.ErrorIs(t, err, core.ErrInDoubt)
					_, err = call(t, t.Context(), rawOf(t, map[string]string{"tools/list": reader, "tools/call": c.result}, mcp.Options{}), "raw_t", `{}`)
					require.ErrorContains(t, err, c.err)
				}
				require.ErrorIs(t, err, core.ErrPermanent)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, out)
		})
	}
}

// The tool has run, but nobody knows what it returned.
func TestRunAsksAboutACallWhoseResultIsInvalid(t *testing.T) {
	store := memstore.New()
	c := rawOf(t, map[string]string{"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, "tools/call": `{"content":[{"type":"smell"}]}`}, mcp.Options{})
	model := []actorstest.Step{actorstest.Calls(actorstest.Call("raw_t", map[string]string{}))}
	_, err := run(t, store, c, model...)
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err := state.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	require.Len(t, open, 1)
	assert.Contains(t, open[0].InDoubt.Cause, `unknown type "smell"`)
	require.NoError(t, state.Answer(t.Context(), store, "r", open[0].ID, "", state.InDoubtCompleted(actors.ToolOutput{Text: "roses"})))
	out, err := run(t, store, c, actorstest.Say("done"))
	require.NoError(t, err)
	assert.Equal(t, "roses", out.Messages[2].Text)
}

func TestInvalidListIsRefused(t *testing.T) {
	for list, want := range map[string]string{
		`{"tools":"none"}`: "mcp: raw: the list of tools is invalid: json: cannot unmarshal string",
		`{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]}`: `mcp: raw lists two tools with the name "a"`,
		`{"tools":[{"inputSchema":{"type":"object"}}]}`:                                                         "mcp: raw: tool 1 has no name",
		`{"tools":[{"name":"a"}],"nextCursor":"again"}`:                                                         "the list of tools does not end",
	} {
		_, err := rawOf(t, map[string]string{"tools/list": list}, mcp.Options{}).Tools(t.Context())
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, core.ErrPermanent)
	}
}

func TestAToolWhoseSchemaCannotBeUsedDoesNotCostTheOthers(t *testing.T) {
	const list = `{"tools":[
		{"name":"good","inputSchema":{"type":"object","properties":{"b":{"type":"number","maximum":1e3},"a":{}}}},
		{"name":"none"},
		{"name":"no type","inputSchema":{"properties":{"a":{"type":"string"}}}},
		{"name":"choice","inputSchema":{"anyOf":[{"type":"object"}]}},
		{"name":"old","inputSchema":{"type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}},
		{"name":"text","inputSchema":"nothing"},
		{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`
	listed, err := rawOf(t, map[string]string{"tools/list": list}, mcp.Options{}).List(t.Context())
	require.NoError(t, err)
	left := make(map[string]string)
	for _, l := range listed {
		left[l.ServerName] = l.LeftOut
	}
	assert.Empty(t, left["good"]+left["none"]+left["no type"])
	assert.Contains(t, left["choice"], `the root has type ""`)
	assert.Contains(t, left["old"], "cannot unmarshal bool")
	assert.Contains(t, left["text"], "want a JSON object")
	assert.Contains(t, left["task"], "2025-11-25")
	assert.JSONEq(t, `{"type":"object","properties":{"a":{"type":"string"}}}`, listed[2].Schema)
	assert.Equal(t, `{"type":"object","properties":{"b":{"type":"number","maximum":1e3},"a":{}}}`, listed[0].Schema, "exactly as the server has sent it")

	tools, err := rawOf(t, map[string]string{"tools/list": list}, mcp.Options{OnSchema: mcp.SchemaUnchecked, Only: []string{"choice", "good"}}).Tools(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 2)
	assert.JSONEq(t, `{"anyOf":[{"type":"object"}]}`, string(tools[1].Describe().Parameters))
	_, err = tools[1].Prepare(t.Context(), `[1]`)
	require.Error(t, err)

	_, err = rawOf(t, map[string]string{"tools/list": list}, mcp.Options{OnSchema: mcp.SchemaFail}).Tools(t.Context())
	require.ErrorContains(t, err, `tool "choice"`)
	require.ErrorContains(t, err, `tool "old"`)
}

func TestAnErrorOfTheProtocolGoesToTheModel(t *testing.T) {
	c := rawOf(t, map[string]string{"tools/list": `{"tools":[{"name":"t"}]}`}, mcp.Options{})
	_, err := call(t, t.Context(), c, "raw_t", `{}`)
	var failed *mcp.ServerError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, &mcp.ServerError{Code: -32601, Message: "there is no tools/call"}, failed)
	assert.False(t, errors.Is(err, mcp.ErrLost))
}

func TestAClientIsValid(t *testing.T) {
	assert.PanicsWithValue(t, `mcp: client name is "a b"; want 1 to 40 letters, digits, underscores and dashes`, func() { mcp.HTTP("a b", "http://x", mcp.Options{}) })
	assert.PanicsWithValue(t, `mcp: Command "a": cmd is nil`, func() { mcp.Command("a", nil, mcp.Options{}) })
	assert.PanicsWithValue(t, "mcp: a: Options.CallTimeout is -5ns; want more than 0, or core.NoTimeout", func() { mcp.HTTP("a", "http://x", mcp.Options{CallTimeout: -5}) })
	assert.PanicsWithValue(t, "mcp: WithServers: client 1 is nil", func() { mcp.WithServers(nil) })
	a := mcp.HTTP("a", "http://x", mcp.Options{})
	assert.PanicsWithValue(t, `mcp: WithServers: two clients are named "a"; a model could not tell their tools apart`, func() { mcp.WithServers(a, a) })
}

// A call that was sent before it timed out may have taken effect.
func TestACallThatTimesOutIsInDoubt(t *testing.T) {
	dir := t.TempDir()
	c := officeOf(t, dir, mcp.Options{CallTimeout: 2 * time.Second})
	_, err := call(t, t.Context(), c, "office_wait", `{}`)
	require.ErrorIs(t, err, core.ErrInDoubt)
	require.ErrorContains(t, err, "no response within 2s")
	awaitLine(t, dir+"/waits", "cancelled")
}
