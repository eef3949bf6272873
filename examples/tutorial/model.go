package main

import (
	"context"
	"os"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/decorators"
)

// model returns the model of a service if there is a key, and otherwise a script.
func model() actors.LLM {
	if os.Getenv("OPENAI_API_KEY") != "" {
		return openai.New("gpt-4o-mini")
	}
	return decorators.LLM("script", script)
}

// script asks for the two tools, one after the other, and then answers.
func script(_ context.Context, in actors.Request) (actors.Response, error) {
	message := actors.Assistant("Your table is reserved, and Ann knows.")
	switch in.Messages[len(in.Messages)-1].Text {
	case "reserved":
		message = actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{
			{ID: "2", Name: "send", Arguments: `{"to": "ann@example.com", "text": "19:30, 4 people"}`},
		}}
	case "sent":
	default:
		message = actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{
			{ID: "1", Name: "reserve", Arguments: `{"guests": 4, "at": "19:30"}`},
		}}
	}
	return actors.Response{Message: message}, nil
}
