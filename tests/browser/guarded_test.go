package browser

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/breaker"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/policy/retrybudget"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// guarded makes a run that uses all guards of calls: an answer from a cache, a circuit breaker that
// opens, a retry budget that is exhausted, a model whose instructions changed between two openings
// and, at the end, a compensation that is retried and another that fails.
func guarded(t *testing.T, dash *streamer.Handler) {
	t.Helper()
	var (
		store       snapshot.Store = memstore.New()
		unavailable                = &httperror.Error{Code: 503, Excerpt: "overloaded"}
		quick                      = core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Millisecond, Jitter: core.NoJitter}
		undos                      = 0
		pays                       = 0
	)
	hotel := decorators.Tool("book_hotel", "Books a hotel.", func(context.Context, City) (string, error) { return "room 12", nil },
		actors.WithRetry(quick)).Compensate(func(context.Context, City, string) error {
		if undos++; undos < 2 {
			return unavailable
		}
		return nil
	})
	flight := decorators.Tool("book_flight", "Books a flight.", func(context.Context, City) (string, error) { return "seat 4A", nil },
		actors.WithRetry(quick)).Compensate(func(context.Context, City, string) error { return errors.New("it has taken off") })
	weather := decorators.Tool("get_weather", "Current weather.", func(context.Context, City) (string, error) { return "4 °C", nil },
		actors.WithCache(cache.New(cache.NewMemory(1<<20), cache.Options{}), "1", time.Hour))
	pay := decorators.Tool("pay", "Pays.", func(context.Context, City) (string, error) {
		if pays++; pays < 2 {
			return "", unavailable
		}
		return "paid", nil
	}, actors.WithRetry(quick), actors.WithInterceptors(breaker.New(breaker.Options{Name: "payments", Failures: 1, OpenFor: 2 * time.Second}).Interceptor()))
	mail := decorators.Tool("send_mail", "Sends a mail.", func(context.Context, City) (string, error) { return "", unavailable },
		actors.WithRetry(quick), actors.WithInterceptors(retrybudget.New(retrybudget.Options{Retries: 1}).Interceptor()))
	table := decorators.Tool("book_table", "Books a table.", func(context.Context, City) (string, error) { return "", core.ErrInDoubt }).
		Compensate(func(context.Context, City, string) error { return nil }).
		CompensateInDoubt(func(context.Context, City) error { return nil })
	model := actors.NewLLM("planner", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: "Book everything."}, Finish: actors.FinishStop}, nil
	})
	instructions := "Be brief."
	trip := decorators.Agent("trip", "Plans a trip.", func(ctx context.Context, to City) (string, error) {
		messages := []actors.Message{{Role: actors.RoleSystem, Text: instructions}, {Role: actors.RoleUser, Text: "Plan a trip to " + to.Name}}
		if _, err := model.Call(ctx, actors.Request{Messages: messages}); err != nil {
			return "", err
		}
		if _, err := core.Await[bool](ctx, "Shall I book?"); err != nil {
			return "", err
		}
		for _, tool := range []actors.Tool[City, string]{hotel, flight, weather, weather, pay} {
			if _, err := tool.Call(ctx, to); err != nil {
				return "", err
			}
		}
		if _, err := table.Call(ctx, to); !errors.Is(err, core.ErrInDoubt) {
			return "", err
		}
		return mail.Call(ctx, to)
	})
	for range 2 {
		st, err := state.Open(t.Context(), store, "trip-1", state.WithPublisher(dash), state.WithPayloads(), state.WithCompensations(hotel, flight, table),
			state.WithMetadata(snapshot.Metadata{Description: "a trip that is undone"}))
		require.NoError(t, err)
		_, err = trip.Call(st.Context(t.Context()), City{"Oslo"})
		require.Error(t, err)
		require.NoError(t, st.Close())
		if instructions == "Be brief." {
			require.ErrorIs(t, err, core.ErrAwaiting)
			instructions = "Be polite."
			questions, err := state.Questions(t.Context(), store, "trip-1")
			require.NoError(t, err)
			require.NoError(t, state.Answer(t.Context(), store, "trip-1", questions[0].ID, "ann", true))
			continue
		}
		require.ErrorIs(t, err, core.ErrBudget)
		assert.Len(t, st.Report().Reworded, 1)
		assert.Equal(t, 1, st.Report().Cached)
		assert.Equal(t, 2, st.Report().Compensated)
		assert.Equal(t, 1, st.Report().Uncompensated)
	}
}

// TestWhatGuardsCallsIsShown checks that compensations, answers from caches, circuit breakers,
// retry budgets and changed instructions are shown not only as icons, but also in words.
func TestWhatGuardsCallsIsShown(t *testing.T) {
	s := newSite(t, nil, streamer.Options{}, nil)
	guarded(t, s.dash)
	p := open(t, s.url()+"#run=trip-1")
	p.wait(`document.querySelectorAll("[data-call]").length === 12`)
	for call, texts := range map[string][]string{
		"trip/planner":                      {"planner", "1 call"},
		"trip/book_hotel@undo/book_hotel":   {"book_hotel", "undoes it", "1 retry"},
		"trip/book_flight@undo/book_flight": {"book_flight", "undoes it", "permanent"},
		"trip/book_table@undo/book_table":   {"book_table", "undoes a call in doubt"},
		"trip/get_weather#2":                {"get_weather", "#2 · from the cache"},
		"trip/pay":                          {"2 retries"},
		"trip/send_mail":                    {"budget"},
	} {
		row := p.text(`[data-call="` + call + `"]`)
		if call == "trip/planner" {
			row += p.text("#run-facts")
		}
		for _, text := range texts {
			assert.Contains(t, row, text, call)
		}
	}
	icon := func(call string) string {
		return eval[string](p, `document.querySelector('[data-call="`+call+`"] .lane-title > .icon use').getAttribute("href")`)
	}
	assert.Equal(t, "#i-compensation", icon("trip/book_hotel@undo/book_hotel"))
	assert.Empty(t, eval[[]string](p, `[...document.querySelectorAll("use")].map((use) => use.getAttribute("href")).filter((id) => !document.querySelector(id))`),
		"every icon is there")

	p.wait(`document.querySelectorAll(".record").length === 48`)
	records := eval[string](p, `document.querySelector("#record-rows").textContent`)
	for _, text := range []string{
		`circuit breaker "payments" is open for 2s`, `circuit breaker "payments" is half open`, `circuit breaker "payments" is closed`, "(circuit breaker)",
		"trip?1 = true by ann", " · from the cache", "overloaded · budget after", "the retry budget of 1 retry in 1m0s is used up",
		"it may have taken effect",
		"trip/planner was answered from its record, although instructions, descriptions of tools, tools or options have changed; to ask the model again: reprise --dir DIR fork trip-1",
	} {
		assert.Contains(t, records, text)
	}
	p.choose("#run-kind", "compensations")
	p.wait(`document.querySelectorAll("[data-call] .lane-state").length === 7`) // including the calls around them

	for _, view := range []struct{ call, text string }{
		{"trip/book_hotel@undo/book_hotel", "Kindcompensation"},
		{"trip", " by ann: true"},
		{"trip/get_weather#2", "Outputfrom the cache"},
		{"trip/pay", "until the circuit breaker lets one through"},
		{"trip/send_mail", "Endedbudget"},
	} {
		p.load(s.url() + "#run=trip-1&call=" + url.QueryEscape(view.call))
		p.waitText("#detail .address", view.call)
		p.waitText("#detail", view.text)
		for _, width := range []int64{1280, 390} {
			p.size(width, 900)
			assert.Empty(t, eval[[]string](p, `[...document.querySelectorAll("#detail .loglines time")].filter((time) => {
				const text = document.createRange();
				text.selectNodeContents(time);
				return text.getClientRects().length > 1;
			}).map((time) => time.textContent)`), "a time is on one line")
			if view.call == "trip/pay" {
				p.colours(map[int64]string{1280: "light", 390: "dark"}[width])
				eval[bool](p, `new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(true)), 300))`)
				assert.Empty(t, p.violations(), "%d", width)
			}
		}
	}
}
