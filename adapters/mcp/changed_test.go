package mcp_test

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A run records the list of tools. When the run is resumed, the server may have other tools.
func TestServerThatHasChangedSaysWhatIsWrongWithACall(t *testing.T) {
	list := func(tool string) map[string]string {
		return map[string]string{"tools/list": `{"tools":[` + tool + `]}`}
	}
	with := func(results map[string]string, more ...string) map[string]string {
		results = maps.Clone(results)
		for i := 0; i < len(more); i += 2 {
			results[more[i]] = more[i+1]
		}
		return results
	}
	before := list(`{"name":"send","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}}}`)
	tasks := with(before,
		"initialize", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"raw","version":"2"}}`,
		"tools/call", `{"resultType":"task","taskId":"7","status":"working"}`)
	for name, c := range map[string]struct {
		after map[string]string
		want  string // the result of the call; empty if it is in doubt
	}{
		"it has no tools":            {list(""), "error: there is no tools/call (code -32601)"},
		"it has renamed the tool":    {list(`{"name":"post","inputSchema":{"type":"object"}}`), "error: there is no tools/call (code -32601)"},
		"the schema is another":      {with(list(`{"name":"send","inputSchema":{"type":"object","required":["whom"]}}`), "tools/call", `{"content":[{"type":"text","text":"whom is missing"}],"isError":true}`), "error: whom is missing"},
		"its list cannot be read":    {map[string]string{"tools/list": `{"tools":7}`, "tools/call": `{"content":[{"type":"text","text":"sent"}]}`}, "sent"},
		"it answers with a task":     {with(tasks, "tasks/get", `{"taskId":"7","status":"completed","result":{"content":[{"type":"text","text":"sent later"}]}}`), "sent later"},
		"its task fails":             {with(tasks, "tasks/get", `{"taskId":"7","status":"failed","error":{"code":1,"message":"no ink"}}`), "error: no ink (code 1)"},
		"it ends while it is polled": {with(tasks, "tasks/get", `"exit"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			_, err := run(t, store, rawOf(t, before, mcp.Options{}), func(ctx context.Context, r actors.Request) (actors.Response, error) {
				state.From(ctx).Interrupt(snapshot.Stop{})
				return actorstest.Calls(actorstest.Call("raw_send", map[string]string{"to": "Ada"}))(ctx, r)
			})
			require.ErrorIs(t, err, core.ErrInterrupted)

			if c.want == "" {
				_, err := run(t, store, rawOf(t, c.after, mcp.Options{}))
				require.ErrorIs(t, err, core.ErrAwaiting)
				require.ErrorIs(t, err, mcp.ErrLost)
				return
			}
			out, err := run(t, store, rawOf(t, c.after, mcp.Options{}), actorstest.Say("done"))
			require.NoError(t, err)
			assert.Equal(t, c.want, out.Messages[2].Text)
		})
	}
}
