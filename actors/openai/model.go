package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
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

	// APIKey defaults to the environment variable OPENAI_API_KEY. A service
	// at a BaseURL of its own may need none. Where OpenAI's needs one and there
	// is none, the first call fails: a missing key is a matter of the
	// environment that a program runs in, not a mistake in the program.
	APIKey string

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
	c := &caller{model: m, client: m.Client, foreign: m.Client != nil}
	if !c.foreign {
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
	refuse(m.Client != nil && (m.APIKey != "" || m.BaseURL != "" || m.HTTPClient != nil || m.AzureAPIVersion != "" || len(m.Header) > 0),
		"a client is given (WithClient, Model.Client), and also a key, base URL, header or HTTP client; these are the client's own")
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

// caller asks a model. It does not change once it is made.
type caller struct {
	model   Model
	client  *goopenai.Client // nil without a key that is needed
	foreign bool             // the client is the user's own
	host    string           // of the service; empty if it is not known
	usual   wire             // for the model's own name
}

// connect makes the client of the fields and the environment. Without a key
// that is needed there is none.
func (c *caller) connect() {
	m := &c.model
	if m.APIKey == "" {
		m.APIKey = os.Getenv("OPENAI_API_KEY")
	}
	if m.BaseURL == "" {
		m.BaseURL = os.Getenv("OPENAI_BASE_URL")
	}
	if m.BaseURL == "" {
		m.BaseURL = defaultBaseURL
	}
	if u, err := url.Parse(m.BaseURL); err == nil {
		c.host = u.Hostname()
	}
	if m.APIKey == "" && m.BaseURL == defaultBaseURL {
		return
	}
	config := goopenai.DefaultConfig(m.APIKey)
	if m.AzureAPIVersion != "" {
		config = goopenai.DefaultAzureConfig(m.APIKey, m.BaseURL)
		config.APIVersion = m.AzureAPIVersion
		config.AzureModelMapperFunc = url.PathEscape
	}
	config.BaseURL = m.BaseURL
	var next goopenai.HTTPDoer = http.DefaultClient
	if m.HTTPClient != nil {
		next = m.HTTPClient
	}
	config.HTTPClient = doer{next}
	c.client = goopenai.NewClientWithConfig(config)
}

var errNoKey = errors.New("openai: there is no API key: set the environment variable OPENAI_API_KEY, or give openai.WithAPIKey; a service at another base URL (OPENAI_BASE_URL, openai.WithBaseURL) may need none")

// ask is the handler: one request to the service, one attempt.
func (c *caller) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	if c.client == nil {
		return actors.Response{}, core.Permanent(errNoKey)
	}
	req.Options = req.Options.Or(c.model.Options)
	name, w := c.model.Name, c.usual
	if other := req.Options.Model; other != "" && other != name {
		name, w = other, c.wireFor(other)
	}
	formatTool := ""
	if f := req.Options.Format; f != nil && f.ByTool {
		formatTool = f.Name
		req = withFormatTool(req)
	}
	emit := core.Emitter(ctx)
	x := &exchange{header: c.model.Header, stream: emit != nil || c.model.FirstToken > 0 || c.model.Idle > 0}
	body, err := c.body(w, name, req, x.stream)
	if err != nil {
		return actors.Response{}, core.Permanent(err)
	}
	reqCtx, silence := newSilence(ctx, c.model.FirstToken, c.model.Idle)
	defer silence.stop()
	a := &answer{emit: emit, started: silence.said}
	err = silence.cause(reqCtx, c.send(reqCtx, x, w, a, name, body, silence))
	if err != nil {
		return actors.Response{Usage: x.spent(body, a)}, x.explain(ctx, err)
	}
	return withoutFormatTool(a.response(req, w.from()), formatTool), nil
}

// spent is the usage of a request that failed.
func (x *exchange) spent(body []byte, a *answer) core.Usage {
	if !x.stream {
		return a.usage
	}
	return estimate(body, a)
}

func (c *caller) body(w wire, name string, req actors.Request, stream bool) ([]byte, error) {
	if err := req.Options.Check(); err != nil {
		return nil, err
	}
	return w.body(name, req, stream)
}

// send makes the request, by go-openai, and reads the reply.
func (c *caller) send(ctx context.Context, x *exchange, w wire, a *answer, name string, body []byte, silence *silence) error {
	if c.foreign {
		return x.sendForeign(x.watch(ctx), c.client, w, a, body, silence)
	}
	x.body = body
	var err error
	if _, ok := w.(chatWire); ok {
		_, err = c.client.CreateChatCompletion(x.watch(ctx), goopenai.ChatCompletionRequest{Model: name})
	} else {
		_, err = c.client.CreateResponse(x.watch(ctx), goopenai.CreateResponseRequest{})
	}
	switch {
	case x.events != nil:
		defer x.events.Close()
		return x.readStream(w, a, silence)
	case err != nil:
		return err
	case x.failure != nil: // a status that go-openai takes for a success
		return errors.New("openai: the service redirects")
	}
	complete, err := w.read(a, x.reply)
	if err == nil && !complete {
		err = errCut
	}
	return err
}

// wireFor is the API for a model.
func (c *caller) wireFor(name string) wire {
	if c.model.API == Responses || c.model.API == Auto && responsesOnly.MatchString(name) {
		return responsesWire{origin: c.origin("responses"), encrypted: reasons.MatchString(name)}
	}
	w := chatWire{origin: c.origin("chat"), tokenField: "max_tokens", plain: c.foreign}
	if c.isOpenAI() || reasons.MatchString(name) {
		w.tokenField = "max_completion_tokens"
	}
	return w
}

var (
	// responsesOnly are the models of OpenAI that take tools, or anything, by
	// the Responses API alone.
	responsesOnly = regexp.MustCompile(`^(gpt-([6-9]|[1-9][0-9])|o[0-9]+-(pro|deep-research)|o[0-9]+-mini-deep-research|gpt-5[0-9.]*-(pro|codex)|codex-|computer-use-)`)

	// reasons are the models of OpenAI that think, and know no max_tokens.
	reasons = regexp.MustCompile(`^(o[1-9]|gpt-([5-9]|[1-9][0-9])|codex-|computer-use-)`)
)

// isOpenAI reports whether the service is OpenAI's, which knows
// max_completion_tokens. Compatible services know max_tokens, and some ignore
// the other and generate for ever.
func (c *caller) isOpenAI() bool {
	for _, domain := range [...]string{"openai.com", "azure.com", "azure.us", "azure.cn"} {
		if c.host == domain || strings.HasSuffix(c.host, "."+domain) {
			return true
		}
	}
	return c.model.AzureAPIVersion != ""
}

// origin names an API of a service, for what goes back there alone.
func (c *caller) origin(api string) string {
	if c.host == "" {
		return api
	}
	return api + " " + c.host
}

// withFormatTool has the model answer by a tool call.
func withFormatTool(req actors.Request) actors.Request {
	f := req.Options.Format
	req.Options.Format = nil
	req.Options.ToolChoice = f.Name
	if len(req.Tools) > 0 {
		req.Options.ToolChoice = "required"
	}
	req.Tools = append(slices.Clip(req.Tools), actors.FunctionSpec{
		Name: f.Name, Description: "Gives the final answer. Call it once, when you know the answer.", Parameters: f.Schema,
	})
	return req
}

// withoutFormatTool makes the call of that tool the text of the answer. If the
// model asks for others too, it does not know the answer yet.
func withoutFormatTool(resp actors.Response, name string) actors.Response {
	if name == "" {
		return resp
	}
	var others []actors.ToolCall
	for _, call := range resp.Message.ToolCalls {
		if call.Name != name {
			others = append(others, call)
		}
	}
	if len(others) == 0 && len(resp.Message.ToolCalls) > 0 {
		resp.Message.Text = resp.Message.ToolCalls[0].Arguments
		if resp.Finish == actors.FinishToolCalls {
			resp.Finish = actors.FinishStop
		}
	}
	resp.Message.ToolCalls = others
	return resp
}
