package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
)

// A caller calls a model. After construction, only its set of models without encrypted reasoning
// changes.
type caller struct {
	model       Model
	service     endpoint
	configErr   error    // nil if requests can be sent
	hint        string   // appended to error messages about a missing key
	noEncrypted sync.Map // names of models that do not support encrypted reasoning
	external    bool     // the client was passed to WithClient
	host        string   // host of the service; empty if unknown
	server      server   // zero if the host is unknown
	defaultWire wire     // wire for the model's own name
}

// connect creates the client from the fields of the model and the environment. If a
// required key is missing, it sets configErr. The key in OPENAI_API_KEY is sent only to
// OpenAI or to the base URL in the environment, not to a base URL set by the program.
func (c *caller) connect() {
	m := &c.model
	own := m.BaseURL != "" // set by the program, not by the environment
	m.BaseURL = cmp.Or(m.BaseURL, os.Getenv("OPENAI_BASE_URL"), defaultBaseURL)
	if !isURL(m.BaseURL) {
		c.configErr = fmt.Errorf("openai: the base URL %q in OPENAI_BASE_URL is not a URL such as %s", m.BaseURL, defaultBaseURL)
		return
	}
	if u, err := url.Parse(m.BaseURL); err == nil {
		c.host, c.server = u.Hostname(), serverOf(u)
	}
	env := m.APIKeyEnv
	if env == "" && (!own || c.host == "openai.com" || strings.HasSuffix(c.host, ".openai.com")) {
		env = "OPENAI_API_KEY"
	}
	if m.APIKey == "" && env != "" {
		m.APIKey = os.Getenv(env)
	}
	if m.APIKey == "" {
		switch {
		case m.APIKeyEnv != "":
			c.configErr = fmt.Errorf("openai: no API key: environment variable %s (APIKeyEnv) is not set", env)
			return
		case m.BaseURL == defaultBaseURL:
			c.configErr = errNoKey
			return
		case env == "" && os.Getenv("OPENAI_API_KEY") != "":
			c.hint = fmt.Sprintf(" (no key was sent: OPENAI_API_KEY is not sent to %s unless selected with openai.WithAPIKeyEnv)", c.host)
		}
	}
	c.service = newEndpoint(m)
}

var errNoKey = errors.New("openai: no API key: set the environment variable OPENAI_API_KEY or use openai.WithAPIKey; a service at another base URL (OPENAI_BASE_URL, openai.WithBaseURL) may not need one")

// ask is the handler of the model. Each call is one attempt.
func (c *caller) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	if c.configErr != nil {
		return actors.Response{}, core.Permanent(c.configErr)
	}
	req.Options = req.Options.Or(c.model.Options)
	name, w := c.model.Name, c.defaultWire
	if other := req.Options.Model; other != "" && other != name {
		name, w = other, c.wireFor(other)
	}
	c.server.annotate(ctx)
	req.Options.Annotate(ctx)
	formatTool := ""
	if f := req.Options.Format; f != nil && f.ByTool {
		formatTool = f.Name
		req = withFormatTool(req)
	}
	resp, err := c.try(ctx, c.wireOf(name, w), name, req)
	if r, ok := w.(responsesWire); ok && r.encrypted && refusesReasoning(err) {
		c.noEncrypted.Store(name, true) // the refused request was free
		resp, err = c.try(ctx, c.wireOf(name, w), name, req)
	}
	if err != nil {
		return resp, err
	}
	return withoutFormatTool(resp, formatTool), nil
}

// wireOf returns the wire for a model, without the features that the service has refused for it.
func (c *caller) wireOf(name string, w wire) wire {
	if r, ok := w.(responsesWire); ok && r.encrypted {
		_, refused := c.noEncrypted.Load(name)
		r.encrypted = !refused
		return r
	}
	return w
}

// refusesReasoning reports whether err means that the model does not support encrypted
// reasoning.
func refusesReasoning(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := strings.ToLower(e.Message)
	return strings.HasPrefix(e.Param, "include") || strings.Contains(text, "reasoning.encrypted_content") ||
		strings.Contains(text, "encrypted content is not supported")
}

// try makes one request.
func (c *caller) try(ctx context.Context, w wire, name string, req actors.Request) (actors.Response, error) {
	emit := live.Emitter(ctx)
	x := c.newExchange()
	background := isBackground(w, &req)
	x.stream = !background && (emit != nil || c.model.FirstToken > 0 || c.model.Idle > 0)
	body, err := c.body(w, name, req, x.stream)
	if err != nil {
		return actors.Response{}, core.Permanent(err)
	}
	x.body = body
	a := &answer{emit: emit, keepsRaw: req.Options.Raw}
	if background {
		x, err = c.inBackground(ctx, x, w, a, name)
	} else {
		x, err = c.inForeground(ctx, x, w, a, name)
	}
	if err == nil {
		return a.response(req, w.source()), nil
	}
	err = x.explain(ctx, err)
	if resp, ok := rejectedOutput(err); ok {
		resp.Usage = x.failedUsage(body, a)
		return resp, nil
	}
	return actors.Response{Usage: x.failedUsage(body, a)}, err
}

// inForeground makes a request that asks for the answer in the reply. If the service queues the
// request instead, inForeground polls for the answer; FirstToken and Idle do not limit the polling.
// It returns the last exchange.
func (c *caller) inForeground(ctx context.Context, x *exchange, w wire, a *answer, name string) (*exchange, error) {
	watched, watchdog := newWatchdog(ctx, c.model.FirstToken, c.model.Idle)
	defer watchdog.stop()
	if watchdog != nil {
		a.started = watchdog.answered
	}
	err := c.send(watched, x, w, a, name, watchdog)
	if pending := (*pendingError)(nil); errors.As(err, &pending) {
		watchdog.stop()
		return c.poll(ctx, w, a, pending.id)
	}
	return x, watchdog.cause(watched, err)
}

func (c *caller) newExchange() *exchange {
	return &exchange{external: c.external, hint: c.hint}
}

// failedUsage returns the usage of a failed request.
func (x *exchange) failedUsage(body []byte, a *answer) core.Usage {
	if !x.stream {
		return a.usage
	}
	return estimate(body, a)
}

func (c *caller) body(w wire, name string, req actors.Request, stream bool) ([]byte, error) {
	if err := req.Options.Check(); err != nil {
		return nil, err
	}
	if completionsOnly.MatchString(name) && w.path() == chatPath {
		return nil, fmt.Errorf("openai: %q: %w", name, goopenai.ErrChatCompletionInvalidModel)
	}
	req.Messages = pairResults(req.Messages)
	return w.body(name, req, stream)
}

// send sends a request for a model and reads the reply. If x.body is nil, name is the
// ID of a response to retrieve.
func (c *caller) send(ctx context.Context, x *exchange, w wire, a *answer, name string, watchdog *watchdog) error {
	if x.stream {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		x.end = end
	}
	req, err := c.service.request(x.watch(ctx), w, name, x.body, x.stream)
	if err != nil {
		return err
	}
	return x.send(c.service.client, req, w, a, watchdog)
}

// wireFor returns the wire for a model name.
func (c *caller) wireFor(name string) wire {
	if c.model.API == Responses || c.model.API == Auto && responsesOnly.MatchString(name) {
		return responsesWire{origin: c.origin("responses"), encrypted: true, host: c.host}
	}
	w := chatWire{origin: c.origin("chat"), tokenField: "max_tokens", plain: c.external, host: c.host}
	if c.isOpenAI() || reasoningModels.MatchString(name) {
		w.tokenField = "max_completion_tokens"
	}
	return w
}

var (
	// responsesOnly matches OpenAI models that accept tools, or any request at all,
	// only through the Responses API.
	responsesOnly = regexp.MustCompile(`^(gpt-([6-9]|[1-9][0-9])|o[0-9]+-(pro|deep-research)|o[0-9]+-mini-deep-research|gpt-5[0-9.]*-(pro|codex)|codex-|computer-use-)`)

	// completionsOnly matches OpenAI models that predate the chat completions API.
	completionsOnly = regexp.MustCompile(`^((text|code)-)?(davinci|curie|babbage|ada)(-|$)`)

	// reasoningModels matches OpenAI models that do not accept max_tokens.
	reasoningModels = regexp.MustCompile(`^(o[1-9]|gpt-([5-9]|[1-9][0-9])|codex-|computer-use-)`)
)

// isOpenAI reports whether the service is OpenAI's, which accepts
// max_completion_tokens. Compatible services accept max_tokens; some ignore
// max_completion_tokens and generate without a limit.
func (c *caller) isOpenAI() bool {
	for _, domain := range [...]string{"openai.com", "azure.com", "azure.us", "azure.cn"} {
		if c.host == domain || strings.HasSuffix(c.host, "."+domain) {
			return true
		}
	}
	return c.model.AzureAPIVersion != ""
}

// origin identifies an API of a service, so that data is sent back only to where it came from.
func (c *caller) origin(api string) string {
	if c.host == "" {
		return api
	}
	return api + " " + c.host
}

// withFormatTool makes the model give its answer as a tool call.
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

// withoutFormatTool converts the call to the format tool into the text of the answer.
// If the model also calls other tools, the answer is not final, and the call to the
// format tool is dropped.
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
