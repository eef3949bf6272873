package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is the maximum time to wait for a condition to become true. If the page is correct, it
// is never reached.
var patience = 4 * time.Minute

// tab is a browser tab that shows the dashboard. The test fails if an error is logged to the
// console, if the content security policy is violated, or if anything is loaded from another
// server.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string // on the console
	outages  bool     // requests may fail
	requests []string // URLs
}

// newTab opens an empty tab.
func newTab(t *testing.T) *tab {
	t.Helper()
	if chromium == nil {
		t.Skip("no Chromium: install Debian's package chromium, or set CHROMIUM to the path of one")
	}
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, p.listen))
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	p.size(1280, 800)
	t.Cleanup(p.check)
	return p
}

// open opens the page at the URL in a new tab, and waits until the page is live.
func open(t *testing.T, url string) *tab {
	t.Helper()
	p := newTab(t)
	p.load(url)
	p.waitLive()
	return p
}

func (p *tab) load(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

func (p *tab) waitLive() {
	p.t.Helper()
	p.wait(`document.querySelector("#connection").dataset.state === "live"`)
}

// listen is called for each event of the tab.
func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		p.troubles = append(p.troubles, fmt.Sprintf("console.%s %s", e.Type, arguments(e.Args)))
	case *runtime.EventExceptionThrown:
		p.troubles = append(p.troubles, "exception: "+e.ExceptionDetails.Text+" "+description(e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if p.outages && e.Entry.Source == log.EntrySourceNetwork {
			return
		}
		p.troubles = append(p.troubles, fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	}
}

func arguments(args []*runtime.RemoteObject) string {
	var text []string
	for _, a := range args {
		text = append(text, description(a))
	}
	return strings.Join(text, " ")
}

func description(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return string(o.Value) + o.Description
}

// expectOutages allows requests to fail from now on. The browser logs such failures
// to the console.
func (p *tab) expectOutages() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outages = true
}

// requested returns the number of requests for a path. If the path has no query, requests with any
// query count.
func (p *tab) requested(path string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range p.requests {
		if !strings.Contains(path, "?") {
			url, _, _ = strings.Cut(url, "?")
		}
		if strings.HasSuffix(url, "/"+path) {
			n++
		}
	}
	return n
}

// waitRequested waits until there have been n requests for a path.
func (p *tab) waitRequested(path string, n int) {
	p.t.Helper()
	for p.requested(path) < n {
		require.NoError(p.t, p.ctx.Err())
		p.wait(`true`) // after this round trip, the browser has reported its requests
	}
}

// offline disconnects the tab from the network, or connects it again.
func (p *tab) offline(offline bool) {
	p.t.Helper()
	call(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: offline, DownloadThroughput: -1, UploadThroughput: -1}},
	})
	call(p, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: offline, DownloadThroughput: -1, UploadThroughput: -1})
}

func (p *tab) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(p.t, p.troubles, "the console of the page")
	origin := ""
	for _, url := range p.requests {
		if strings.HasPrefix(url, "about:") || strings.HasPrefix(url, "data:") || strings.HasPrefix(url, "blob:"+origin) && origin != "" { // not loaded from the network
			continue
		}
		parts := strings.SplitN(url, "/", 4)
		if origin == "" {
			origin = parts[0] + "//" + parts[2]
		}
		assert.Equal(p.t, origin, parts[0]+"//"+parts[2], "the page must load only from its own server, but requested %s", url)
	}
}

// do runs actions that return no value.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// call sends a command of the Chrome DevTools Protocol and returns its result.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	require.NoError(p.t, err)
	return result
}

// eval returns the value of a JavaScript expression. It awaits promises.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return value
}

// wait waits until a JavaScript expression is true. It does not use Poll of chromedp, which
// evaluates a string as code: the page's content security policy forbids that.
func (p *tab) wait(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`new Promise((resolve) => {
		const look = () => {
			try { if (`+expression+`) return resolve(true); } catch {}
			setTimeout(look, 20);
		};
		look();
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		require.FailNow(p.t, "this condition has not become true: "+expression, "%v\nThe page shows:\n%s", err, p.shown())
	}
}

// pick waits until a JavaScript expression has a value, and returns it.
func pick[T any](p *tab, expression string) T {
	p.t.Helper()
	p.wait(`(globalThis.picked = ` + expression + `) != null`)
	return eval[T](p, `globalThis.picked`)
}

// shown returns the size and the text of the page, for error messages.
func (p *tab) shown() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("`${innerWidth}×${innerHeight}, ${document.visibilityState}\n${document.body.innerText}`"))
	if err != nil {
		return err.Error()
	}
	return text
}

// waitText waits until the first element that matches the selector contains the
// text.
func (p *tab) waitText(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.querySelector(%s)?.textContent.includes(%s)", quote(selector), quote(text)))
}

// waitProblem waits until the named field of a question shows an error message that
// contains the text.
func (p *tab) waitProblem(field, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`[...document.querySelectorAll(".question .field-problem")].some((problem) =>
		problem.closest(".field")?.querySelector(".field-name").textContent.replace(" (optional)", "") === %s && problem.textContent.includes(%s))`, quote(field), quote(text)))
}

// text returns the text of the first element that matches the selector.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "document.querySelector("+quote(selector)+")?.textContent ?? ''")
}

func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, "document.querySelectorAll("+quote(selector)+").length")
}

// click waits for the first element that matches the selector and clicks it with the
// mouse.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// fill sets the value of the first control that matches the selector, and sends the event that
// typing causes.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.wait("document.querySelector(" + quote(selector) + ")")
	eval[bool](p, `((control) => { control.value = `+quote(text)+`; control.dispatchEvent(new Event("input", { bubbles: true })); return true })(document.querySelector(`+quote(selector)+`))`)
}

// settle waits until the questions on the page accept clicks. A question that has just appeared or
// moved ignores them.
func (p *tab) settle() {
	p.t.Helper()
	p.wait(`[...document.querySelectorAll(".question")].every((card) => performance.now() - card.movedAt > 900 &&
		Math.abs(card.parentElement.getBoundingClientRect().top + scrollY + card.offsetTop - card.place) <= 2)`)
}

// keys presses keys. A character is typed only if the page does not handle its key.
func (p *tab) keys(keys string) {
	p.t.Helper()
	for _, r := range keys {
		key := string(r)
		params := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key}
		switch r {
		case '\r':
			params.Key, params.WindowsVirtualKeyCode = "Enter", 13
		case '\x1b':
			params.Key, params.Text, params.WindowsVirtualKeyCode = "Escape", "", 27
		}
		call(p, input.DispatchKeyEvent, params)
		params.Type, params.Text = input.DispatchKeyEventTypeKeyUp, ""
		call(p, input.DispatchKeyEvent, params)
	}
}

func (p *tab) size(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
}

func (p *tab) colours(scheme string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// before runs a script in the page before the page's own scripts.
func (p *tab) before(script string) {
	p.t.Helper()
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// quote returns the text as a JavaScript string literal.
func quote(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}
