package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/internal/loopback"
	"github.com/reprise-go/reprise/runner"
)

// ServerOptions configure an MCP server for a runner's programs. The zero value is ready to use.
type ServerOptions struct {
	// Name and Version identify the server. They default to "reprise" and the version of this
	// module.
	Name, Version string

	// Instructions tell models what the server is for. They may be empty.
	Instructions string

	// Only contains the names of the programs to serve. Nil means all registered programs.
	Only []string

	// HoldFor limits how long a request from a client that does not support tasks is held open
	// until its run has ended or asks a question. After that, the answer contains the run's ID,
	// which the client passes to the tool run_wait. Defaults to 45 seconds, since many clients give
	// up after 60.
	HoldFor time.Duration

	// TaskAfter is how long a request from a client that supports tasks is held open. If the run
	// ends within this time, the client gets the result and does not have to poll. Defaults to 0:
	// the client gets a task at once, and can find the run even if this process ends immediately
	// afterwards.
	TaskAfter time.Duration

	// MaxRequest is the maximum size of a request, in bytes. A larger request is refused. Over
	// standard input and output, it also ends the session. Defaults to 16 MiB.
	MaxRequest int

	// PollInterval is how often clients should poll a task. Defaults to 1 second.
	PollInterval time.Duration

	// Authorize returns the principal that makes a request. header is the request's HTTP header, or
	// nil for stdio. A run and its task are visible only to the principal that started the run. An
	// error rejects the request: over HTTP with status 401 and the error's text, over stdio only if
	// the request concerns a run. If Authorize is nil, all requests have the same, empty principal,
	// and [NewHandler] accepts only requests from loopback addresses that no proxy has forwarded.
	Authorize func(ctx context.Context, header http.Header) (principal string, err error)

	// Log receives errors that are not reported to a client. Nil means no log.
	Log *slog.Logger
}

const (
	defaultHoldFor      = 45 * time.Second
	defaultPollInterval = time.Second
	defaultMaxRequest   = 16 << 20
)

func (o ServerOptions) withDefaults() ServerOptions {
	o.Name, o.Version = cmp.Or(o.Name, "reprise"), cmp.Or(o.Version, version())
	o.HoldFor, o.PollInterval = cmp.Or(o.HoldFor, defaultHoldFor), cmp.Or(o.PollInterval, defaultPollInterval)
	o.MaxRequest = cmp.Or(o.MaxRequest, defaultMaxRequest)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A server serves a runner's programs.
type server struct {
	runner  *runner.Runner
	options ServerOptions

	mu        sync.Mutex
	servedFor string      // the programs that the server in the field served was made for
	served    *sdk.Server // nil before the first request
}

// NewHandler returns a handler that serves the programs of r as tools over streamable HTTP. It
// speaks protocol version 2026-07-28 and earlier versions. Requests are independent: the process
// keeps no state about a client, so any process with access to the runs can answer the next
// request. The runner must be serving.
//
// A call starts a run. For a client that supports tasks, the run is a task with the same ID, and
// the run's open questions are the input that the task requires. The principal that started the run
// can find the task by this ID, even after a restart. For other clients, the request is held open
// for HoldFor. If the client supports elicitation, the run's questions are sent to it. Otherwise,
// the result explains how to wait and how to answer, using the tools run_wait and run_answer.
//
// A request with an idempotency key in its _meta, under "io.github.reprise-go/idempotencyKey",
// starts only one run, no matter how often it is sent. [Client] sends such a key.
func NewHandler(r *runner.Runner, o ServerOptions) http.Handler {
	s := &server{runner: r, options: o.withDefaults()}
	served := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.current() }, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, DisableLocalhostProtection: o.Authorize != nil, MaxRequestBodyBytes: int64(s.options.MaxRequest),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := s.authorize(r.Context(), r.Header)
		switch {
		case o.Authorize == nil && !loopback.Is(r.RemoteAddr):
			http.Error(w, "without ServerOptions.Authorize, only requests from this machine are served", http.StatusForbidden)
		case o.Authorize == nil && loopback.IsForwarded(r.Header):
			http.Error(w, "a proxy forwarded this request, so anybody may have sent it: without ServerOptions.Authorize, only requests from this machine itself are served", http.StatusForbidden)
		case err != nil:
			w.Header().Set("WWW-Authenticate", "Bearer") // tells clients to sign in
			http.Error(w, "not authorized: "+err.Error(), http.StatusUnauthorized)
		case r.ContentLength > int64(s.options.MaxRequest):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = w.Write(s.tooLargeResponse()) // the client may be gone
		default:
			served.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)))
		}
	})
}

// tooLargeResponse returns the response to a request that is too large.
func (s *server) tooLargeResponse() []byte {
	return unreadableResponse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("the request is larger than ServerOptions.MaxRequest, %d bytes", s.options.MaxRequest))
}

// unreadableResponse returns the response to a request that could not be read and whose ID is
// therefore unknown.
func unreadableResponse(code int64, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, message)
}

// ServeStdio serves the programs of r as tools over standard input and output, as [NewHandler] does
// over HTTP, until ctx or the input ends. Until ServeStdio returns, anything that the program
// writes to os.Stdout goes to os.Stderr, because it would otherwise corrupt the session. Older
// clients that support elicitation are asked questions with elicitation/create.
func ServeStdio(ctx context.Context, r *runner.Runner, o ServerOptions) error {
	out := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = out }()
	return ServeIO(ctx, r, os.Stdin, out, o)
}

// ServeIO is like [ServeStdio] but uses the given reader and writer, and closes both.
func ServeIO(ctx context.Context, r *runner.Runner, in io.ReadCloser, out io.WriteCloser, o ServerOptions) error {
	s := &server{runner: r, options: o.withDefaults()}
	defer func() { _ = out.Close() }() // all output has been written by then
	err := s.current().Run(ctx, &sdk.IOTransport{Reader: in, Writer: unclosedWriter{out}, MaxLineLength: s.options.MaxRequest})
	switch {
	case errors.Is(err, io.EOF) || ctx.Err() != nil || err == nil:
		return nil
	case isTooLarge(err):
		_, _ = out.Write(s.tooLargeResponse()) // the client may be gone
		return fmt.Errorf("mcp: a request is larger than ServerOptions.MaxRequest, %d bytes: %w", s.options.MaxRequest, err)
	case isSyntax(err):
		_, _ = out.Write(unreadableResponse(jsonrpc.CodeParseError, "the request is not JSON")) // likewise
	}
	return fmt.Errorf("mcp: %w", err)
}

// unclosedWriter is a writer that the SDK does not close.
type unclosedWriter struct{ io.Writer }

// Close implements io.Closer.
func (unclosedWriter) Close() error { return nil }

// current returns a server for the currently registered programs.
func (s *server) current() *sdk.Server {
	programs := s.programs()
	var of strings.Builder
	for i := range programs {
		fmt.Fprintf(&of, "%s %s\n", programs[i].Name, programs[i].Version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served == nil || s.servedFor != of.String() {
		s.served, s.servedFor = s.newServer(programs), of.String()
	}
	return s.served
}

// programs returns descriptions of the served programs.
func (s *server) programs() []runner.ProgramInfo {
	var served []runner.ProgramInfo
	for _, d := range s.runner.Describe() {
		if s.isServed(d.Name) {
			served = append(served, d)
		}
	}
	return served
}

func (s *server) newServer(programs []runner.ProgramInfo) *sdk.Server {
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	capabilities.AddExtension(tasksExtension, nil)
	capabilities.AddExtension(keyMeta, nil)
	served := sdk.NewServer(&sdk.Implementation{Name: s.options.Name, Version: s.options.Version}, &sdk.ServerOptions{
		Instructions: s.options.Instructions, Capabilities: capabilities, PageSize: maxTools,
	})
	unused := func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("mcp: the middleware did not answer")
	}
	for i := range programs {
		d := &programs[i]
		served.AddTool(&sdk.Tool{Name: d.Name, Description: d.About, InputSchema: objectSchema(d.Input)}, unused)
	}
	for _, t := range s.runTools() {
		served.AddTool(t, unused)
	}
	served.AddReceivingMiddleware(s.middleware)
	s.addTaskMethods(served)
	return served
}

// middleware answers tool calls instead of the SDK, which does not support tasks. It also recovers
// from panics, which would otherwise end the process.
func (s *server) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.options.Log.Error("a request panicked", "method", method, "panic", p)
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		call, ok := request.(*sdk.CallToolRequest)
		if !ok {
			return next(context.WithValue(ctx, extraKey{}, request.GetExtra()), method, request)
		}
		return s.callTool(ctx, call)
	}
}

// extraKey is the context key of a request's extra data.
type extraKey struct{}

func extraOf(ctx context.Context) *sdk.RequestExtra {
	extra, _ := ctx.Value(extraKey{}).(*sdk.RequestExtra)
	return extra
}

// principalKey is the context key of the principal that makes an HTTP request.
type principalKey struct{}

// principalOf returns the principal that makes a request.
func (s *server) principalOf(ctx context.Context) (string, error) {
	if principal, ok := ctx.Value(principalKey{}).(string); ok {
		return principal, nil
	}
	principal, err := s.authorize(ctx, nil)
	if err != nil {
		return "", &jsonrpc.Error{Code: codeUnauthorized, Message: "not authorized: " + err.Error()}
	}
	return principal, nil
}

func (s *server) authorize(ctx context.Context, header http.Header) (principal string, err error) {
	if s.options.Authorize == nil {
		return "", nil
	}
	return s.options.Authorize(ctx, header)
}

const (
	codeUnauthorized      = -32001
	codeMissingCapability = -32021
)

// invalid returns the error for a request with invalid parameters.
func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
