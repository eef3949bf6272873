package browser

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

var (
	screenshots = flag.Bool("screenshots", false, "retake the pictures in docs")
	look        = flag.String("look", "", "save pictures of what the tests show in this `directory`")
	long        = flag.Bool("long", false, "run the long forms of the tests")
)

// chromium is the browser that all tests use. Each test opens its own tabs, which share no data.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.DurationVar(&patience, "patience", patience, "how long to wait for a condition to become true")
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "programs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	path := find()
	if path == "" {
		return m.Run() // each test reports why it is skipped
	}
	profile, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(profile)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Without a graphics card, an animation takes most of a processor.
		chromedp.Flag("force-prefers-reduced-motion", true))...)
	defer stop()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Chromium at", path, "does not start:", err)
		return 1
	}
	chromium = ctx
	return m.Run()
}

// find returns the path of Chromium, or "" if it is not installed. It prefers the headless shell,
// which is Chromium without desktop windows: with it, the tests take half as much CPU time.
func find() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(cmp.Or(name, "chromium-headless-shell")); err == nil {
			return path
		}
	}
	return ""
}
