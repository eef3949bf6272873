package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// ErrLost is wrapped by the error from a call that was sent but got no response. The call may have
// taken effect.
var ErrLost = errors.New("mcp: the call was lost after it was sent")

// A ServerError is an error returned by the server.
//
//	Code    int    // the JSON-RPC error code; 0 for an error from a tool
//	Message string // the text from the server
type ServerError struct {
	Code    int
	Message string
}

// Error returns the server's message, with the code if it is not zero.
func (e *ServerError) Error() string {
	if e.Code == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

func init() {
	record.RegisterError("mcp.ErrClosed", ErrClosed)
	record.RegisterError("mcp.ErrLost", ErrLost)
	record.RegisterErrorType[*ServerError]("mcp.ServerError")
}

// request sends a request to the server and returns the raw result. send makes the request with the
// SDK. It must pass on the progress token, by which the tap recognizes the request. For methods
// that the SDK does not know, name is the value of the Mcp-Name header.
//
// If the server answered with an error, the error is a *ServerError. If the server cannot have
// received the request, or has rejected it for now, the error is retryable. If the request was sent
// but no response came, the error wraps [ErrLost].
func (c *Client) request(ctx context.Context, name string, send func(context.Context, *session, string) error) (json.RawMessage, error) {
	s, err := c.acquire(ctx)
	if err != nil {
		return nil, notSentError(err)
	}
	token := tokenOf(c.calls.Add(1))
	e, forget := s.tap.expect(token, name, live.Emitter(ctx))
	defer forget()
	err = send(ctx, s, token)
	end := e.fate()
	switch {
	case ctx.Err() != nil: // a response that arrives now may only report the cancellation
		c.release(s, end.unread)
		return nil, c.endedError(context.Cause(ctx), end)
	case end.response != nil:
		c.release(s, false)
		return resultOfResponse(end.response)
	case err == nil: // the SDK answered from its cache
		c.release(s, false)
		return nil, nil
	}
	end.tooLarge = end.tooLarge || isTooLarge(err) && s.tap.isAlone(e) // otherwise the large message may be the response to another request
	lost, failure := c.classify(c.explain(err, s.process), end)
	c.release(s, lost)
	return nil, failure
}

// endedError returns the error for a request whose context ended with the given cause.
func (c *Client) endedError(cause error, end fate) error {
	if end.unread {
		cause = fmt.Errorf("%w (%w)", cause, errUnread)
	}
	if end.sent {
		return fmt.Errorf("mcp: %s: %w: %w", c.name, ErrLost, cause)
	}
	return notSentError(cause)
}

// notSentError returns the error for a request that was never sent. The error is retryable even if
// the request's context has ended. For a call that must not be repeated, a retryable error shows
// that the call had no effect.
func notSentError(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return core.Retryable(err)
}

// classify returns the error for a request that got no response, and reports whether the session is
// lost.
func (c *Client) classify(err error, end fate) (lost bool, failure error) {
	switch status := end.status; {
	case end.tooLarge:
		return true, unreadable(fmt.Errorf("%w (a message from the server is larger than Options.MaxResult, %d bytes)", err, c.options.MaxResult))
	case status == http.StatusTooEarly || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return false, core.Retryable(err) // the server rejected the request
	case status == http.StatusNotFound || errors.Is(err, sdk.ErrSessionMissing):
		return true, core.Retryable(err) // the session no longer exists, for example after a restart
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout: // some proxies send 408 if the server is slow
		return true, core.Permanent(err)
	case !end.sent:
		return true, core.Retryable(err)
	}
	return true, fmt.Errorf("%w: %w", ErrLost, err)
}

// resultOfResponse returns the result or the error in a response.
func resultOfResponse(r *jsonrpc.Response) (json.RawMessage, error) {
	if r.Error == nil {
		return r.Result, nil
	}
	failed := &ServerError{Message: r.Error.Error()}
	var wire *jsonrpc.Error
	if errors.As(r.Error, &wire) {
		failed.Code, failed.Message = int(wire.Code), wire.Message
	}
	return nil, core.Permanent(failed)
}

// An unreadableError means that the result of a request arrived but cannot be read.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// unreadable marks err as the error for a result that cannot be read. The request is not made again.
func unreadable(err error) error { return core.Permanent(&unreadableError{err}) }

// inDoubt marks the error from a call to the tool if the call may have taken effect: the call was
// lost, or its result cannot be read.
func (l *ListedTool) inDoubt(err error) error {
	var unread *unreadableError
	if errors.Is(err, ErrLost) || !l.isSafe() && errors.As(err, &unread) {
		return core.InDoubt(err)
	}
	return err
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || strings.Contains(err.Error(), "invalid character")
}

func isTooLarge(err error) bool {
	text := err.Error()
	return strings.Contains(text, "maximum line length") || strings.Contains(text, "event exceeded") || strings.Contains(text, "exceeds max") || strings.Contains(text, "token too long")
}

// version returns the version of this module that is linked into the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/reprise-go/reprise/adapters/mcp" && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}
