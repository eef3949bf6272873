package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// What is read of a reply, and of the body of a failure.
const (
	maxReply   = 256 << 20
	maxFailure = 64 << 10
)

// exchange is one request and what comes back. go-openai makes the URL and
// the headers; body and reply pass it by, since its types drop what they do
// not know, and its streams hide how they ended.
//
// The hooks of net/http run on goroutines of its own, and some after the
// request is over.
type exchange struct {
	body    []byte // to send; nil for none
	header  http.Header
	stream  bool
	foreign bool   // sent by a client of the user's own
	hint    string // for the error of a service that wants a key

	status  int // 0 if there was no response
	replied http.Header
	reply   []byte        // of a success that is not streamed
	failure []byte        // the body of a failure, without the key
	events  io.ReadCloser // of a success that is streamed
	blind   bool          // the headers of a failure were not shown

	trace     httptrace.ClientTrace
	connected atomic.Bool

	sent    http.Header // whose secrets are not in secrets yet
	mu      sync.Mutex
	secrets []string
}

type exchangeKey struct{}

// watch returns ctx for the request. Where go-openai sends it by a client of
// the user's own, net/http has to tell what is in its headers.
func (x *exchange) watch(ctx context.Context) context.Context {
	x.trace.GotConn = x.gotConn
	if x.foreign {
		x.trace.WroteHeaderField = x.wrote
	} else {
		ctx = context.WithValue(ctx, exchangeKey{}, x)
	}
	return httptrace.WithClientTrace(ctx, &x.trace)
}

func (x *exchange) gotConn(httptrace.GotConnInfo) { x.connected.Store(true) }

// wrote remembers what must not be shown. Services quote the key in the error
// about it.
func (x *exchange) wrote(name string, values []string) {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Proxy-Authorization", "Api-Key", "X-Api-Key":
	default:
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, value := range values {
		_, secret, found := strings.Cut(value, " ") // Bearer …
		if !found {
			secret = value
		}
		if len(secret) >= minSecret {
			x.secrets = append(x.secrets, secret)
		}
	}
}

// minSecret keeps placeholders, such as "none" for a server without keys, from
// being cut out of words.
const minSecret = 8

func (x *exchange) redact(text string) string {
	for name, values := range x.sent {
		x.wrote(name, values)
	}
	x.sent = nil
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, secret := range x.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// doer is the HTTP client of the go-openai clients that this package makes.
type doer struct{ next goopenai.HTTPDoer }

// errReceived ends go-openai's part in a request that succeeded: the wire reads
// the reply.
var errReceived = errors.New("received")

// Do sends the body of the exchange and keeps what comes back. go-openai gets
// errReceived in place of a success, and of a failure what may be shown.
func (d doer) Do(req *http.Request) (*http.Response, error) {
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	x.prepare(req)
	resp, err := d.next.Do(req)
	if err != nil {
		return nil, err
	}
	if err := x.receive(req, resp); err != nil {
		return nil, err
	}
	if x.failure == nil {
		return nil, errReceived
	}
	resp.Body = io.NopCloser(bytes.NewReader(x.failure))
	return resp, nil
}

func (x *exchange) prepare(req *http.Request) {
	if x.body != nil {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(x.body))
	}
	req.Header.Set("Content-Type", "application/json")
	if x.stream {
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Cache-Control", "no-cache")
	}
	for name, values := range x.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	x.sent = req.Header
}

// receive reads the response, unless it is a stream.
func (x *exchange) receive(req *http.Request, resp *http.Response) error {
	x.status, x.replied = resp.StatusCode, resp.Header
	if sent := resp.Request; sent != nil && sent.Method != req.Method {
		_ = resp.Body.Close()
		return core.Permanent(fmt.Errorf("openai: the service redirects from %s to %s, and net/http follows without the request's body; make the latter the base URL", req.URL.Redacted(), sent.URL.Redacted()))
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		// What came of a body that was cut off says more than its end does.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
		_ = resp.Body.Close()
		x.failure = []byte(x.redact(string(body)))
		return nil
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		x.stream = true // some services always do
	}
	if x.stream {
		x.events = resp.Body
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxReply:
		return core.Permanent(fmt.Errorf("openai: malformed reply: more than %d bytes", maxReply))
	}
	x.reply = bytes.TrimPrefix(body, byteOrderMark)
	return nil
}

// explain gives the failure of the request what core needs to know of it.
func (x *exchange) explain(ctx context.Context, err error) error {
	err = x.classify(ctx, err)
	var e *Error
	errors.As(err, &e)
	if after, ok := retryAfter(e, x.replied, time.Now()); ok {
		return core.WithRetryAfter(err, after)
	}
	return err
}

func (x *exchange) classify(ctx context.Context, err error) error {
	if e := x.refusal(err); e != nil {
		if e.RequestID == "" {
			e.RequestID = x.replied.Get("X-Request-Id")
		}
		for _, text := range [...]*string{&e.Type, &e.Code, &e.Param, &e.Message, &e.RequestID} {
			*text = x.redact(*text)
		}
		if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
			e.Message += x.hint
		}
		if x.blind {
			e.Message += " (a client given by WithClient shows no headers of it, such as Retry-After)"
		}
		return judge(e, x.replied)
	}
	switch {
	case ctx.Err() != nil, record.Classify(err) != record.ClassUnknown:
		return err
	case x.status != 0:
		return core.Retryable(err)
	case x.connected.Load(), errors.Is(err, io.EOF):
		// net/http has no type for most of what happens to a connection:
		// closed while it was idle, HTTP/2's GOAWAY, a plain EOF.
		return &connectionError{err}
	}
	return err
}

// refusal is the service's own error, without the key; nil if err is none.
func (x *exchange) refusal(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if x.failure != nil {
		e := errorOfBody(x.failure)
		e.Status, e.err = x.status, err
		return e
	}
	return x.foreignRefusal(err)
}

// estimate is what a stream that broke off will have cost, at four bytes a
// token: the service does not report it then.
func estimate(body []byte, a *answer) core.Usage {
	if !a.usage.IsZero() {
		return a.usage
	}
	said := a.said + a.text.Len() + a.reasoning.Len() + a.refusal.Len()
	for _, call := range a.calls {
		said += call.arguments.Len()
	}
	if said == 0 {
		return core.Usage{}
	}
	return core.Usage{InputTokens: (len(body) + 3) / 4, OutputTokens: (said + 3) / 4, Estimated: true}
}
