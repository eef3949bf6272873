package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// example starts examples/dashboard and returns the address that it prints. stop interrupts the
// process as Ctrl-C does, and returns its error.
func example(t *testing.T, flags ...string) (url string, stop func() error) {
	t.Helper()
	cmd := exec.Command(built(t, "./examples/dashboard"), append([]string{"-addr", "127.0.0.1:0"}, flags...)...)
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
	t.Parallel()
	if chromium == nil {
		newTab(t) // skips the test if there is no Chromium
	}
	url, stop := example(t, "-seed", "7", "-rate", "120")
	p := open(t, url)
	p.wait(`document.querySelector(".question .yes")`)
	run := p.text(".question a")
	p.settle()
	p.click(".question .yes")
	p.wait(fmt.Sprintf(`document.querySelector('[data-run=' + %s + ']').dataset.status !== "paused"`, quote(quote(run))))

	p.load(url + "#run=" + run)
	p.wait(`document.querySelectorAll(".record.r-answer").length === 1`)
	assert.Contains(t, p.text(".record.r-answer"), "= true")
	p.waitText("#run-facts", "Recalled") // the calls before the question were not executed again

	for open := false; !open; open = eval[bool](p, `!document.querySelector("#interrupt").hidden`) { // the run may have ended since it was picked
		p.load(url + "#")
		p.load(url + "#run=" + pick[string](p, `[...document.querySelectorAll(".wait .of")].at(-1)?.textContent`)) // the run that waits longest
		p.wait(`document.querySelector("#run-status").textContent !== ""`)
	}
	p.click("#interrupt")
	p.wait(`document.querySelector("#interrupt-dialog").open`)
	p.keys("enough\r")
	p.waitText("#run-banner", "Interrupted by dashboard: enough")

	p.expectOutages()
	require.NoError(t, stop(), "Ctrl-C ends it without an error")
	p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
}

// TestScreenshots retakes the screenshots in docs. They show the example at a time when many calls
// are being retried.
func TestScreenshots(t *testing.T) {
	t.Parallel()
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
	p.wait(`globalThis.busy = [...document.querySelectorAll('[data-run^="research"][data-status="waiting"]')].find((run) =>
		parseInt(run.querySelector(".calls").textContent) >= 4 && run.querySelector(".now").textContent.includes("more wait"))`)
	p.load(url + "#run=" + eval[string](p, `busy.dataset.run`))
	p.wait(`document.querySelectorAll("[data-call]").length > 8`)
	p.wait(`globalThis.row = [...document.querySelectorAll(".callrow.s-waiting:not([aria-expanded])")].find((row) =>
		parseFloat(row.textContent.split(" in ")[1]) > 4)`) // enough time to take the picture
	p.load(url + "#run=" + eval[string](p, `busy.dataset.run + "&call=" + encodeURIComponent(row.dataset.call)`))
	p.waitText("#detail", "next attempt")
	p.wait(`[...document.querySelectorAll(".produced p")].some((p) => p.textContent.length < 16) && (scrollTo(0, 0), true)`) // the text is still growing
	p.picture("dashboard-dark-run.png")
	require.NoError(t, stop())
	p.expectOutages()
}

// picture saves a screenshot of the tab in docs, once the page has been drawn.
func (p *tab) picture(name string) {
	p.t.Helper()
	// Wait until all sizes and colors are final.
	eval[bool](p, `new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(true)), 400))`)
	shot := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	require.NoError(p.t, err)
	var small bytes.Buffer
	require.NoError(p.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewColours(picture)))
	require.NoError(p.t, os.WriteFile(filepath.Join("..", "..", "docs", name), small.Bytes(), 0o644))
	assert.Less(p.t, small.Len(), 200<<10, name)
}

// fewColours reduces the picture to 256 colors. The page has few colors, and shades of them around
// letters. The palette begins with the most frequent color of each kind, so that rare kinds are
// included.
func fewColours(picture image.Image) image.Image {
	counts := make(map[color.RGBA]int)
	area := picture.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	var palette, others color.Palette
	kinds := make(map[color.RGBA]bool)
	for _, c := range slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] }) {
		kind := color.RGBA{R: c.R >> 5, G: c.G >> 5, B: c.B >> 5}
		if kinds[kind] {
			others = append(others, c)
			continue
		}
		kinds[kind] = true
		palette = append(palette, c)
	}
	palette = append(palette, others...)
	reduced := image.NewPaletted(area, palette[:min(len(palette), 256)])
	draw.Draw(reduced, area, picture, area.Min, draw.Src)
	return reduced
}
