package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
)

type httpError int

func (e httpError) Error() string       { return fmt.Sprintf("status %d", int(e)) }
func (e httpError) HTTPStatusCode() int { return int(e) }

// responseError has a status, 0 if there was no response, and a cause.
type responseError struct {
	status int
	cause  error
}

func (e *responseError) Error() string   { return fmt.Sprintf("status %d: %v", e.status, e.cause) }
func (e *responseError) StatusCode() int { return e.status }
func (e *responseError) Unwrap() error   { return e.cause }

// claims is an error that says for itself what it is.
type claims struct{ target error }

func (claims) Error() string          { return "claims" }
func (c claims) Is(target error) bool { return target == c.target }

// disguised is found as another error.
type disguised struct{ as net.Error }

func (disguised) Error() string { return "disguised" }
func (d disguised) As(target any) bool {
	if p, ok := target.(*net.Error); ok {
		*p = d.as
		return true
	}
	return false
}

type networkError struct{ timeout, temporary bool }

func (networkError) Error() string     { return "network" }
func (e networkError) Timeout() bool   { return e.timeout }
func (e networkError) Temporary() bool { return e.temporary }

type classedError struct{ class core.Class }

func (classedError) Error() string       { return "classed" }
func (e classedError) Class() core.Class { return e.class }

func TestClassify(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	for _, tt := range []struct {
		name string
		err  error
		want core.Class
	}{
		{"nil", nil, core.ClassUnknown},
		{"unknown", errBoom, core.ClassUnknown},

		{"refused", dial(syscall.ECONNREFUSED), core.ClassConnection},
		{"reset", dial(syscall.ECONNRESET), core.ClassConnection},
		{"aborted", dial(syscall.ECONNABORTED), core.ClassConnection},
		{"broken pipe", dial(syscall.EPIPE), core.ClassConnection},
		{"bare errno", syscall.ECONNRESET, core.ClassConnection},
		{"connect timed out", dial(syscall.ETIMEDOUT), core.ClassTimeout},
		{"reset in a url.Error", &url.Error{Op: "Get", URL: "http://example.com", Err: dial(syscall.ECONNRESET)}, core.ClassConnection},
		{"unexpected EOF in a url.Error", &url.Error{Op: "Get", URL: "http://example.com", Err: io.ErrUnexpectedEOF}, core.ClassEOF},
		{"deadline in a url.Error", &url.Error{Op: "Get", URL: "http://example.com", Err: context.DeadlineExceeded}, core.ClassTimeout},
		{"no such file", &os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, core.ClassUnknown},
		{"permission", os.ErrPermission, core.ClassUnknown},
		{"closed connection", net.ErrClosed, core.ClassUnknown},

		{"host not found", &net.DNSError{Err: "no such host", IsNotFound: true}, core.ClassUnknown},
		{"DNS timeout", &net.DNSError{Err: "timeout", IsTimeout: true}, core.ClassTimeout},
		{"DNS temporary", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, core.ClassNetwork},
		{"DNS temporary in a dial", &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, core.ClassNetwork},
		{"network timeout", networkError{timeout: true}, core.ClassTimeout},
		{"network temporary", networkError{temporary: true}, core.ClassNetwork},
		{"network permanent", networkError{}, core.ClassUnknown},

		{"io.EOF", io.EOF, core.ClassUnknown},
		{"unexpected EOF", io.ErrUnexpectedEOF, core.ClassEOF},
		{"context.DeadlineExceeded", context.DeadlineExceeded, core.ClassTimeout},
		{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded, core.ClassTimeout},
		{"context.Canceled", context.Canceled, core.ClassCanceled},
		{"wrapped context.Canceled", fmt.Errorf("get: %w", context.Canceled), core.ClassCanceled},

		{"400", httpError(400), core.ClassClient},
		{"401", httpError(401), core.ClassClient},
		{"404", httpError(404), core.ClassClient},
		{"408", httpError(408), core.ClassTimeout},
		{"409", httpError(409), core.ClassClient},
		{"422", httpError(422), core.ClassClient},
		{"425", httpError(425), core.ClassTooEarly},
		{"429", httpError(429), core.ClassRateLimit},
		{"499", httpError(499), core.ClassClient},
		{"500", httpError(500), core.ClassServer},
		{"503", httpError(503), core.ClassServer},
		{"599", httpError(599), core.ClassServer},
		{"600", httpError(600), core.ClassUnknown},
		{"200", httpError(200), core.ClassUnknown},
		{"the short method", &responseError{503, errBoom}, core.ClassServer},
		{"wrapped status", fmt.Errorf("get: %w", httpError(503)), core.ClassServer},
		{"joined status", errors.Join(errBoom, httpError(503)), core.ClassServer},
		{"status before cause", &responseError{404, syscall.ECONNRESET}, core.ClassClient},
		{"no response, but a cause", &responseError{0, syscall.ECONNRESET}, core.ClassConnection},
		{"good status, but the body broke", &responseError{200, io.ErrUnexpectedEOF}, core.ClassEOF},

		{"permanent", core.Permanent(dial(syscall.ECONNRESET)), core.ClassPermanent},
		{"permanent status", core.Permanent(httpError(503)), core.ClassPermanent},
		{"wrapped permanent", fmt.Errorf("get: %w", core.Permanent(errBoom)), core.ClassPermanent},
		{"joined permanent", errors.Join(syscall.ECONNRESET, core.Permanent(errBoom)), core.ClassPermanent},
		{"retryable is a mark, no class", core.Retryable(errBoom), core.ClassUnknown},
		{"retryable keeps the class", core.Retryable(httpError(404)), core.ClassClient},
		{"panic", &core.PanicError{Value: "oops"}, core.ClassPanic},
		{"timed-out attempt", &core.TimeoutError{Err: errBoom}, core.ClassTimeout},
		{"timed-out attempt with a status", &core.TimeoutError{Err: httpError(404)}, core.ClassTimeout},
		{"its own class", classedError{core.ClassRateLimit}, core.ClassRateLimit},
		{"its own class wrapped", fmt.Errorf("a: %w", classedError{core.ClassInvalid}), core.ClassInvalid},

		{"joined", errors.Join(errBoom, dial(syscall.ECONNRESET)), core.ClassConnection},
		{"joined twice", errors.Join(errBoom, errors.Join(io.EOF, io.ErrUnexpectedEOF)), core.ClassEOF},
		{"several in one wrap", fmt.Errorf("%w and %w", errBoom, syscall.ECONNREFUSED), core.ClassConnection},
		{"own Is", claims{syscall.ECONNRESET}, core.ClassConnection},
		{"own Is for EOF", claims{io.ErrUnexpectedEOF}, core.ClassEOF},
		{"own Is for a cancellation", claims{context.Canceled}, core.ClassCanceled},
		{"own Is for something else", claims{errBoom}, core.ClassUnknown},
		{"own As", disguised{networkError{timeout: true}}, core.ClassTimeout},
		{"own As temporary", fmt.Errorf("a: %w", disguised{networkError{temporary: true}}), core.ClassNetwork},
		{"failed call", &core.CallError{Reason: core.ReasonExhausted, Err: syscall.ECONNRESET}, core.ClassConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, core.Classify(tt.err), "class")
		})
	}
}

func TestTransientClasses(t *testing.T) {
	transient := map[core.Class]bool{
		core.ClassTimeout: true, core.ClassConnection: true, core.ClassEOF: true, core.ClassNetwork: true, core.ClassTooEarly: true,
		core.ClassRateLimit: true, core.ClassServer: true, core.ClassCondition: true, core.ClassArtifact: true,
	}
	for c := core.ClassUnknown; c <= core.ClassInvalid; c++ {
		assert.Equal(t, transient[c], c.IsTransient(), c.String())
	}
}

func TestHTTPStatus(t *testing.T) {
	code, ok := core.HTTPStatus(fmt.Errorf("a: %w", httpError(418)))
	assert.Equal(t, 418, code, "code")
	assert.True(t, ok, "ok")
	if _, ok := core.HTTPStatus(errBoom); ok {
		t.Error("boom has a status")
	}
}
