package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/live"
)

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
	emit := live.Emitter(ctx)
	x := &exchange{header: c.model.Header, stream: emit != nil || c.model.FirstToken > 0 || c.model.Idle > 0}
	body, err := c.body(w, name, req, x.stream)
	if err != nil {
		return actors.Response{}, core.Permanent(err)
	}
	reqCtx, silence := newSilence(ctx, c.model.FirstToken, c.model.Idle)
	defer silence.stop()
	a := &answer{emit: emit}
	if silence != nil {
		a.started = silence.said
	}
	err = silence.cause(reqCtx, c.send(reqCtx, x, w, a, name, body, silence))
	if err != nil {
		err = x.explain(ctx, err)
		if resp, ok := mistake(err); ok {
			resp.Usage = x.spent(body, a)
			return resp, nil
		}
		return actors.Response{Usage: x.spent(body, a)}, err
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
	req.Messages = paired(req.Messages)
	return w.body(name, req, stream)
}

// send makes the request, by go-openai, and reads the reply.
func (c *caller) send(ctx context.Context, x *exchange, w wire, a *answer, name string, body []byte, silence *silence) error {
	if c.foreign {
		return x.sendForeign(x.watch(ctx), c.client, w, a, body, silence)
	}
	x.body = body
	var end context.CancelFunc
	if x.stream {
		ctx, end = context.WithCancel(ctx)
		defer end()
	}
	var err error
	if _, ok := w.(chatWire); ok {
		_, err = c.client.CreateChatCompletion(x.watch(ctx), goopenai.ChatCompletionRequest{Model: name})
	} else {
		_, err = c.client.CreateResponse(x.watch(ctx), goopenai.CreateResponseRequest{})
	}
	switch {
	case err == nil: // a status that go-openai takes for a success
		return errors.New("openai: the service redirects")
	case !errors.Is(err, errReceived):
		return err
	case x.events != nil:
		defer x.events.Close()
		err = x.readStream(w, a, silence)
		if err == nil && end != nil {
			drain(x.events, end)
		}
		return err
	}
	return x.readWhole(w, a, x.reply, "JSON")
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
