package openai

import (
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
)

// exchange is what net/http tells of one request. Its hooks run on goroutines
// of net/http, and some after the request is over.
type exchange struct {
	connected atomic.Bool

	mu      sync.Mutex
	secrets []string
}

// watch returns ctx for the request.
func (x *exchange) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { x.connected.Store(true) },
		WroteHeaderField: x.wrote,
	})
}

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
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, secret := range x.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// explain gives the failure of the request what core needs to know of it.
// header is that of the response, nil if there was none.
func (x *exchange) explain(ctx context.Context, header http.Header, err error) error {
	err = x.classify(ctx, header, err)
	if after, ok := core.ParseRetryAfter(header.Get, time.Now()); ok {
		return core.WithRetryAfter(err, after)
	}
	return err
}

func (x *exchange) classify(ctx context.Context, header http.Header, err error) error {
	if e := x.refusal(err); e != nil {
		e.RequestID = header.Get("X-Request-Id")
		return judge(e, header)
	}
	switch {
	case ctx.Err() != nil, core.Classify(err) != core.ClassUnknown:
		return err
	case header != nil:
		return core.Retryable(fmt.Errorf("openai: malformed reply: %w", err))
	case x.connected.Load(), errors.Is(err, io.EOF):
		// net/http has no type for most of what happens to a connection:
		// closed while it was idle, HTTP/2's GOAWAY, a plain EOF.
		return &connectionError{err}
	}
	return err
}

// refusal is the service's own error, without the key; nil if err is none.
func (x *exchange) refusal(err error) *Error {
	var (
		api  *goopenai.APIError
		body *goopenai.RequestError
	)
	readable := errors.As(err, &api)
	if readable {
		api.Message = x.redact(api.Message)
	}
	if errors.As(err, &body) { // it may wrap an APIError that could be read in part
		body.Body = []byte(x.redact(string(body.Body)))
		return ofBody(body)
	}
	if readable {
		return ofAPI(api)
	}
	return nil
}
