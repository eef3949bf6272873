package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/streamer"
)

type dinner struct {
	Dish   string    `json:"dish" jsonschema:"what is eaten"`
	Guests uint8     `json:"guests"`
	When   time.Time `json:"when,omitzero"`
	At     struct {
		Street string `json:"street"`
	} `json:"at"`
	Wishes []string `json:"wishes,omitempty"`
}

// serving serves programs until the test ends.
func serving(t *testing.T, o streamer.Options, register func(*runner.Runner) error) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	background(t, func() {
		assert.NoError(t, service.Serve(ctx, service.Options{
			Dir: t.TempDir(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }, Runner: runner.Options{Grace: -1}, Streamer: o,
		}, register))
	})
	t.Cleanup(cancel)
	return <-ready
}

// TestAProgramIsStartedWithAFormOfItsSchema checks that errors found by the page and errors found
// by the server are shown next to their fields.
func TestAProgramIsStartedWithAFormOfItsSchema(t *testing.T) {
	t.Parallel()
	url := serving(t, streamer.Options{}, func(r *runner.Runner) error {
		cook := runner.Register(r, decorators.Agent("cook", "Cooks.", func(_ context.Context, in dinner) (string, error) { return in.Dish + " in " + in.At.Street, nil }))
		runner.Register(r, decorators.Agent("old", "", func(_ context.Context, in City) (string, error) { return in.Name, nil }))
		runner.Register(r, decorators.Agent("old", "", func(_ context.Context, in City) (string, error) { return in.Name, nil }), runner.WithVersion("2"))
		return cook.Schedule(dinner{Dish: "soup"}, runner.Schedule{Name: "lunch", Cron: "0 12 * * *"})
	})
	p := open(t, url)
	p.expectOutages() // the browser logs refused requests to the console
	p.waitText("#work-total", "0 wait for a slot · 0 wait for their time · 0 of ")
	p.click("#work .fold")
	p.waitText("#work-programs", "lunch: 0 12 * * * (UTC), next ")
	p.waitText("#work-programs", "version 2; runs of 1, 2 can continue")
	p.waitText("#work-none", "No worker has a run open")
	p.inspect("work")
	p.click("#work .fold")
	p.click("#start")
	p.waitText("#start-form", "what is eaten")
	p.waitText("#start-schedules", "Schedule lunch starts it 0 12 * * * (UTC), next at ")
	p.click("#start-yes")
	p.wait(`document.querySelector('#start-form [data-path="guests"]').matches('[aria-invalid]') && document.querySelector('#start-form [data-path="guests"] + .field-problem').textContent === "this is needed."`)
	p.fill(`#start-form [data-path="dish"]`, "pasta")
	p.fill(`#start-form [data-path="guests"]`, "300")
	p.fill(`#start-form [data-path="at.street"]`, "Main Street")
	p.fill(`#start-form [data-path="when"]`, "tomorrow")
	p.click("#start-yes")
	p.wait(`document.querySelector('#start-form [data-path="guests"] + .field-problem')?.textContent.includes("255")`)
	p.wait(`document.querySelector('#start-form [data-path="when"] + .field-problem')`)
	p.inspect("start")
	p.fill(`#start-form [data-path="guests"]`, "4")
	p.fill(`#start-form [data-path="when"]`, "")
	p.fill("#start-id", "dinner-1")
	p.fill("#start-tags", "food, warm")
	p.click("#start-yes")
	p.wait(`location.hash === "#run=dinner-1"`)
	p.waitText("#run-status", "completed")
	p.wait(`document.querySelector("[data-call]")`)
	assert.Zero(t, p.count("#run .break"), "the time line begins when the run begins, and not when it was queued")
	resp, err := http.Get(url + "api/runs/dinner-1/result")
	require.NoError(t, err)
	defer resp.Body.Close()
	var result streamer.Result
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&result))
	assert.JSONEq(t, `"pasta in Main Street"`, string(result.Output))

	p.load("about:blank")
	p.load(url)
	p.waitText("#work-total", "0 of ") // when the total appears, it moves the button
	p.click("#start")
	p.wait(`document.querySelectorAll("#start-program option").length === 2`)
	p.choose("#start-program", "old")
	p.wait(`[...document.querySelectorAll("#start-version option")].map((o) => o.textContent).join() === "1,2, the newest"`)
	p.fill(`#start-form [data-path="name"]`, "Oslo")
	p.fill("#start-id", "dinner-1")
	p.click("#start-yes")
	p.waitText("#start-error", "dinner-1")
}

// TestNothingIsStartedWhereThePageMayNotStartRuns checks that a page without permission offers no
// form to start runs.
func TestNothingIsStartedWhereThePageMayNotStartRuns(t *testing.T) {
	t.Parallel()
	url := serving(t, streamer.Options{Authorize: func(*http.Request) (streamer.Access, error) { return streamer.Access{}, nil }}, func(*runner.Runner) error { return nil })
	p := open(t, url)
	p.wait(`document.querySelector("#runs-none").offsetParent !== null`)
	assert.True(t, eval[bool](p, `document.querySelector("#start").hidden`))
}

// TestTheLastHourIsShownByClass checks the statistics of the last hour, with the configured
// currency, and the consumption of a run by call, model and agent.
func TestTheLastHourIsShownByClass(t *testing.T) {
	t.Parallel()
	url := serving(t, streamer.Options{}, func(r *runner.Runner) error {
		tries := 0
		model := actors.NewLLM("planner", func(context.Context, actors.Request) (actors.Response, error) {
			if tries++; tries < 3 {
				return actors.Response{}, &httperror.Error{Code: 429, Excerpt: "slow down"}
			}
			return actors.Response{
				Message: actors.Message{Role: actors.RoleAssistant, Text: "done"}, Finish: actors.FinishStop, Model: "large-2",
				Usage: core.Usage{InputTokens: 1200, OutputTokens: 300, Cost: 0.25},
			}, nil
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: core.NoDelay}))
		broken := decorators.Tool("break", "", func(context.Context, City) (string, error) { return "", core.Permanent(errors.New("broken")) })
		runner.Register(r, decorators.Agent("plan", "", func(ctx context.Context, in City) (string, error) {
			_, _ = broken.Call(ctx, in)
			for range 2 {
				if _, err := model.Call(ctx, actors.Request{Messages: []actors.Message{{Role: actors.RoleUser, Text: in.Name}}}); err != nil {
					return "", err
				}
			}
			return "planned", nil
		}))
		return nil
	})
	p := open(t, url)
	p.wait(`document.querySelector("#start").offsetParent !== null`)
	eval[bool](p, `fetch("api/runs", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ program: "plan", run_id: "trip-1", input: { name: "Oslo" } }) }).then((r) => r.ok)`)
	p.waitText(`[data-run="trip-1"] .chip`, "completed")
	p.load("about:blank")
	p.load(url)
	p.click("#history .fold")
	p.waitText("#history-since", "when this server began to watch")
	p.waitText("#history-classes", "2 rate limit")
	p.waitText("#history-classes", "1 permanent")
	row := func(n string) string { return ".history-row:nth-child(" + n + ") b.num" }
	p.waitText(row("1"), "3")
	p.waitText(row("2"), "2")
	p.waitText(row("3"), "1")
	p.waitText(row("4"), "3000")
	p.waitText(row("5"), "0.50")
	p.fill("#history .currency", "EUR")
	p.waitText(row("5"), "0.5000 EUR")
	p.waitText(`[data-run="trip-1"] .usage`, "EUR")
	p.inspect("history")

	p.load(url + "#run=trip-1")
	p.waitText("#consumption-total", "0.5000 EUR")
	p.click("#consumption .fold")
	p.waitText("#consumption-tables", "large-2")
	for i, want := range []string{"planner22400600", "large-222400600", "plan22400600"} {
		p.wait(`document.querySelectorAll(".shares tbody tr")[` + string(rune('0'+i)) + `]?.textContent.startsWith(` + quote(want) + `)`)
	}
	p.inspect("consumption")
}
