package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// sizes returns the size of a message that is too large, and the limit. With REPRISE_LONG, they are
// 100 MB and the default limit.
func sizes() (size, limit int) {
	if os.Getenv("REPRISE_LONG") != "" {
		return 100 << 20, 16 << 20
	}
	return 512 << 10, 256 << 10
}

// memory returns the number of bytes that have been allocated, and the memory that the process has
// obtained from the system.
func memory() (allocated, system uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, m.Sys
}

func TestAResultThatIsTooLargeIsRefusedAndASmallerOneArrives(t *testing.T) {
	size, limit := sizes()
	dir := t.TempDir()
	over := func(json bool) func(mcp.Options) *mcp.Client {
		s := office(dir)
		server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: json}))
		t.Cleanup(server.Close)
		return func(o mcp.Options) *mcp.Client {
			c := mcp.HTTP("office", server.URL, o)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			return c
		}
	}
	for name, connect := range map[string]func(mcp.Options) *mcp.Client{
		"stdio": func(o mcp.Options) *mcp.Client { return officeOf(t, dir, o) }, "stream": over(false), "json": over(true),
	} {
		t.Run(name, func(t *testing.T) {
			arguments := fmt.Sprintf(`{"bytes":%d}`, size)
			c := connect(mcp.Options{MaxResult: limit})
			began, _ := memory()
			_, err := call(t, t.Context(), c, "office_big", arguments)
			refused, _ := memory()
			if name == "stdio" { // this server is trusted, so the tool counts as read-only
				require.ErrorIs(t, err, core.ErrPermanent)
			} else {
				require.ErrorIs(t, err, core.ErrInDoubt)
			}
			require.ErrorContains(t, err, fmt.Sprintf("a message from the server is larger than Options.MaxResult, %d bytes", limit))
			out, err := call(t, t.Context(), c, "office_big", `{"bytes":1000}`)
			require.NoError(t, err, "only the call of the large message fails")
			assert.Len(t, out.Text, 1000)

			before, _ := memory()
			out, err = call(t, t.Context(), connect(mcp.Options{MaxResult: size + 1000}), "office_big", arguments)
			require.NoError(t, err)
			assert.Len(t, out.Text, size)
			after, system := memory()
			t.Logf("%d MB: refused with %d MB allocated, accepted with %d; %d MB from the system", size>>20, (refused-began)>>20, (after-before)>>20, system>>20)
		})
	}
}

// A result from our server may be as large as the output of its program.
func TestALargeOutputOfAProgramIsAResult(t *testing.T) {
	size, _ := sizes()
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{TaskAfter: time.Minute}, func(r *runner.Runner) {
		runner.Register(r, decorators.Tool("write", "", func(context.Context, struct{}) (string, error) { return strings.Repeat("x", size), nil }))
	})
	before, _ := memory()
	c := mcp.HTTP("programs", url, mcp.Options{MaxResult: size + 1000})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	out, err := call(t, t.Context(), c, "programs_write", `{}`)
	require.NoError(t, err)
	assert.Len(t, out.Text, size)
	after, system := memory()
	t.Logf("%d MB: %d MB allocated by both sides, %d MB from the system", size>>20, (after-before)>>20, system>>20)
}

// padded returns the beginning of a request, padded to the given number of bytes.
func padded(size int) io.Reader {
	const head, tail = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"`, `"}}}` + "\n"
	return io.MultiReader(strings.NewReader(head), io.LimitReader(endless{}, int64(size)), strings.NewReader(tail))
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestARequestThatIsTooLargeIsAnErrorOfTheProtocol(t *testing.T) {
	size, limit := sizes()
	store := memstore.New()
	_, r, _ := served(t, store, mcp.ServerOptions{})
	want := fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is larger than ServerOptions.MaxRequest, %d bytes"}}`, limit)

	w, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", padded(size))
	request.RemoteAddr, request.ContentLength = "127.0.0.1:1", int64(size)
	mcp.NewHandler(r, mcp.ServerOptions{MaxRequest: limit}).ServeHTTP(w, request)
	assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	assert.JSONEq(t, want, w.Body.String())

	w, request = httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", padded(size))
	request.RemoteAddr, request.ContentLength = "127.0.0.1:1", -1 // the length is unknown
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	mcp.NewHandler(r, mcp.ServerOptions{MaxRequest: limit}).ServeHTTP(w, request)
	assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code)

	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- mcp.ServeIO(t.Context(), r, in, out, mcp.ServerOptions{MaxRequest: limit}) }()
	go func() { _, _ = io.Copy(toServer, padded(size)) }() // the server reads only part of it
	line, err := bufio.NewReader(fromServer).ReadString('\n')
	require.NoError(t, err)
	assert.JSONEq(t, want, line)
	require.ErrorContains(t, <-ended, fmt.Sprintf("ServerOptions.MaxRequest, %d bytes", limit))
	require.NoError(t, in.Close())
}

func TestARequestThatIsNotJSONIsAnErrorOfTheProtocol(t *testing.T) {
	_, r, _ := served(t, memstore.New(), mcp.ServerOptions{})
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.ServeIO(t.Context(), r, io.NopCloser(strings.NewReader("hello\n")), out, mcp.ServerOptions{})
	}()
	line, err := bufio.NewReader(fromServer).ReadString('\n')
	require.NoError(t, err)
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the request is not JSON"}}`, line)
	require.ErrorContains(t, <-ended, "invalid character 'h'")
}
