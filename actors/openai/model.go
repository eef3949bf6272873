package openai

import (
	"context"
	"errors"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
)

// New makes the LLM that asks a model through client, with the service's
// default parameters. It panics as [Model.LLM] does.
func New(client *goopenai.Client, model string, opts ...actors.Option) actors.LLM {
	return Model{Client: client, Name: model}.LLM(opts...)
}

// A Model is a model of a service, and how to ask it.
type Model struct {
	// Client has the base URL, the API key and the HTTP client. Required.
	Client *goopenai.Client

	// Name is what the service calls the model, and what the LLM is called
	// in addresses. Required.
	Name string

	// Params are the parameters of each request. Model, messages, tools and
	// streaming are not among them; leave these fields empty. ToolChoice and
	// ParallelToolCalls are sent only along with tools. What is zero is left
	// to the service: for a temperature of 0, go-openai wants
	// math.SmallestNonzeroFloat32. Nothing that Params points to may change
	// once the LLM is made.
	Params goopenai.ChatCompletionRequest
}

// LLM makes the LLM. It panics if the model or an option is invalid, and says
// what is wrong.
func (m Model) LLM(opts ...actors.Option) actors.LLM {
	if err := m.check(); err != nil {
		panic(err)
	}
	return actors.NewLLM(m.Name, "", m.ask, opts...)
}

func (m Model) check() error {
	var problems []error
	refuse := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, errors.New("openai: "+problem))
		}
	}
	p := m.Params
	refuse(m.Client == nil, "the client is nil; make one with goopenai.NewClient")
	refuse(p.Model != "", "Params.Model is set; the model is Model.Name")
	refuse(p.Messages != nil, "Params.Messages is set; messages come with each call")
	refuse(p.Tools != nil, "Params.Tools is set; tools come with each call, see actors.WithTools")
	//nolint:staticcheck // deprecated, and refused for that
	refuse(p.Functions != nil || p.FunctionCall != nil, "Params.Functions or FunctionCall is set; use actors.WithTools")
	refuse(p.Stream || p.StreamOptions != nil, "Params.Stream or StreamOptions is set; replies are not streamed")
	refuse(p.N > 1, "Params.N is above 1; one answer is used")
	return errors.Join(problems...)
}

// ask is the handler: one request to the service, one attempt.
func (m Model) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	var x exchange
	// The reply of a failure has the headers of its response: go-openai sets
	// them before it looks at the status.
	reply, err := m.Client.CreateChatCompletion(x.watch(ctx), m.request(req))
	if err != nil {
		return actors.Response{}, x.explain(ctx, reply.Header(), err)
	}
	return response(req, reply)
}
