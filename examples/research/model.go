package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
)

// A model is the LLM. If the LLM is scripted, the model also holds the server behind it.
type model struct {
	llm      actors.LLM
	scripted *openaitest.Server
}

// unlimitedRetries is the model's retry configuration: the model is asked until it answers.
var unlimitedRetries = actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: 50 * time.Millisecond})

// connect returns a model from the service configured in the environment, or else a scripted model
// on the loopback interface.
func connect(name string) (*model, error) {
	if os.Getenv("OPENAI_API_KEY") != "" {
		return &model{llm: openai.New(name, unlimitedRetries)}, nil
	}
	server, err := openaitest.Start(openaitest.Forever(openaitest.Respond(nextTurn)))
	if err != nil {
		return nil, err
	}
	return &model{openai.New("scripted-model", openai.WithBaseURL(server.URL()), unlimitedRetries), server}, nil
}

func (m *model) Close() {
	if m.scripted != nil {
		_ = m.scripted.Close() // a Forever script has no steps that could be left unplayed
	}
}

// nextTurn plays the role of the model, depending on the state of the conversation.
func nextTurn(req openaitest.Request) openaitest.Step {
	var step openaitest.Step
	if offers(req, "fetch") {
		step = read(req)
	} else {
		step = research(req)
	}
	return step.WithUsage(40*len(req.Messages), 20).After(10 * time.Millisecond)
}

func offers(req openaitest.Request, tool string) bool {
	for _, t := range req.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// read plays the role of the reader's model.
func read(req openaitest.Request) openaitest.Step {
	if results := req.ToolResults(); len(results) > 0 {
		return openaitest.Text(texts(results))
	}
	var calls []openaitest.ToolCall
	for _, url := range strings.Fields(req.LastMessage().Content) {
		calls = append(calls, openaitest.Call("fetch", Page{url}))
	}
	return openaitest.ToolCalls(calls...)
}

// research plays the role of the researcher's model: it searches for three phrases, has the pages
// read, publishes the report, and answers, at first with an incomplete report.
func research(req openaitest.Request) openaitest.Step {
	var topic Topic
	for _, m := range req.Messages {
		if m.Role == "user" && json.Unmarshal([]byte(m.Content), &topic) == nil && topic.Subject != "" {
			break
		}
	}
	var pages []string
	var findings []string
	var published *openaitest.ToolResult
	for _, result := range req.ToolResults() {
		switch result.Name {
		case "search":
			var urls []string
			_ = json.Unmarshal([]byte(result.Content), &urls)
			pages = append(pages, urls...)
		case "reader":
			findings = strings.Split(result.Content, "\n")
		case "publish":
			published = &result
		}
	}
	switch {
	case len(pages) == 0:
		var calls []openaitest.ToolCall
		for _, way := range []string{"%s", "origins of %s", "%s today"} {
			calls = append(calls, openaitest.Call("search", Query{fmt.Sprintf(way, topic.Subject)}))
		}
		return openaitest.ToolCalls(calls...).WithText("Let me search.")
	case len(findings) == 0:
		return openaitest.ToolCalls(openaitest.Call("reader", map[string]string{"text": strings.Join(pages, "\n")}))
	case published == nil:
		return openaitest.ToolCalls(openaitest.Call("publish", Publication{topic.Subject, strings.Join(findings, "\n")}))
	}
	return conclude(req, topic, findings, published.Content)
}

func texts(results []openaitest.ToolResult) string {
	lines := make([]string, len(results))
	for i, result := range results {
		lines[i] = "It says: " + result.Content
	}
	return strings.Join(lines, "\n")
}

// conclude answers with the report. The first answer lacks the findings and is
// rejected.
func conclude(req openaitest.Request, topic Topic, findings []string, published string) openaitest.Step {
	if strings.HasPrefix(published, "error: ") {
		published = ""
	}
	report := Report{Title: topic.Subject, Published: published}
	if req.LastMessage().Role == "tool" {
		answer, _ := json.Marshal(map[string]string{"title": report.Title})
		return openaitest.Text(string(answer))
	}
	for i, finding := range findings {
		report.Findings = append(report.Findings, Finding{finding, fmt.Sprintf("page %d", i+1)})
	}
	answer, _ := json.Marshal(report)
	return openaitest.Text(string(answer))
}
