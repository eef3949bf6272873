package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// flaky is an office served over HTTP whose tool calls can be made to fail.
type flaky struct {
	spoil  atomic.Pointer[func(w http.ResponseWriter, r *http.Request, office http.Handler)] // replaces the next tool call
	office atomic.Pointer[http.Handler]
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(`"tools/call"`)) {
		if spoil := f.spoil.Swap(nil); spoil != nil {
			(*spoil)(w, r, *f.office.Load())
			return
		}
	}
	(*f.office.Load()).ServeHTTP(w, r)
}

func (f *flaky) restart(dir string, stateless bool) {
	s := office(dir)
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	f.office.Store(&h)
}

func (f *flaky) spoilNext(how func(w http.ResponseWriter, r *http.Request, office http.Handler)) {
	f.spoil.Store(&how)
}

// atOnce returns options that retry without waiting.
func atOnce(mcp.ListedTool) []actors.Option {
	return []actors.Option{actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})}
}

func flakyOffice(t *testing.T, stateless bool) (dir string, f *flaky, c *mcp.Client, server *httptest.Server) {
	t.Helper()
	dir, f = t.TempDir(), new(flaky)
	f.restart(dir, stateless)
	server = httptest.NewServer(f)
	t.Cleanup(server.Close)
	c = mcp.HTTP("office", server.URL, mcp.Options{Trust: mcp.TrustHints, ToolOptions: atOnce})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return dir, f, c, server
}

// losses lists ways in which a call over HTTP can be lost after the tool has run.
var losses = map[string]func(w http.ResponseWriter, r *http.Request, office http.Handler){
	"before the response": func(_ http.ResponseWriter, r *http.Request, office http.Handler) {
		office.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	},
	"in the response": func(w http.ResponseWriter, r *http.Request, office http.Handler) {
		office.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": so far\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
	"at a gateway": func(w http.ResponseWriter, r *http.Request, office http.Handler) {
		office.ServeHTTP(httptest.NewRecorder(), r)
		w.WriteHeader(http.StatusBadGateway)
	},
	"at a proxy that waits no longer": func(w http.ResponseWriter, r *http.Request, office http.Handler) {
		office.ServeHTTP(httptest.NewRecorder(), r)
		w.WriteHeader(http.StatusRequestTimeout)
	},
}

func TestACallThatIsLostOverHTTPIsInDoubt(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		for how, spoil := range losses {
			t.Run(how, func(t *testing.T) {
				dir, f, c, _ := flakyOffice(t, stateless)
				f.spoilNext(spoil)
				_, err := run(t, memstore.New(), c, send("Ada"))
				require.ErrorIs(t, err, core.ErrAwaiting)
				assert.Equal(t, []string{"Ada"}, lines(t, dir+"/sent"))

				f.spoilNext(spoil)
				out, err := call(t, t.Context(), c, "office_read", `{"to":"Ada"}`)
				require.NoError(t, err)
				assert.Equal(t, "a letter to Ada", out.Text)
				assert.Equal(t, []string{"Ada", "Ada"}, lines(t, dir+"/read"), "a read is repeated")
			})
		}
	}
}

func TestACallThatWasNotAcceptedIsMadeAgain(t *testing.T) {
	for _, status := range []int{http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		dir, f, c, _ := flakyOffice(t, true)
		f.spoilNext(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(status) })
		out, err := run(t, memstore.New(), c, send("Ada"), actorstest.Say("done"))
		require.NoError(t, err)
		assert.Equal(t, "sent to Ada", out.Messages[2].Text)
		assert.Equal(t, []string{"Ada"}, lines(t, dir+"/sent"))
	}
}

func TestAServerThatIsDownIsTriedAgainAndNothingIsInDoubt(t *testing.T) {
	_, _, c, server := flakyOffice(t, true)
	tools, err := c.Tools(t.Context())
	require.NoError(t, err)
	server.Close()
	set, err := actors.NewToolSet(tools...)
	require.NoError(t, err)
	tool, _ := set.Lookup("office_send")
	prepared, err := tool.Prepare(t.Context(), `{"to":"Ada"}`)
	require.NoError(t, err)
	_, err = prepared(t.Context())
	require.ErrorIs(t, err, core.ErrExhausted)
	assert.NotErrorIs(t, err, core.ErrInDoubt)
	assert.ErrorContains(t, err, "after 3 attempts")
}

// A call that could not be sent before its deadline has done nothing.
func TestACallThatIsNotSentInTimeIsNotInDoubt(t *testing.T) {
	dir, f, c, _ := flakyOffice(t, false)
	_, err := call(t, t.Context(), c, "office_send", `{"to":"Ada"}`)
	require.NoError(t, err)
	tools, err := c.Tools(t.Context())
	require.NoError(t, err)
	set, err := actors.NewToolSet(tools...)
	require.NoError(t, err)
	tool, _ := set.Lookup("office_send")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var hangs http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"initialize"`)) {
			<-ctx.Done()
			return
		}
		w.WriteHeader(http.StatusNotFound) // the session is gone
	})
	f.office.Store(&hangs)
	prepared, err := tool.Prepare(ctx, `{"to":"Bob"}`)
	require.NoError(t, err)
	_, err = prepared(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, core.ErrInDoubt)
	assert.Equal(t, []string{"Ada"}, lines(t, dir+"/sent"))
}

func TestSessionThatAServerHasForgottenIsStartedAgain(t *testing.T) {
	dir, f, c, _ := flakyOffice(t, false)
	_, err := call(t, t.Context(), c, "office_send", `{"to":"Ada"}`)
	require.NoError(t, err)
	f.restart(dir, false)
	_, err = call(t, t.Context(), c, "office_send", `{"to":"Bob"}`)
	require.NoError(t, err)
	assert.Equal(t, []string{"Ada", "Bob"}, lines(t, dir+"/sent"))
}

// The SDK sends arguments as headers for tools that the session has listed. A session that begins
// with a call, for example after a restart, has not listed any.
func TestHeadersOfAToolAreSentInASessionThatHasNotListedIt(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "regions", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "move", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "moved to " + r.Extra.Header.Get("Mcp-Param-Region")}}}, nil
		})
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	f := new(flaky)
	f.office.Store(&h)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c := mcp.HTTP("regions", server.URL, mcp.Options{ToolOptions: atOnce})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	f.spoilNext(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusNotFound) }) // the server has forgotten the session
	out, err := call(t, t.Context(), c, "regions_move", `{"region":"north"}`)
	require.NoError(t, err)
	assert.Equal(t, "moved to north", out.Text)
}

func TestAToolWithAnInvalidHeaderIsLeftOut(t *testing.T) {
	const list = `{"tools":[{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}},
		{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}]}`
	listed, err := rawOf(t, map[string]string{"tools/list": list}, mcp.Options{}).List(t.Context())
	require.NoError(t, err)
	require.Len(t, listed, 2)
	assert.Empty(t, listed[0].LeftOut)
	assert.Equal(t, "its x-mcp-header is invalid", listed[1].LeftOut)
}

func TestARequestThatAServerRefusesIsNotMadeAgain(t *testing.T) {
	dir, f, c, _ := flakyOffice(t, true)
	f.spoilNext(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusForbidden) })
	_, err := call(t, t.Context(), c, "office_send", `{"to":"Ada"}`)
	require.ErrorIs(t, err, core.ErrPermanent)
	assert.ErrorContains(t, err, "Forbidden")
	assert.Empty(t, lines(t, dir+"/sent"))
}

func TestAHandlerWithoutAuthorizeServesThisMachineAlone(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	response, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.NotEqual(t, http.StatusForbidden, response.StatusCode)
	_, r, _ := served(t, memstore.New(), mcp.ServerOptions{})
	for _, sent := range []struct{ address, forwardedFor string }{{"192.0.2.1:80", ""}, {"127.0.0.1:80", "192.0.2.1"}} {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.RemoteAddr = sent.address
		if sent.forwardedFor != "" {
			request.Header.Set("X-Forwarded-For", sent.forwardedFor)
		}
		mcp.NewHandler(r, mcp.ServerOptions{}).ServeHTTP(w, request)
		assert.Equal(t, http.StatusForbidden, w.Code, sent)
	}
}
