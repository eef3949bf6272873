package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// example starts examples/dashboard, and returns the address that it prints.
// stop is Ctrl-C, and returns how it ended.
func example(t *testing.T, flags ...string) (url string, stop func() error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dashboard")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/dashboard")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	cmd := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, flags...)...) //nolint:noctx // it is ended as a user would
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	_, url, found := strings.Cut(strings.TrimSpace(line), "The dashboard is at ")
	require.True(t, found, line)
	return url, func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		return cmd.Wait()
	}
}

func TestTheExampleIsAnsweredAndInterrupted(t *testing.T) {
	if chromium == nil {
		newTab(t) // which skips
	}
	url, stop := example(t, "-seed", "7", "-rate", "120")
	p := open(t, url)
	p.wait(`document.querySelector(".question .yes")`)
	run := p.text(".question a")
	p.click(".question .yes")
	p.wait(fmt.Sprintf(`document.querySelector('[data-run="%s"]').dataset.status !== "paused"`, run))

	p.load(url + "#run=" + run)
	p.wait(`document.querySelectorAll(".record.r-answer").length === 1`)
	assert.Contains(t, p.text(".record.r-answer"), "= true")
	p.waitText("#run-facts", "Recalled") // the calls before the question did not run again

	p.load(url + "#")
	p.wait(`document.querySelectorAll(".wait").length > 5`)
	p.load(url + "#run=" + eval[string](p, `[...document.querySelectorAll(".wait .of")].at(-1).textContent`)) // that waits longest
	p.click("#interrupt")
	p.wait(`document.querySelector("#interrupt-dialog").open`)
	p.keys("enough\r")
	p.waitText("#run-banner", "Interrupted by dashboard: enough")

	p.expectOutages()
	require.NoError(t, stop(), "Ctrl-C is a good end")
	p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
}

// The pictures in docs: what the example shows in the middle of a storm.
func TestScreenshots(t *testing.T) {
	if !*screenshots {
		t.Skip("pictures are taken with -screenshots")
	}
	url, stop := example(t, "-seed", "11", "-rate", "45")
	p := open(t, url)
	p.wait(`document.querySelectorAll(".wait").length >= 24 && document.querySelectorAll(".question").length >= 1 &&
		document.querySelector('[data-status="failed"].tile b').textContent !== "0" &&
		document.querySelector('[data-status="completed"].tile b').textContent !== "0"`)
	for _, scheme := range []string{"light", "dark"} {
		p.colours(scheme)
		p.size(1280, 860)
		p.picture("dashboard-" + scheme + "-desktop.png")
		p.size(390, 844)
		p.picture("dashboard-" + scheme + "-phone.png")
	}
	p.size(1280, 860)
	p.click(`[data-run^="research"][data-status="waiting"]:nth-last-child(n+2) a`)
	p.wait(`document.querySelectorAll("[data-call]").length > 8 && document.querySelector(".callrow.s-waiting .b-retry_after")`)
	p.click(`.callrow.s-waiting:not([aria-expanded])`)
	p.waitText("#detail", "next attempt")
	p.picture("dashboard-dark-run.png")
	require.NoError(t, stop())
	p.expectOutages()
}

// picture keeps what the tab shows in docs, once it has been drawn.
func (p *tab) picture(name string) {
	p.t.Helper()
	// Four drawings later nothing of another size or colour is left.
	eval[bool](p, `new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(true)), 400))`)
	shot := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	require.NoError(p.t, os.WriteFile(filepath.Join("..", "..", "docs", name), shot.Data, 0o644))
	assert.Less(p.t, len(shot.Data), 200<<10, name)
}
