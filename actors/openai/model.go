package openai

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

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
// OPENAI_API_KEY, see [Model].
func WithAPIKey(key string) actors.Option {
	return modelOption("openai.WithAPIKey", func(m *Model) { m.APIKey = key })
}

// WithAPIKeyEnv sends the key in an environment variable, such as GROQ_API_KEY, or
// OPENAI_API_KEY to a service at a base URL of the program's own.
func WithAPIKeyEnv(name string) actors.Option {
	return modelOption("openai.WithAPIKeyEnv", func(m *Model) { m.APIKeyEnv = name })
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
// environment is not read. Such a client cannot send all that this package
// can, and its streams do not show how they ended; errors say so where it
// matters.
func WithClient(client *goopenai.Client) actors.Option {
	return modelOption("openai.WithClient", func(m *Model) { m.Client = client })
}

func modelOption(name string, set func(*Model)) actors.Option { return actors.SettingOption(name, set) }

const defaultBaseURL = "https://api.openai.com/v1"

// API is one of the two APIs that a model is asked by.
type API string

// The APIs. Auto is the Responses API for the models of OpenAI that take
// tools, or anything, by that alone, and the chat completions API for all
// others: every compatible service has it.
const (
	Auto      API = ""
	Chat      API = "chat"
	Responses API = "responses"
)

// A Model is a model of a service, and how to ask it. Only Name is required.
type Model struct {
	// Name is what the service calls the model, and what the LLM is called
	// in addresses.
	Name string

	// APIKey defaults to the environment variable OPENAI_API_KEY, unless BaseURL is
	// that of another service than OpenAI: the key is not sent there if APIKeyEnv does
	// not say so. A service at a BaseURL of its own may need none. Where OpenAI's needs one and there
	// is none, the first call fails: a missing key is a matter of the
	// environment that a program runs in, not a mistake in the program.
	APIKey string

	// APIKeyEnv is the environment variable that holds the key. If it is set and
	// the variable is not, the first call fails.
	APIKeyEnv string

	// BaseURL defaults to the environment variable OPENAI_BASE_URL, and
	// without that to "https://api.openai.com/v1".
	BaseURL string

	// AzureAPIVersion makes the service Azure OpenAI, such as "2024-10-21":
	// BaseURL is the resource, as https://NAME.openai.azure.com, and Name the
	// deployment.
	AzureAPIVersion string

	// Header is sent with each request, beside what the API needs.
	Header http.Header

	// HTTPClient defaults to one without a timeout of its own.
	HTTPClient *http.Client

	// Client, if set, is asked instead of one made of the fields above, which
	// must be empty then. See [WithClient].
	Client *goopenai.Client

	// API defaults to Auto.
	API API

	// Options hold for each request, where the request does not say
	// otherwise.
	Options actors.Options

	// FirstToken limits the time until a part of the answer is there, and Idle
	// the time in which nothing comes. An attempt that takes longer fails as a
	// timeout does, and is retried. 0 is no limit. The whole attempt is
	// limited by actors.WithAttemptTimeout. Where one of them is set, replies
	// are streamed.
	FirstToken, Idle time.Duration
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
	m.Header = m.Header.Clone()
	c := &caller{model: m, foreign: m.Client != nil}
	if c.foreign {
		c.service = endpoint{client: clientDoer{m.Client}}
	} else {
		c.connect()
	}
	c.usual = c.wireFor(m.Name)
	return actors.NewLLM(m.Name, "", c.ask, opts...)
}

func (m Model) check() error {
	var problems []error
	refuse := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, errors.New("openai: "+problem))
		}
	}
	refuse(m.Client != nil && (m.APIKey != "" || m.APIKeyEnv != "" || m.BaseURL != "" || m.HTTPClient != nil || m.AzureAPIVersion != "" || len(m.Header) > 0),
		"a client is given (WithClient, Model.Client), and also a key, base URL, header or HTTP client; these are the client's own")
	refuse(m.APIKey != "" && m.APIKeyEnv != "", "both a key and the environment variable of a key are given (APIKey, APIKeyEnv)")
	refuse(m.API != Auto && m.API != Chat && m.API != Responses, fmt.Sprintf("Model.API is %q; it must be Auto, Chat or Responses", m.API))
	refuse(m.AzureAPIVersion != "" && m.BaseURL == "", "Model.AzureAPIVersion is set, and BaseURL is not; it is https://NAME.openai.azure.com")
	refuse(m.FirstToken < 0 || m.Idle < 0, "FirstToken or Idle is negative; it must be above 0, or 0 for no limit")
	refuse(m.Options.Model != "", "Model.Options.Model is set; the model is Model.Name")
	if m.BaseURL != "" {
		u, err := url.Parse(m.BaseURL)
		refuse(err != nil || u.Host == "" && !strings.Contains(m.BaseURL, "://"), fmt.Sprintf("the base URL %q is not a URL such as https://api.openai.com/v1", m.BaseURL))
	}
	if err := m.Options.Check(); err != nil {
		problems = append(problems, fmt.Errorf("openai: Model.Options: %w", err))
	}
	return errors.Join(problems...)
}
