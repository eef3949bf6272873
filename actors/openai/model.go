package openai

import (
	"context"
	"errors"
	"net/http"
	"os"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
)

// New makes the LLM that asks a model of OpenAI or of a service that is
// compatible with it:
//
//	llm := openai.New("gpt-4o-mini")
//
// The options are those of this package ([WithAPIKey], [WithBaseURL],
// [WithHTTPClient], [WithClient]) and those of every actor, such as
// [actors.WithRetry]. [Model] has more to set. New panics as [Model.LLM] does.
func New(model string, opts ...actors.Option) actors.LLM {
	return Model{Name: model}.LLM(opts...)
}

// WithAPIKey sets the API key. Defaults to the environment variable
// OPENAI_API_KEY.
func WithAPIKey(key string) actors.Option {
	return modelOption("openai.WithAPIKey", func(m *Model) { m.APIKey = key })
}

// WithBaseURL sets the URL that the paths of the API are appended to, such as
// "http://localhost:11434/v1". Defaults to the environment variable
// OPENAI_BASE_URL, and without that to "https://api.openai.com/v1".
func WithBaseURL(url string) actors.Option {
	return modelOption("openai.WithBaseURL", func(m *Model) { m.BaseURL = url })
}

// WithHTTPClient sets the HTTP client. Defaults to one without a timeout of
// its own: bound the attempts with [actors.WithAttemptTimeout].
func WithHTTPClient(client *http.Client) actors.Option {
	return modelOption("openai.WithHTTPClient", func(m *Model) { m.HTTPClient = client })
}

// WithClient has the model asked through a client of go-openai that the caller
// made. Key, base URL and HTTP client are the client's then, and the
// environment is not read.
func WithClient(client *goopenai.Client) actors.Option {
	return modelOption("openai.WithClient", func(m *Model) { m.Client = client })
}

func modelOption(name string, set func(*Model)) actors.Option { return actors.SettingOption(name, set) }

const defaultBaseURL = "https://api.openai.com/v1"

// A Model is a model of a service, and how to ask it. Only Name is required.
type Model struct {
	// Name is what the service calls the model, and what the LLM is called
	// in addresses.
	Name string

	// APIKey defaults to the environment variable OPENAI_API_KEY. A service
	// at a BaseURL of its own may need none. Where OpenAI's needs one and there
	// is none, the first call fails: a missing key is a matter of the
	// environment that a program runs in, not a mistake in the program.
	APIKey string

	// BaseURL defaults to the environment variable OPENAI_BASE_URL, and
	// without that to "https://api.openai.com/v1".
	BaseURL string

	// HTTPClient defaults to one without a timeout of its own.
	HTTPClient *http.Client

	// Client, if set, is asked instead of one made of the fields above, which
	// must be empty then.
	Client *goopenai.Client

	// Params are the parameters of each request. Model, messages, tools and
	// streaming are not among them; leave these fields empty. ToolChoice and
	// ParallelToolCalls are sent only along with tools. What is zero is left
	// to the service: for a temperature of 0, go-openai wants
	// math.SmallestNonzeroFloat32. Nothing that Params points to may change
	// once the LLM is made.
	Params goopenai.ChatCompletionRequest
}

// LLM makes the LLM. Settings among opts, such as [WithAPIKey], win over the
// fields of m. It reads the environment once, here. It panics if the model or
// an option is invalid, and says what is wrong.
func (m Model) LLM(opts ...actors.Option) actors.LLM {
	settings, opts := actors.SplitSettings[func(*Model)](opts)
	for _, set := range settings {
		set(&m)
	}
	if err := m.check(); err != nil {
		panic(err)
	}
	if m.Client == nil {
		m.connect()
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
	refuse(m.Client != nil && (m.APIKey != "" || m.BaseURL != "" || m.HTTPClient != nil),
		"a client is given (WithClient, Model.Client), and a key, base URL or HTTP client too; these are the client's own")
	refuse(p.Model != "", "Params.Model is set; the model is Model.Name")
	refuse(p.Messages != nil, "Params.Messages is set; messages come with each call")
	refuse(p.Tools != nil, "Params.Tools is set; tools come with each call, see actors.WithTools")
	//nolint:staticcheck // deprecated, and refused for that
	refuse(p.Functions != nil || p.FunctionCall != nil, "Params.Functions or FunctionCall is set; use actors.WithTools")
	refuse(p.Stream || p.StreamOptions != nil, "Params.Stream or StreamOptions is set; replies are not streamed")
	refuse(p.N > 1, "Params.N is above 1; one answer is used")
	return errors.Join(problems...)
}

// connect makes the client of the fields and the environment. Without a key
// that is needed there is none.
func (m *Model) connect() {
	if m.APIKey == "" {
		m.APIKey = os.Getenv("OPENAI_API_KEY")
	}
	if m.BaseURL == "" {
		m.BaseURL = os.Getenv("OPENAI_BASE_URL")
	}
	if m.BaseURL == "" {
		m.BaseURL = defaultBaseURL
	}
	if m.APIKey == "" && m.BaseURL == defaultBaseURL {
		return
	}
	config := goopenai.DefaultConfig(m.APIKey)
	config.BaseURL = m.BaseURL
	if m.HTTPClient != nil {
		config.HTTPClient = m.HTTPClient
	}
	m.Client = goopenai.NewClientWithConfig(config)
}

var errNoKey = errors.New("openai: there is no API key: set the environment variable OPENAI_API_KEY, or give openai.WithAPIKey; a service at another base URL (OPENAI_BASE_URL, openai.WithBaseURL) may need none")

// ask is the handler: one request to the service, one attempt.
func (m Model) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	if m.Client == nil {
		return actors.Response{}, errNoKey
	}
	var x exchange
	// The reply of a failure has the headers of its response: go-openai sets
	// them before it looks at the status.
	reply, err := m.Client.CreateChatCompletion(x.watch(ctx), m.request(req))
	if err != nil {
		return actors.Response{}, x.explain(ctx, reply.Header(), err)
	}
	return response(req, reply)
}
