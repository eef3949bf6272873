package mcp_test

import (
	"context"
	"io"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// An MCP client starts a program, kills it, and starts it again.
func TestAProgramThatIsKilledContinuesForTheNextClient(t *testing.T) {
	dir := t.TempDir()
	first := started(t, "main "+dir)
	s := connected(t, &sdk.CommandTransport{Command: first}, modern, nil)
	said := textOf(t, callTool(t, s, "plan", person{"Ada"}))
	id := runIn(t, said)
	require.NoError(t, first.Process.Kill())

	s = connected(t, &sdk.CommandTransport{Command: started(t, "main "+dir)}, older, nil)
	said = textOf(t, callTool(t, s, "run_answer", map[string]any{"run": id, "question": "plan?1", "answer": "Rome"}))
	assert.Contains(t, said, "How many days?")
	require.NoError(t, s.Close(), "the program exits with status 0 at the end of its input")
}

func TestARelayPassesTheMessagesOfAClientOn(t *testing.T) {
	url, _, _ := served(t, memstore.New(), mcp.ServerOptions{})
	for _, version := range []string{modern, older} {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- mcp.Relay(context.WithoutCancel(t.Context()), in, out, url, mcp.Options{}) }()
		s := connected(t, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, version, nil)
		assert.Equal(t, "Hello, Ada", textOf(t, callTool(t, s, "greet", person{"Ada"})))
		_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing"})
		require.ErrorContains(t, err, `unknown tool "nothing"`)
		require.NoError(t, toServer.Close())
		require.NoError(t, <-ended)
	}
}
