package clients

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// runs returns the number of runs for each client.
func runs() string {
	if n := os.Getenv("REPRISE_PAGES"); n != "" {
		return n
	}
	return "24"
}

// withPage executes a script with Node.js, and passes it the URL of the service.
func withPage(t *testing.T, script, module string) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: node is not installed")
	}
	if _, err := os.Stat("node_modules/" + module); err != nil {
		t.Skip("skipped: run npm ci --prefix tests/clients first")
	}
	cmd := exec.CommandContext(t.Context(), node, script, serveThreads(t), runs())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// The client verifies the order of the events. Runs fail, retry and ask questions. Their streams
// are cut off, and the client attaches to them again.
func TestAGUIClientAcceptsEveryRun(t *testing.T) { withPage(t, "agui.mjs", "@ag-ui/client") }

// A page that is cut off at any event and then reconnects has the same messages as the server.
func TestUseChatEndsWithTheMessagesOfTheRun(t *testing.T) { withPage(t, "aisdk.mjs", "@ai-sdk/react") }
