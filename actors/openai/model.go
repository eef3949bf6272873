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

// New returns an LLM that calls a model at OpenAI or at a compatible service:
//
//	llm := openai.New("gpt-4o-mini")
//
// The options are those of this package (such as [WithAPIKey], [WithBaseURL],
// [WithHTTPClient] and [WithClient]) and the options for all actors, such as
// [actors.WithRetry]. [Model] has more settings. New panics under the same conditions
// as [Model.LLM].
func New(model string, opts ...actors.Option) actors.LLM {
	return Model{Name: model}.LLM(opts...)
}

// WithAPIKey sets the API key. Defaults to the environment variable OPENAI_API_KEY; see
// [Model].
func WithAPIKey(key string) actors.Option {
	return modelOption("openai.WithAPIKey", func(m *Model) { m.APIKey = key })
}

// WithAPIKeyEnv selects the environment variable that holds the API key, such as GROQ_API_KEY. It
// is also the way to send OPENAI_API_KEY to a base URL set by the program.
func WithAPIKeyEnv(name string) actors.Option {
	return modelOption("openai.WithAPIKeyEnv", func(m *Model) { m.APIKeyEnv = name })
}

// WithBaseURL sets the base URL of the API, such as "http://localhost:11434/v1".
// Defaults to the environment variable OPENAI_BASE_URL or, if that is not set, to
// "https://api.openai.com/v1".
func WithBaseURL(url string) actors.Option {
	return modelOption("openai.WithBaseURL", func(m *Model) { m.BaseURL = url })
}

// WithHTTPClient sets the HTTP client. Defaults to [http.DefaultClient], which has no
// timeout: limit attempts with [actors.WithAttemptTimeout].
func WithHTTPClient(client *http.Client) actors.Option {
	return modelOption("openai.WithHTTPClient", func(m *Model) { m.HTTPClient = client })
}

// WithClient makes the LLM use an existing go-openai client. The client's own key, base URL and
// HTTP client are used, and the environment is not read. Such a client cannot send everything that
// this package can, and it does not report how its streams ended; errors mention this where it
// matters.
func WithClient(client *goopenai.Client) actors.Option {
	return modelOption("openai.WithClient", func(m *Model) { m.Client = client })
}

func modelOption(name string, set func(*Model)) actors.Option { return actors.SettingOption(name, set) }

const defaultBaseURL = "https://api.openai.com/v1"

// An API is one of the two APIs through which a model is called.
type API string

// The APIs. Auto selects the Responses API for OpenAI models that are available only there, or that
// accept tools only there. For all other models, it selects the chat completions API.
const (
	Auto      API = ""
	Chat      API = "chat"
	Responses API = "responses"
)

// A Model configures access to a model of a service. Only Name is required.
type Model struct {
	// Name is the name of the model at the service. It is also the name of the LLM in
	// addresses.
	Name string

	// APIKey is the API key. Defaults to the environment variable OPENAI_API_KEY. If BaseURL is set
	// to a service other than OpenAI, however, that key is sent there only if APIKeyEnv selects it;
	// such a service may not need a key. If OpenAI's key is missing, the first call fails; the
	// constructor does not panic, because a missing key is an error in the environment, not in the
	// program.
	APIKey string

	// APIKeyEnv is the name of the environment variable that holds the key. If APIKeyEnv is set but
	// the variable it names is not, the first call fails.
	APIKeyEnv string

	// BaseURL is the base URL of the API. Defaults to the environment variable
	// OPENAI_BASE_URL or, if that is not set, to "https://api.openai.com/v1".
	BaseURL string

	// AzureAPIVersion selects Azure OpenAI and its API version, such as "2024-10-21".
	// BaseURL is then the URL of the resource, such as https://NAME.openai.azure.com,
	// and Name is the name of the deployment.
	AzureAPIVersion string

	// Header holds additional headers sent with each request.
	Header http.Header

	// HTTPClient sends the requests. Defaults to [http.DefaultClient], which has no
	// timeout.
	HTTPClient *http.Client

	// Client, if set, is used instead of the fields above, which must then be empty. See
	// [WithClient].
	Client *goopenai.Client

	// API defaults to Auto.
	API API

	// Options are the default options for requests.
	Options actors.ModelOptions

	// FirstToken limits the time until the first part of the answer, and Idle the time without any
	// data. If an attempt exceeds one of these limits, it fails with a timeout and is retried. 0
	// means no limit. If either of them is set, replies are streamed. To limit the whole attempt,
	// use actors.WithAttemptTimeout.
	FirstToken, Idle time.Duration
}

// LLM returns an LLM for the model. Settings in opts, such as [WithAPIKey], override
// the fields of m. LLM reads the environment once. It panics if the model or an option
// is invalid.
func (m Model) LLM(opts ...actors.Option) actors.LLM {
	settings, opts := actors.SplitSettings[func(*Model)](opts)
	for _, set := range settings {
		set(&m)
	}
	if err := m.check(); err != nil {
		panic(err)
	}
	m.Header = m.Header.Clone()
	c := &caller{model: m, external: m.Client != nil}
	if c.external {
		c.service = endpoint{client: clientDoer{m.Client}}
	} else {
		c.connect()
	}
	c.defaultWire = c.wireFor(m.Name)
	return actors.NewLLM(m.Name, c.ask, opts...)
}

func (m Model) check() error {
	var problems []error
	check := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, errors.New("openai: "+problem))
		}
	}
	check(m.Client != nil && (m.APIKey != "" || m.APIKeyEnv != "" || m.BaseURL != "" || m.HTTPClient != nil || m.AzureAPIVersion != "" || len(m.Header) > 0),
		"a client (WithClient, Model.Client) is combined with a key, base URL, header or HTTP client; the client has its own")
	check(m.APIKey != "" && m.APIKeyEnv != "", "both APIKey and APIKeyEnv are set; want only one of them")
	check(m.API != Auto && m.API != Chat && m.API != Responses, fmt.Sprintf("Model.API is %q; it must be Auto, Chat or Responses", m.API))
	check(m.AzureAPIVersion != "" && m.BaseURL == "", "Model.AzureAPIVersion is set, but BaseURL is not; set it to https://NAME.openai.azure.com")
	check(m.FirstToken < 0 || m.Idle < 0, "FirstToken or Idle is negative; want a positive duration, or 0 for no limit")
	check(m.Options.Model != "", "Model.Options.Model is set; the model is Model.Name")
	check(m.Name == "", "the name of the model is empty; want one such as gpt-4o-mini")
	check(m.BaseURL != "" && !isURL(m.BaseURL), fmt.Sprintf("the base URL %q is not a URL such as %s", m.BaseURL, defaultBaseURL))
	if err := m.Options.Check(); err != nil {
		problems = append(problems, fmt.Errorf("openai: Model.Options: %w", err))
	}
	return errors.Join(problems...)
}

// isURL reports whether a base URL has a scheme and a host, unlike localhost:11434/v1.
func isURL(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (u.Host != "" || strings.Contains(base, "://"))
}
