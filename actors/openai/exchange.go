package openai

import (
	"bytes"
	"context"
	"encoding/json"
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

// The maximum sizes of a reply and of the body of a failure, in bytes.
const (
	maxReply   = 256 << 20
	maxFailure = 64 << 10
)

// An exchange is one request and its response.
//
// net/http calls the hooks in trace on its own goroutines, some of them after
// the request has ended.
type exchange struct {
	body     []byte // request body; nil if there is none
	stream   bool
	external bool   // sent by a client passed to WithClient
	hint     string // appended to error messages about a missing key
	end      func() // cancels a stream that does not end after its last event; nil without a stream

	status         int // 0 without a response
	responseHeader http.Header
	failure        []byte // body of a failure, with secrets redacted

	trace     httptrace.ClientTrace
	connected atomic.Bool

	requestHeader http.Header // request header, not yet searched for secrets
	mu            sync.Mutex
	secrets       []string
}

// watch returns a context with the hooks for the request. For a client passed to WithClient, the
// hooks also observe the request headers.
func (x *exchange) watch(ctx context.Context) context.Context {
	x.trace.GotConn = x.gotConn
	if x.external {
		x.trace.WroteHeaderField = x.addSecrets
	}
	return httptrace.WithClientTrace(ctx, &x.trace)
}

func (x *exchange) gotConn(httptrace.GotConnInfo) { x.connected.Store(true) }

// addSecrets remembers the credentials in a request header, because services quote the key in error
// messages.
func (x *exchange) addSecrets(name string, values []string) {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Proxy-Authorization", "Api-Key", "X-Api-Key":
	default:
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, value := range values {
		_, secret, found := strings.Cut(value, " ") // as in "Bearer KEY"
		if !found {
			secret = value
		}
		if len(secret) >= minSecret {
			x.secrets = append(x.secrets, secret)
		}
	}
}

// minSecret is the minimum length of a secret. Shorter values are placeholders, such as "none" for
// a server without keys; redacting them would change parts of words.
const minSecret = 8

func (x *exchange) redact(text string) string {
	for name, values := range x.requestHeader {
		x.addSecrets(name, values)
	}
	x.requestHeader = nil
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, secret := range x.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// send sends the request and reads the reply.
func (x *exchange) send(client goopenai.HTTPDoer, req *http.Request, w wire, a *answer, watchdog *watchdog) error {
	x.requestHeader = req.Header
	resp, err := client.Do(req)
	if err != nil {
		return x.requestError(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	x.status, x.responseHeader = resp.StatusCode, resp.Header
	switch sent := resp.Request; {
	case sent != nil && sent.Method != req.Method:
		return core.Permanent(fmt.Errorf("openai: the service redirects from %s to %s, but net/http would follow without the request body; use the latter as the base URL", req.URL.Redacted(), sent.URL.Redacted()))
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return errors.New("openai: unexpected redirect")
	case resp.StatusCode < 200 || resp.StatusCode >= 400:
		return x.responseError(resp)
	case x.stream, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"): // some services always stream
		x.stream = true
		err := x.readStream(w, a, resp.Body, watchdog)
		if err == nil && x.end != nil {
			drain(resp.Body, x.end)
		}
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxReply:
		return core.Permanent(fmt.Errorf("openai: malformed reply: more than %d bytes", maxReply))
	}
	return x.readWhole(w, a, bytes.TrimPrefix(body, byteOrderMark), "JSON")
}

// requestError returns the error for a request that received no response.
func (x *exchange) requestError(err error) error {
	var reply *replyError
	if errors.As(err, &reply) {
		x.status, x.responseHeader = http.StatusOK, reply.header
		return reply.err
	}
	return err
}

// responseError returns the error for a response with a failure status, as one of go-openai's error
// types.
func (x *exchange) responseError(resp *http.Response) error {
	// A truncated body is more useful than the error from reading it.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	x.failure = []byte(x.redact(string(body)))
	var reply goopenai.ErrorResponse
	err := json.Unmarshal(x.failure, &reply)
	if err == nil && reply.Error != nil {
		reply.Error.HTTPStatus, reply.Error.HTTPStatusCode = resp.Status, resp.StatusCode
		return reply.Error
	}
	refusal := &goopenai.RequestError{HTTPStatus: resp.Status, HTTPStatusCode: resp.StatusCode, Err: err, Body: x.failure}
	if reply.Error != nil {
		refusal.Err = reply.Error
	}
	return refusal
}

// explain adds to an error what core needs to know: its class and how long to wait.
func (x *exchange) explain(ctx context.Context, err error) error {
	err = x.classify(ctx, err)
	var e *Error
	errors.As(err, &e)
	if after, ok := retryAfter(e, x.responseHeader, time.Now()); ok {
		return core.WithRetryAfter(err, after)
	}
	return err
}

func (x *exchange) classify(ctx context.Context, err error) error {
	if e := x.serviceError(err); e != nil {
		if e.RequestID == "" {
			e.RequestID = x.responseHeader.Get("X-Request-Id")
		}
		for _, text := range [...]*string{&e.Type, &e.Code, &e.Param, &e.Message, &e.RequestID} {
			*text = x.redact(*text)
		}
		if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
			e.Message += x.hint
		}
		if x.external && x.responseHeader == nil {
			e.Message += " (a client passed to WithClient does not expose its headers, such as Retry-After)"
		}
		return markRetry(e, x.responseHeader)
	}
	switch {
	case ctx.Err() != nil, record.Classify(err) != record.ClassUnknown:
		return err
	case x.status/100 == 2:
		return &misreadError{err}
	case x.status != 0:
		return core.Retryable(err)
	case x.connected.Load(), errors.Is(err, io.EOF):
		// net/http has no error types for most connection failures: an idle connection
		// closed by the server, an HTTP/2 GOAWAY, a plain EOF.
		return &connectionError{err}
	}
	return err
}

// serviceError returns the error reported by the service, with secrets redacted, or nil
// if err is another error.
func (x *exchange) serviceError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if x.failure == nil {
		return nil
	}
	e = errorOfBody(x.failure)
	e.Status, e.err = x.status, err
	return e
}

// estimate returns the usage of a stream that broke off: what the service has reported, or else an
// approximation with four bytes per token.
func estimate(body []byte, a *answer) core.Usage {
	if !a.usage.IsZero() {
		return a.usage
	}
	outputBytes := a.streamedBytes + a.text.Len() + a.reasoning.Len() + a.refusal.Len()
	for _, call := range a.calls {
		outputBytes += call.arguments.Len()
	}
	if outputBytes == 0 {
		return core.Usage{}
	}
	return core.Usage{InputTokens: (len(body) + 3) / 4, OutputTokens: (outputBytes + 3) / 4, Estimated: true}
}
