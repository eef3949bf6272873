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

// What is read of a reply, and of the body of a failure.
const (
	maxReply   = 256 << 20
	maxFailure = 64 << 10
)

// exchange is one request and what comes back.
//
// The hooks of net/http run on goroutines of its own, and some after the
// request is over.
type exchange struct {
	body    []byte // to send; nil for none
	stream  bool
	foreign bool   // sent by a client of the user's own
	hint    string // for the error of a service that wants a key
	end     func() // ends a stream that goes on after its last event; nil for any other

	status  int // 0 if there was no response
	replied http.Header
	failure []byte // the body of a failure, without the key

	trace     httptrace.ClientTrace
	connected atomic.Bool

	sent    http.Header // whose secrets are not in secrets yet
	mu      sync.Mutex
	secrets []string
}

// watch returns ctx for the request. Where a client of the user's own sends it, net/http
// has to tell what is in its headers.
func (x *exchange) watch(ctx context.Context) context.Context {
	x.trace.GotConn = x.gotConn
	if x.foreign {
		x.trace.WroteHeaderField = x.wrote
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

// send makes the request and reads the reply.
func (x *exchange) send(client goopenai.HTTPDoer, req *http.Request, w wire, a *answer, silence *silence) error {
	x.sent = req.Header
	resp, err := client.Do(req)
	if err != nil {
		return x.unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	x.status, x.replied = resp.StatusCode, resp.Header
	switch sent := resp.Request; {
	case sent != nil && sent.Method != req.Method:
		return core.Permanent(fmt.Errorf("openai: the service redirects from %s to %s, and net/http follows without the request's body; make the latter the base URL", req.URL.Redacted(), sent.URL.Redacted()))
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return errors.New("openai: the service redirects")
	case resp.StatusCode < 200 || resp.StatusCode >= 400:
		return x.refused(resp)
	case x.stream, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"): // some services always do
		x.stream = true
		err := x.readStream(w, a, resp.Body, silence)
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

// unanswered returns the error of a request that has no response.
func (x *exchange) unanswered(err error) error {
	var reply *replyError
	if errors.As(err, &reply) {
		x.status, x.replied = http.StatusOK, reply.header
		return reply.err
	}
	return err
}

// refused returns the error of a response with a status of failure, as go-openai has it.
func (x *exchange) refused(resp *http.Response) error {
	// What came of a body that was cut off says more than its end does.
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
		if x.foreign && x.replied == nil {
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
	if x.failure == nil {
		return nil
	}
	e = errorOfBody(x.failure)
	e.Status, e.err = x.status, err
	return e
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
