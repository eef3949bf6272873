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
	"github.com/reprise-go/reprise/live"
)

// caller asks a model. What it learns of the service is all that changes once it is made.
type caller struct {
	model   Model
	service endpoint
	unready error    // why nothing can be asked; nil if it can
	hint    string   // for the error of a service that wants a key
	plain   sync.Map // names of models without encrypted reasoning
	foreign bool     // the client is the user's own
	host    string   // of the service; empty if it is not known
	usual   wire     // for the model's own name
}

// connect makes the client of the fields and the environment. Without a key
// that is needed there is none. The key of OPENAI_API_KEY goes to OpenAI, or to where
// the environment says: a program with a service of its own has not asked for it.
func (c *caller) connect() {
	m := &c.model
	own := m.BaseURL != "" // by the program, and not by the environment
	m.BaseURL = cmp.Or(m.BaseURL, os.Getenv("OPENAI_BASE_URL"), defaultBaseURL)
	if u, err := url.Parse(m.BaseURL); err == nil {
		c.host = u.Hostname()
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
			c.unready = fmt.Errorf("openai: there is no API key: the environment variable %s (APIKeyEnv) is not set", env)
			return
		case m.BaseURL == defaultBaseURL:
			c.unready = errNoKey
			return
		case env == "" && os.Getenv("OPENAI_API_KEY") != "":
			c.hint = fmt.Sprintf(" (no key was sent: that of OPENAI_API_KEY is not sent to %s unless openai.WithAPIKeyEnv says so)", c.host)
		}
	}
	c.service = newEndpoint(m)
}

var errNoKey = errors.New("openai: there is no API key: set the environment variable OPENAI_API_KEY, or give openai.WithAPIKey; a service at another base URL (OPENAI_BASE_URL, openai.WithBaseURL) may need none")

// ask is the handler: one request to the service, one attempt.
func (c *caller) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	if c.unready != nil {
		return actors.Response{}, core.Permanent(c.unready)
	}
	req.Options = req.Options.Or(c.model.Options)
	name, w := c.model.Name, c.usual
	if other := req.Options.Model; other != "" && other != name {
		name, w = other, c.wireFor(other)
	}
	if c.host != "" {
		core.Annotate(ctx, "provider", c.host)
	}
	formatTool := ""
	if f := req.Options.Format; f != nil && f.ByTool {
		formatTool = f.Name
		req = withFormatTool(req)
	}
	resp, err := c.try(ctx, c.wireOf(name, w), name, req)
	if r, ok := w.(responsesWire); ok && r.encrypted && refusesReasoning(err) {
		c.plain.Store(name, true) // the refusal cost nothing
		resp, err = c.try(ctx, c.wireOf(name, w), name, req)
	}
	if err != nil {
		return resp, err
	}
	return withoutFormatTool(resp, formatTool), nil
}

// wireOf is the wire for a model, of which the service may have refused something.
func (c *caller) wireOf(name string, w wire) wire {
	if r, ok := w.(responsesWire); ok && r.encrypted {
		_, refused := c.plain.Load(name)
		r.encrypted = !refused
		return r
	}
	return w
}

// refusesReasoning reports whether the service has no encrypted reasoning for the model.
func refusesReasoning(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := strings.ToLower(e.Message)
	return strings.HasPrefix(e.Param, "include") || strings.Contains(text, "reasoning.encrypted_content") ||
		strings.Contains(text, "encrypted content is not supported")
}

// try makes one request, and asks for its answer as long as the service has it in its queue.
func (c *caller) try(ctx context.Context, w wire, name string, req actors.Request) (actors.Response, error) {
	emit := live.Emitter(ctx)
	x := c.newExchange()
	x.stream = emit != nil || c.model.FirstToken > 0 || c.model.Idle > 0
	body, err := c.body(w, name, req, x.stream)
	if err != nil {
		return actors.Response{}, core.Permanent(err)
	}
	reqCtx, silence := newSilence(ctx, c.model.FirstToken, c.model.Idle)
	defer silence.stop()
	a := &answer{emit: emit, keepsRaw: req.Options.Raw}
	if silence != nil {
		a.started = silence.said
	}
	x.body = body
	err = c.send(reqCtx, x, w, a, name, silence)
	if pending := (*pendingError)(nil); errors.As(err, &pending) {
		x, err = c.poll(reqCtx, w, a, pending.id)
	}
	if err = silence.cause(reqCtx, err); err == nil {
		return a.response(req, w.from()), nil
	}
	err = x.explain(ctx, err)
	if resp, ok := mistake(err); ok {
		resp.Usage = x.spent(body, a)
		return resp, nil
	}
	return actors.Response{Usage: x.spent(body, a)}, err
}

func (c *caller) newExchange() *exchange {
	return &exchange{foreign: c.foreign, hint: c.hint}
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
	if completionsOnly.MatchString(name) && w.path() == chatPath {
		return nil, fmt.Errorf("openai: %q: %w", name, goopenai.ErrChatCompletionInvalidModel)
	}
	req.Messages = paired(req.Messages)
	return w.body(name, req, stream)
}

// send makes the request for a model and reads the reply. Without a body, the name is that
// of a response to ask for.
func (c *caller) send(ctx context.Context, x *exchange, w wire, a *answer, name string, silence *silence) error {
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
	return x.send(c.service.client, req, w, a, silence)
}

// wireFor is the API for a model.
func (c *caller) wireFor(name string) wire {
	if c.model.API == Responses || c.model.API == Auto && responsesOnly.MatchString(name) {
		return responsesWire{origin: c.origin("responses"), encrypted: true, host: c.host}
	}
	w := chatWire{origin: c.origin("chat"), tokenField: "max_tokens", plain: c.foreign, host: c.host}
	if c.isOpenAI() || reasons.MatchString(name) {
		w.tokenField = "max_completion_tokens"
	}
	return w
}

var (
	// responsesOnly are the models of OpenAI that take tools, or anything, by
	// the Responses API alone.
	responsesOnly = regexp.MustCompile(`^(gpt-([6-9]|[1-9][0-9])|o[0-9]+-(pro|deep-research)|o[0-9]+-mini-deep-research|gpt-5[0-9.]*-(pro|codex)|codex-|computer-use-)`)

	// completionsOnly are models of OpenAI from before there was chat.
	completionsOnly = regexp.MustCompile(`^((text|code)-)?(davinci|curie|babbage|ada)(-|$)`)

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
