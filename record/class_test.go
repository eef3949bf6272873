package record_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
	"github.com/reprise-go/reprise/record"
)

type httpError int

func (e httpError) Error() string       { return fmt.Sprintf("status %d", int(e)) }
func (e httpError) HTTPStatusCode() int { return int(e) }

// responseError has a status, which is 0 if there was no response, and a cause.
type responseError struct {
	status int
	cause  error
}

func (e *responseError) Error() string   { return fmt.Sprintf("status %d: %v", e.status, e.cause) }
func (e *responseError) StatusCode() int { return e.status }
func (e *responseError) Unwrap() error   { return e.cause }

// claims is an error whose method Is reports that it matches target.
type claims struct{ target error }

func (claims) Error() string          { return "claims" }
func (c claims) Is(target error) bool { return target == c.target }

// disguised is an error whose method As sets its target to another error.
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

type classedError struct{ class record.Class }

func (classedError) Error() string         { return "classed" }
func (e classedError) Class() record.Class { return e.class }

var errBoom = errors.New("boom") // class unknown

func TestClassify(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	for _, tt := range []struct {
		name string
		err  error
		want record.Class
	}{
		{"nil", nil, record.ClassUnknown},
		{"unknown", errBoom, record.ClassUnknown},

		{"refused", dial(syscall.ECONNREFUSED), record.ClassConnection},
		{"reset", dial(syscall.ECONNRESET), record.ClassConnection},
		{"aborted", dial(syscall.ECONNABORTED), record.ClassConnection},
		{"broken pipe", dial(syscall.EPIPE), record.ClassConnection},
		{"bare errno", syscall.ECONNRESET, record.ClassConnection},
		{"lost connection to a database", fmt.Errorf("insert: %w", driver.ErrBadConn), record.ClassConnection},
		{"closed sql.Conn", sql.ErrConnDone, record.ClassUnknown}, // every attempt that uses it fails
		{"connect timed out", dial(syscall.ETIMEDOUT), record.ClassTimeout},
		{"reset in a url.Error", &url.Error{Op: "Get", URL: "http://example.com", Err: dial(syscall.ECONNRESET)}, record.ClassConnection},
		{"unexpected EOF in a url.Error", &url.Error{Op: "Get", URL: "http://example.com", Err: io.ErrUnexpectedEOF}, record.ClassEOF},
		{"deadline in a url.Error", &url.Error{Op: "Get", URL: "http://example.com", Err: context.DeadlineExceeded}, record.ClassTimeout},
		{"no such file", &os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, record.ClassUnknown},
		{"permission", os.ErrPermission, record.ClassUnknown},
		{"closed connection", net.ErrClosed, record.ClassUnknown},

		{"host not found", &net.DNSError{Err: "no such host", IsNotFound: true}, record.ClassUnknown},
		{"DNS timeout", &net.DNSError{Err: "timeout", IsTimeout: true}, record.ClassTimeout},
		{"DNS temporary", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, record.ClassNetwork},
		{"DNS temporary in a dial", &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, record.ClassNetwork},
		{"network timeout", networkError{timeout: true}, record.ClassTimeout},
		{"network temporary", networkError{temporary: true}, record.ClassNetwork},
		{"network permanent", networkError{}, record.ClassUnknown},

		{"io.EOF", io.EOF, record.ClassUnknown},
		{"unexpected EOF", io.ErrUnexpectedEOF, record.ClassEOF},
		{"context.DeadlineExceeded", context.DeadlineExceeded, record.ClassTimeout},
		{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded, record.ClassTimeout},
		{"context.Canceled", context.Canceled, record.ClassCanceled},
		{"wrapped context.Canceled", fmt.Errorf("get: %w", context.Canceled), record.ClassCanceled},

		{"400", httpError(400), record.ClassClient},
		{"401", httpError(401), record.ClassClient},
		{"404", httpError(404), record.ClassClient},
		{"408", httpError(408), record.ClassTimeout},
		{"409", httpError(409), record.ClassClient},
		{"422", httpError(422), record.ClassClient},
		{"425", httpError(425), record.ClassTooEarly},
		{"429", httpError(429), record.ClassRateLimit},
		{"499", httpError(499), record.ClassClient},
		{"500", httpError(500), record.ClassServer},
		{"503", httpError(503), record.ClassServer},
		{"599", httpError(599), record.ClassServer},
		{"600", httpError(600), record.ClassUnknown},
		{"200", httpError(200), record.ClassUnknown},
		{"the short method", &responseError{503, errBoom}, record.ClassServer},
		{"wrapped status", fmt.Errorf("get: %w", httpError(503)), record.ClassServer},
		{"joined status", errors.Join(errBoom, httpError(503)), record.ClassServer},
		{"status before cause", &responseError{404, syscall.ECONNRESET}, record.ClassClient},
		{"no response, but a cause", &responseError{0, syscall.ECONNRESET}, record.ClassConnection},
		{"good status, but the body broke", &responseError{200, io.ErrUnexpectedEOF}, record.ClassEOF},

		{"permanent", core.Permanent(dial(syscall.ECONNRESET)), record.ClassPermanent},
		{"permanent status", core.Permanent(httpError(503)), record.ClassPermanent},
		{"wrapped permanent", fmt.Errorf("get: %w", core.Permanent(errBoom)), record.ClassPermanent},
		{"joined permanent", errors.Join(syscall.ECONNRESET, core.Permanent(errBoom)), record.ClassPermanent},
		{"the mark Retryable is not a class", core.Retryable(errBoom), record.ClassUnknown},
		{"retryable keeps the class", core.Retryable(httpError(404)), record.ClassClient},
		{"panic", &core.PanicError{Value: "oops"}, record.ClassPanic},
		{"timed-out attempt", &core.TimeoutError{Err: errBoom}, record.ClassTimeout},
		{"timed-out attempt with a status", &core.TimeoutError{Err: httpError(404)}, record.ClassTimeout},
		{"its own class", classedError{record.ClassRateLimit}, record.ClassRateLimit},
		{"its own class wrapped", fmt.Errorf("a: %w", classedError{record.ClassInvalid}), record.ClassInvalid},

		{"joined", errors.Join(errBoom, dial(syscall.ECONNRESET)), record.ClassConnection},
		{"joined twice", errors.Join(errBoom, errors.Join(io.EOF, io.ErrUnexpectedEOF)), record.ClassEOF},
		{"several in one wrap", fmt.Errorf("%w and %w", errBoom, syscall.ECONNREFUSED), record.ClassConnection},
		{"own Is", claims{syscall.ECONNRESET}, record.ClassConnection},
		{"own Is for EOF", claims{io.ErrUnexpectedEOF}, record.ClassEOF},
		{"own Is for a cancellation", claims{context.Canceled}, record.ClassCanceled},
		{"own Is for something else", claims{errBoom}, record.ClassUnknown},
		{"own As", disguised{networkError{timeout: true}}, record.ClassTimeout},
		{"own As temporary", fmt.Errorf("a: %w", disguised{networkError{temporary: true}}), record.ClassNetwork},
		{"failed call", &core.CallError{Reason: record.ReasonExhausted, Err: syscall.ECONNRESET}, record.ClassConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, record.Classify(tt.err), "class")
		})
	}
}

func TestTransientClasses(t *testing.T) {
	transient := map[record.Class]bool{
		record.ClassTimeout: true, record.ClassConnection: true, record.ClassEOF: true, record.ClassNetwork: true, record.ClassTooEarly: true,
		record.ClassRateLimit: true, record.ClassServer: true, record.ClassCondition: true, record.ClassArtifact: true,
	}
	for c := record.ClassUnknown; c <= record.ClassInvalid; c++ {
		assert.Equal(t, transient[c], c.IsTransient(), c.String())
	}
}

func TestHTTPStatus(t *testing.T) {
	code, ok := record.HTTPStatus(fmt.Errorf("a: %w", httpError(418)))
	assert.Equal(t, 418, code, "code")
	assert.True(t, ok, "ok")
	if _, ok := record.HTTPStatus(errBoom); ok {
		t.Error("an error without a status has one")
	}
}
