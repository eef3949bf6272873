package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// serveThreads serves a scripted assistant until the test ends, and returns the URL of the
// service.
func serveThreads(t *testing.T) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		served <- service.Serve(ctx, service.Options{Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}, func(r *runner.Runner) error {
			runner.Register(r, conversation.NewProgram(r.Store(), scripted()))
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	select {
	case url := <-ready:
		return url
	case err := <-served:
		t.Fatal(err)
		return ""
	}
}

// errBusy is retried.
var errBusy = core.Retryable(errors.New("the model is busy"))

type book struct {
	Seat string `json:"seat"`
}

// scripted returns an agent whose model executes the user's text as a script, such as "think tools
// retry". Each word names something that happens, in this order.
func scripted() conversation.Agent {
	soon := actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Millisecond})
	look := decorators.Tool("look", "Looks.", func(ctx context.Context, in book) (book, error) {
		if in.Seat == "broken" {
			return in, core.Permanent(errors.New("it is broken"))
		}
		if in.Seat == "flaky" && core.ScopeOf(ctx).Attempt() == 0 {
			return in, errBusy
		}
		return in, nil
	}, soon)
	reserve := decorators.Tool("reserve", "Reserves.", func(_ context.Context, in book) (string, error) {
		return "reserved " + in.Seat, nil
	}, actors.WithApproval())
	ask := decorators.Tool("ask", "Asks.", func(ctx context.Context, in book) (string, error) {
		where, err := core.Await[string](ctx, "Where to?")
		return "to " + where, err
	})
	return actors.NewAgent("assistant", actors.NewLLM("model", respond, soon), actors.WithTools(look, reserve, ask))
}

func respond(ctx context.Context, req actors.Request) (actors.Response, error) {
	asked, step := 0, 0
	for i, m := range req.Messages {
		if m.Role == actors.RoleUser {
			asked = i
		}
	}
	for _, m := range req.Messages[asked:] {
		if m.Role == actors.RoleAssistant {
			step++
		}
	}
	words := strings.Fields(req.Messages[asked].Text)
	if step > len(words) {
		return actors.Response{}, core.Permanent(errors.New("nothing is left to do"))
	}
	word := "done"
	if step < len(words) {
		word = words[step]
	}
	say := func(part live.Part, text string) {
		for _, w := range strings.SplitAfter(text, " ") {
			live.Emit(ctx, live.Delta{Part: part, Text: w})
		}
	}
	text := fmt.Sprintf("Step %d says %s, and more.", step, word)
	m := actors.Assistant(text)
	attempt := core.ScopeOf(ctx).Attempt()
	switch word {
	case "think":
		m.Reasoning = "Let me think about it."
		say(live.PartReasoning, m.Reasoning)
	case "retry":
		if attempt < 2 {
			say(live.PartReasoning, "Hm, ")
			say(live.PartText, "This will be "+fmt.Sprint(rand.IntN(100)))
			return actors.Response{}, errBusy
		}
	case "fail":
		say(live.PartText, "Alas, ")
		return actors.Response{}, core.Permanent(errors.New("out of ink"))
	}
	calls := map[string][]actors.ToolCall{
		"think": {{ID: "t", Name: "look", Arguments: `{"seat":"1A"}`}},
		"retry": {{ID: "r", Name: "look", Arguments: `{"seat":"1A"}`}},
		"tools": {
			{ID: "a", Name: "look", Arguments: `{"seat":"flaky"}`},
			{ID: "b", Name: "nothing", Arguments: `{}`},
			{ID: "c", Name: "look", Arguments: `{"place":7}`},
			{ID: "d", Name: "look", Arguments: `{"seat":"broken"}`},
			{ID: "e", Name: "look", Arguments: `{"seat":"2B"}`},
		},
		"book": {{ID: "a", Name: "reserve", Arguments: `{"seat":"3C"}`}, {ID: "b", Name: "look", Arguments: `{"seat":"3C"}`}},
		"two":  {{ID: "x", Name: "reserve", Arguments: `{"seat":"4D"}`}, {ID: "y", Name: "reserve", Arguments: `{"seat":"5E"}`}},
		"ask":  {{ID: "q", Name: "ask", Arguments: `{"seat":"6F"}`}},
	}[word]
	if m.ToolCalls = calls; word == "quiet" {
		m.Text, m.ToolCalls = "", []actors.ToolCall{{ID: "s", Name: "look", Arguments: `{"seat":"7G"}`}}
	}
	if m.ToolCalls == nil && word != "done" {
		m.ToolCalls = []actors.ToolCall{{ID: "o", Name: "look", Arguments: `{"seat":"8H"}`}}
	}
	say(live.PartText, m.Text)
	return actors.Response{Message: m}, nil
}
