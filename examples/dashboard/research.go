package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
)

// A Topic is the subject of a research job.
type Topic struct {
	Name    string `json:"name"`
	Sources int    `json:"sources"`
}

// A Source is a page to read.
type Source struct {
	URL string `json:"url"`
}

// researchJobs returns a function that makes research jobs.
func researchJobs(w *world) func() job {
	agent := researchAgent(w)
	return func() job {
		t := Topic{
			Name:    pick(w, []string{"tidal power", "sourdough", "the Antikythera mechanism", "quiet keyboards", "fog nets", "night trains"}),
			Sources: 3 + int(w.roll()*5),
		}
		return job{"research", "What is known about " + t.Name, func(ctx context.Context) error {
			_, err := agent.Call(ctx, t)
			return err
		}}
	}
}

// researchAgent returns an agent that makes a plan, has another agent read sources in parallel, and
// writes a report.
func researchAgent(w *world) actors.Agent[Topic, string] {
	model, reader := modelOf(w, "large_model"), readerAgent(w)
	return decorators.Agent("researcher", "Finds out about a topic.", func(ctx context.Context, t Topic) (string, error) {
		if _, err := model.Call(ctx, prompt("Plan how to find out about "+t.Name)); err != nil {
			return "", err
		}
		sources := make([]Source, t.Sources)
		for i := range sources {
			sources[i].URL = fmt.Sprintf("https://library.example/%s/%d", t.Name, i+1)
		}
		_, err := actors.Map(ctx, actors.Group{Name: "sources", Workers: 4, CollectAll: true}, reader, sources)
		var some *actors.GroupError
		if errors.As(err, &some) && len(some.Failed) < t.Sources {
			log(ctx, slog.LevelWarn, fmt.Sprintf("%d of %d sources could not be read", len(some.Failed), t.Sources), nil)
		} else if err != nil {
			return "", err
		}
		if _, err := model.Call(ctx, prompt("Write the report about "+t.Name)); err != nil {
			return "", err
		}
		return "a report about " + t.Name, nil
	})
}

// readerAgent returns an agent that fetches a page and takes notes on it.
func readerAgent(w *world) actors.Agent[Source, string] {
	model := modelOf(w, "small_model")
	fetch := decorators.Tool("fetch_page", "Fetches a page.", func(ctx context.Context, s Source) (string, error) {
		err := w.askService(ctx, &httperror.Error{Code: 429, After: 5 * time.Second, Excerpt: "slow down"},
			fmt.Errorf("read tcp library.example:443: %w", syscall.ECONNRESET), &httperror.Error{Code: 404, Excerpt: "no such page"})
		return "<article>… " + s.URL + " …</article>", err
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 4, InitialDelay: 800 * time.Millisecond, Backoff: core.Fibonacci}), actors.WithAttemptTimeout(3*time.Second))
	return decorators.Agent("reader", "Reads a source.", func(ctx context.Context, s Source) (string, error) {
		if _, err := fetch.Call(ctx, s); err != nil {
			return "", err
		}
		log(ctx, slog.LevelInfo, "page fetched", map[string]any{"url": s.URL})
		answer, err := model.Call(ctx, prompt("Note what is in it."))
		return answer.Message.Text, err
	})
}
