package clients

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// runs is how many runs each of the clients of pages makes.
func runs() string {
	if n := os.Getenv("REPRISE_PAGES"); n != "" {
		return n
	}
	return "24"
}

// withPage runs a script of Node with the URL of the service.
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

// The client's own verification of the order of events is on. Runs fail, retry, ask, and are
// cut off and attached to again.
func TestAGUIClientTakesEveryRun(t *testing.T) { withPage(t, "agui.mjs", "@ag-ui/client") }

// The messages of a page that was cut off at any event, and reconnected, are those that the
// server has.
func TestUseChatEndsWithTheMessagesOfTheRun(t *testing.T) { withPage(t, "aisdk.mjs", "@ai-sdk/react") }
