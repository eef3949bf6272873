package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
)

// Topic is the input of the researcher.
type Topic struct {
	Subject string `json:"subject"`
}

// Report is the answer of the researcher.
type Report struct {
	Title     string    `json:"title"`
	Findings  []Finding `json:"findings"`
	Published string    `json:"published" jsonschema:"the name under which the report was published; empty if it was not"`
}

// Finding is a line of a report.
type Finding struct {
	Text   string `json:"text"`
	Source string `json:"source"`
}

// newResearcher returns the researcher with its tools. Reports are published in dir.
func newResearcher(llm actors.LLM, dir string) actors.Agent[Topic, Report] {
	reader := actors.NewAgent("reader", llm,
		actors.WithDescription("Reads pages and summarizes each of them in a line."),
		actors.WithInstructions("Fetch the pages, all at once, and answer with a line on each."),
		actors.WithTools(fetchTool()))
	return actors.NewTypedAgent[Topic, Report]("researcher", llm,
		actors.WithInstructions("Search for the subject in several ways at once, have the pages read, publish the report, and answer with it."),
		actors.WithTools(searchTool(), reader, publishTool(dir)))
}

// Query is the input of the search tool.
type Query struct {
	Words string `json:"words"`
}

func searchTool() actors.Tool[Query, []string] {
	return decorators.Tool("search", "Finds pages.", func(ctx context.Context, in Query) ([]string, error) {
		if err := work(ctx); err != nil {
			return nil, err
		}
		return []string{"https://example.com/" + strings.ReplaceAll(in.Words, " ", "-")}, nil
	})
}

// Page is the input of the fetch tool.
type Page struct {
	URL string `json:"url"`
}

func fetchTool() actors.Tool[Page, string] {
	return decorators.Tool("fetch", "Fetches a page.", func(ctx context.Context, in Page) (string, error) {
		if err := work(ctx); err != nil {
			return "", err
		}
		words := strings.ReplaceAll(strings.TrimPrefix(in.URL, "https://example.com/"), "-", " ")
		return "All about " + words + ".", nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: 20 * time.Millisecond}))
}

// work takes as long as a call to a nearby service.
func work(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Publication is a report to publish.
type Publication struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// write creates the report's file atomically: it writes a draft and then links the draft to the
// final name. A killed process may have left behind a draft that is already linked, so an existing
// draft is removed rather than overwritten.
func (p Publication) write(dir, name string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft := filepath.Join(dir, ".draft-"+name)
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(draft, fmt.Appendf(nil, "# %s\n\n%s\n", p.Title, p.Text), 0o600); err != nil {
		return err
	}
	if err := os.Link(draft, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Remove(draft)
}

// publishTool returns a tool that publishes a report after approval. The file name is
// derived from the idempotency key: if the process was killed before the outcome was
// recorded, the repeated call finds the existing file.
func publishTool(dir string) actors.Tool[Publication, string] {
	return decorators.Tool("publish", "Publishes a report.", func(ctx context.Context, in Publication) (string, error) {
		key, err := core.IdempotencyKey(ctx)
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("report-%.8s.md", key)
		if err := in.write(filepath.Join(dir, "published"), name); err != nil {
			return "", err
		}
		return name, nil
	}, actors.WithApproval(), actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: 20 * time.Millisecond})).
		Require(func(_ context.Context, in Publication) error {
			if in.Title == "" || in.Text == "" {
				return errors.New("a report needs a title and a text")
			}
			return nil
		})
}
