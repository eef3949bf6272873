package main

import (
	"os"
	"regexp"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

// A model is the LLM. If the LLM is scripted, the model also holds the server behind it.
type model struct {
	actor    actors.LLM
	scripted *openaitest.Server
}

// connect returns a model from the service configured in the environment, or else a scripted model
// on the loopback interface.
func connect(name string) (*model, error) {
	if os.Getenv("OPENAI_API_KEY") != "" {
		return &model{actor: openai.New(name)}, nil
	}
	server, err := openaitest.Start(openaitest.Forever(openaitest.Respond(nextTurn)))
	if err != nil {
		return nil, err
	}
	return &model{openai.New("scripted-model", openai.WithBaseURL(server.URL())), server}, nil
}

func (m *model) Close() {
	if m.scripted != nil {
		_ = m.scripted.Close() // a Forever script has no steps that could be left unplayed
	}
}

var (
	introduces = regexp.MustCompile(`(?i)(?:my name is|i am|i'm) (\p{L}+)`)
	asksName   = regexp.MustCompile(`(?i)my name\b.*\?`)
	asksTime   = regexp.MustCompile(`(?i)\btime\b`)
)

// nextTurn plays the role of the model: it remembers names that it has been told, and looks up the
// time.
func nextTurn(req openaitest.Request) openaitest.Step {
	last := req.LastMessage()
	switch {
	case last.Role == "tool":
		return say("It is " + last.Content + ".")
	case asksTime.MatchString(last.Content):
		return openaitest.ToolCalls(openaitest.Call("clock", nil))
	case asksName.MatchString(last.Content):
		if name := nameIn(req.Messages); name != "" {
			return say("Your name is " + name + ", you told me.")
		}
		return say("I do not know yet: tell me, as in \"My name is Ada\".")
	case introduces.MatchString(last.Content):
		return say("Nice to meet you, " + introduces.FindStringSubmatch(last.Content)[1] + "!")
	}
	return say("I am only a script: tell me your name, ask me for it, or ask for the time.")
}

func say(text string) openaitest.Step {
	return openaitest.Text(text).WithPace(40 * time.Millisecond)
}

// nameIn returns the name that the user mentioned last.
func nameIn(messages []openaitest.Message) (name string) {
	for _, m := range messages {
		if found := introduces.FindStringSubmatch(m.Content); m.Role == "user" && found != nil {
			name = found[1]
		}
	}
	return name
}
