package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/decorators"
)

// An Order is the input of a refund.
type Order struct {
	Order string `json:"order"`
	Euros int    `json:"euros"`
}

// assistant returns the agent of the chat. Its refunds need approval.
func assistant(llm actors.LLM) conversation.Agent {
	refund := decorators.Tool("refund", "Refunds an order.", func(_ context.Context, in Order) (string, error) {
		return fmt.Sprintf("%d € were paid back for order %s", in.Euros, in.Order), nil
	}, actors.WithApproval())
	return actors.NewAgent("assistant", llm, actors.WithTools(refund), actors.WithInstructions("You help the customers of a shop."))
}

const (
	wordTime = 40 * time.Millisecond
	busyTime = 2 * time.Second
)

// startModel starts the script that plays the role of the model. To use a service instead, remove
// this function, and pass the service's model and key to openai.New, without WithBaseURL.
func startModel() (*openaitest.Server, error) {
	var mu sync.Mutex
	wasBusy := make(map[int]bool) // by number of messages
	return openaitest.Start(openaitest.Forever(openaitest.Respond(func(req openaitest.Request) openaitest.Step {
		last := req.LastMessage()
		said := strings.ToLower(last.Content)
		switch {
		case last.Role == "tool":
			return openaitest.Text("This is the result: " + last.Content + ".").WithPace(wordTime)
		case strings.Contains(said, "refund"):
			return openaitest.ToolCalls(openaitest.Call("refund", Order{Order: "A-17", Euros: 40}))
		case strings.Contains(said, "busy"):
			mu.Lock()
			defer mu.Unlock()
			if n := len(req.Messages); !wasBusy[n] {
				wasBusy[n] = true
				return openaitest.RateLimited(busyTime)
			}
		}
		return openaitest.Text(fmt.Sprintf("You said %q. %s That is all.", last.Content, strings.Repeat("This answer is long, so that there is time to stop the program in the middle of it. ", 3))).WithPace(wordTime)
	})))
}
