package browser

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// freeAddress returns an address on which a program can listen, also again after a restart.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// beginChat starts a program, and returns when the program is serving requests.
func beginChat(t *testing.T, program string, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, flags...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "The chat is at ")
	return cmd
}

// TestChatSurvivesTheKillOfItsServer tests the page of examples/webchat, which uses
// useChat of the AI SDK.
func TestChatSurvivesTheKillOfItsServer(t *testing.T) {
	t.Parallel()
	if chromium == nil {
		newTab(t) // skips the test if there is no Chromium
	}
	program := filepath.Join(t.TempDir(), "webchat")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/webchat")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	address, dir := freeAddress(t), t.TempDir()
	server := beginChat(t, program, "-addr", address, "-dir", dir, "-log-level", "error")

	p := newTab(t)
	p.expectOutages()
	p.load("http://" + address + "/webchat/#chat-1")
	say := func(text string) {
		p.wait(`document.querySelector("main")?.dataset.status === "ready"`)
		p.fill("input", text)
		p.click("form button")
	}
	say("busy")
	p.waitText(".retry", "trying again in")
	p.waitText(".assistant p", "This answer is long")
	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	p.wait(`document.querySelector("main").dataset.status === "lost"`)
	assert.Contains(t, p.text(".assistant p"), "This answer is long", "the earlier messages are still shown")

	beginChat(t, program, "-addr", address, "-dir", dir, "-log-level", "error")
	p.waitText(".assistant p", "That is all.")
	p.wait(`document.querySelector("main").dataset.status === "ready"`)
	assert.Equal(t, 1, p.count(".assistant"))
	assert.Equal(t, 1, strings.Count(p.text(".assistant"), "You said"), "no message is shown twice")

	say("refund, please")
	p.click(".yes")
	p.waitText(".assistant:last-of-type", "This is the result: 40 € were paid back for order A-17.")
	p.wait(`document.querySelector("main").dataset.status === "ready"`)
	shown := p.text("main")
	eval[bool](p, `(setTimeout(() => location.reload()), true)`)
	p.wait(`document.querySelector("main")?.textContent === ` + quote(shown))
}
