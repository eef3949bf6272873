package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"github.com/openai/openai-go/option"
)

// openGenkit returns a Genkit and a model that uses Genkit's plugin for OpenAI-compatible services.
func openGenkit(url string, client *http.Client) (*genkit.Genkit, ai.Model) {
	plugin := &compat_oai.OpenAICompatible{
		Provider: "bench", APIKey: "key", BaseURL: url,
		Opts: []option.RequestOption{option.WithHTTPClient(client), option.WithMaxRetries(0)},
	}
	g := genkit.Init(context.Background(), genkit.WithPlugins(plugin))
	return g, plugin.DefineModel("bench", "m", ai.ModelOptions{Supports: &compat_oai.BasicText})
}

func callGenkit(url string, client *http.Client) func() error {
	g, model := openGenkit(url, client)
	return func() error {
		text, err := genkit.GenerateText(context.Background(), g, ai.WithModel(model), ai.WithSystem("Be brief."), ai.WithPrompt("What is the answer?"))
		return errors.Join(err, checkText(text))
	}
}

// agentGenkit returns a function that calls a model with tools as in Genkit's
// documentation.
func agentGenkit(url string, client *http.Client) func() error {
	g, model := openGenkit(url, client)
	add := genkit.DefineTool(g, "add", "Adds a number.", func(_ *ai.ToolContext, in addend) (int, error) { return in.N + 1, nil })
	return func() error {
		text, err := genkit.GenerateText(context.Background(), g, ai.WithModel(model), ai.WithTools(add),
			ai.WithMaxTurns(agentTurns), ai.WithSystem("Be brief."), ai.WithPrompt("What is the answer?"))
		return errors.Join(err, checkText(text))
	}
}
