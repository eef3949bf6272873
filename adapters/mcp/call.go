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

// ErrLost is found by errors.Is in the error of a call that was sent, and of which no response
// came: it may have taken effect.
var ErrLost = errors.New("mcp: the call was lost after it was sent")

// A ServerError is an error with which a server has answered.
//
//	Code    int    // of JSON-RPC; 0 for that of a tool
//	Message string // in the words of the server
type ServerError struct {
	Code    int
	Message string
}

// Error returns the words of the server.
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

// request makes a request of the server and returns its raw result. send makes it with the
// SDK, with the progress token, which tells the tap which request it is. name is for the
// header Mcp-Name of methods that the SDK does not know.
//
// An error is a *ServerError if the server has answered with one. It is retryable if the
// server cannot have the request, and [ErrLost] if no response came to one that was sent.
func (c *Client) request(ctx context.Context, name string, send func(context.Context, *session, string) error) (json.RawMessage, error) {
	s, err := c.acquire(ctx)
	if err != nil {
		return nil, notSent(ctx, err)
	}
	token := tokenOf(c.calls.Add(1))
	e, forget := s.tap.expect(token, name, live.Emitter(ctx))
	defer forget()
	err = send(ctx, s, token)
	end := e.fate()
	switch {
	case ctx.Err() != nil && end.sent: // a response that comes now may be about that
		c.release(s, false)
		return nil, fmt.Errorf("mcp: %s: %w: %w", c.name, ErrLost, context.Cause(ctx))
	case ctx.Err() != nil:
		c.release(s, false)
		return nil, context.Cause(ctx)
	case end.response != nil:
		c.release(s, false)
		return answered(end.response)
	case err == nil: // the SDK has answered itself
		c.release(s, false)
		return nil, nil
	}
	end.tooLarge = end.tooLarge || isTooLarge(err) && s.tap.isAlone(e) // of the response to another otherwise
	lost, failure := c.classify(c.explain(err, s.process), end)
	c.release(s, lost)
	return nil, failure
}

// notSent returns the error of a request that did not begin.
func notSent(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	return core.Retryable(err)
}

// classify returns the error of a request to which no response came, and whether the session
// is lost.
func (c *Client) classify(err error, end fate) (lost bool, failure error) {
	switch status := end.status; {
	case end.tooLarge:
		return true, core.Permanent(fmt.Errorf("%w (a message of the server is larger than Options.MaxResult of %d bytes)", err, c.options.MaxResult))
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return false, core.Retryable(err) // it was not let in
	case status == http.StatusNotFound || errors.Is(err, sdk.ErrSessionMissing):
		return true, core.Retryable(err) // the session is gone, as after a restart
	case status >= 400 && status < 500:
		return true, core.Permanent(err)
	case !end.sent:
		return true, core.Retryable(err)
	}
	return true, fmt.Errorf("%w: %w", ErrLost, err)
}

// answered returns the result of a response.
func answered(r *jsonrpc.Response) (json.RawMessage, error) {
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

// inDoubt marks the error of a call that may have taken effect.
func inDoubt(err error) error {
	if errors.Is(err, ErrLost) {
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
	return strings.Contains(text, "maximum line length") || strings.Contains(text, "exceeds max") || strings.Contains(text, "token too long")
}

// version returns the version of this module in the program.
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
