package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
)

// A model is the LLM of the agent. If the LLM is scripted, the model also holds the server behind
// it.
type model struct {
	llm      actors.LLM
	scripted *openaitest.Server
}

// connectModel returns a model from the service configured in the environment, or else a scripted
// model on the loopback interface.
func connectModel(name string) (*model, error) {
	if os.Getenv("OPENAI_API_KEY") != "" {
		return &model{llm: openai.New(name)}, nil
	}
	server, err := openaitest.Start(
		openaitest.RateLimited(300*time.Millisecond),
		openaitest.Forever(openaitest.Respond(nextTurn)),
	)
	if err != nil {
		return nil, err
	}
	return &model{openai.New("scripted-model", openai.WithBaseURL(server.URL()),
		actors.WithRetry(core.RetryConfig{InitialDelay: 100 * time.Millisecond})), server}, nil
}

func (m *model) Close() {
	if m.scripted != nil {
		// An interrupted run leaves part of the script unplayed, which is not an error.
		_ = m.scripted.Close()
	}
}

var fileName = regexp.MustCompile(`in the file (\S+)\.$`)

// nextTurn plays the role of the model: it asks for a file that it must not read, gets an error,
// reads the right file, asks for the weather in each city listed there, and compares the results.
func nextTurn(req openaitest.Request) openaitest.Step {
	results := req.ToolResults()
	file := fileName.FindStringSubmatch(req.Messages[0].Content)[1]
	usage := func(st openaitest.Step) openaitest.Step {
		return st.WithUsage(60+40*len(req.Messages), 18)
	}
	switch {
	case len(results) == 0:
		return usage(openaitest.ToolCalls(openaitest.Call("read_file", FileRequest{Path: "../" + file})))
	case len(results) == 1:
		return usage(openaitest.ToolCalls(openaitest.Call("read_file", FileRequest{Path: file})))
	case len(results) == 2:
		return usage(askWeather(results[1].Content))
	}
	return usage(openaitest.Text(warmest(results[2:])))
}

func askWeather(cities string) openaitest.Step {
	var calls []openaitest.ToolCall
	for _, city := range strings.Fields(cities) {
		calls = append(calls, openaitest.Call("get_weather", City{Name: city}))
	}
	if strings.HasPrefix(cities, "error:") || len(calls) == 0 {
		return openaitest.Text("I could not read any city from the file.")
	}
	return openaitest.ToolCalls(calls...)
}

func warmest(results []openaitest.ToolResult) string {
	var best Weather
	var failed int
	for _, r := range results {
		var w Weather
		if err := json.Unmarshal([]byte(r.Content), &w); err != nil {
			failed++
		} else if best.City == "" || w.TempC > best.TempC {
			best = w
		}
	}
	switch {
	case best.City == "":
		return "The weather service knows none of the cities."
	case failed > 0:
		return fmt.Sprintf("Of the cities that the weather service knows, %s is the warmest, with %.1f °C.", best.City, best.TempC)
	}
	return fmt.Sprintf("%s is the warmest, with %.1f °C.", best.City, best.TempC)
}
