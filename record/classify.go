package record

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/internal/errtree"
	"github.com/reprise-go/reprise/internal/mark"
)

// traits holds all properties of an error that determine whether it is retried. One walk over the
// error's tree finds them all; with errors.As, each of the dozen checks would allocate.
type traits struct {
	permanent, retryable, panicked                bool          // marks of package core
	connection, eof, canceled, timeout, temporary bool          // from errors of the standard library
	interrupted, inDoubt                          bool          // ErrInterrupted, ErrInDoubt
	markedInDoubt                                 bool          // marked with core.InDoubt
	methodClass                                   Class         // the result of a method Class
	status                                        int           // HTTP
	after                                         time.Duration // Retry-After
}

func (t *traits) class() Class {
	switch {
	case t.permanent:
		return ClassPermanent
	case t.panicked:
		return ClassPanic
	case t.methodClass != ClassUnknown:
		return t.methodClass
	case classOfStatus(t.status) != ClassUnknown: // a 200 says nothing: reading the body may have failed
		return classOfStatus(t.status)
	case t.connection:
		return ClassConnection
	case t.eof:
		return ClassEOF
	case t.canceled:
		return ClassCanceled
	case t.timeout:
		return ClassTimeout
	case t.temporary:
		return ClassNetwork
	}
	return ClassUnknown
}

// Traits holds the properties of an error that determine whether it is retried.
type Traits struct {
	Class      Class
	Retryable  bool          // marked with core.Retryable
	HTTPStatus int           // 0 if there is none
	RetryAfter time.Duration // the delay that the service asked for, or 0

	Interrupted   bool // errors.Is finds ErrInterrupted
	InDoubt       bool // errors.Is finds ErrInDoubt
	MarkedInDoubt bool // the handler marked the error with core.InDoubt
	Endless       bool // errors.Is would not return: the error wraps itself or too many errors
}

// Inspect returns the traits of err and of all errors that it wraps. If a method of one of these
// errors panics, for example because its receiver is nil, the search ends.
func Inspect(err error) (found Traits) {
	var t traits
	defer func() {
		panicked := recover() != nil
		endless := found.Endless
		found = t.toTraits()
		if found.Endless = endless; panicked {
			found.Endless = isEndless(err)
		}
	}()
	found.Endless = !errtree.Walk(err, t.inspect)
	return found
}

// isEndless reports whether err wraps itself. If a method Unwrap panics, the chain ends there.
func isEndless(err error) (endless bool) {
	defer func() { _ = recover() }()
	return !errtree.Walk(err, func(error) {})
}

func (t *traits) toTraits() Traits {
	return Traits{
		Class: t.class(), Retryable: t.retryable, HTTPStatus: t.status, RetryAfter: max(t.after, 0), Interrupted: t.interrupted, InDoubt: t.inDoubt, MarkedInDoubt: t.markedInDoubt,
	}
}

// plainType is the type of the errors that errors.New returns. Its only method is Error.
var plainType = reflect.TypeOf(errGone)

// addPlain adds the traits of an error of plainType.
func (t *traits) addPlain(err error) {
	switch err {
	case ErrInterrupted:
		t.interrupted = true
	case ErrInDoubt:
		t.inDoubt = true
	case io.ErrUnexpectedEOF:
		t.eof = true
	case context.Canceled:
		t.canceled = true
	default:
		text := err.Error()
		t.connection = t.connection || text == badConnText || isBrokenHTTP2Text(text)
	}
}

// inspect adds the traits of err itself, but not those of the errors that it wraps.
func (t *traits) inspect(err error) {
	if reflect.TypeOf(err) == plainType { // most errors have this type, which has no other methods
		t.addPlain(err)
		return
	}
	switch err.(type) {
	case *mark.Permanent: // an error that marks another has no other traits
		t.permanent = true
		return
	case *mark.Retryable:
		t.retryable = true
		return
	case *mark.InDoubt:
		t.markedInDoubt, t.inDoubt = true, true
		return
	}
	t.addMethods(err)
	t.addForeign(err)
	if _, ok := err.(*Error); ok {
		return // its own methods have returned the traits
	}
	if _, ok := err.(interface{ As(any) bool }); ok {
		t.ask(err)
	}
}

// addMethods adds the traits that the error's methods return.
func (t *traits) addMethods(err error) {
	if e, ok := err.(*Error); ok {
		t.methodClass = e.Class
		t.retryable = t.retryable || e.Is(mark.ErrRetryable)
	}
	if e, ok := err.(interface{ Class() Class }); ok {
		class := e.Class()
		t.panicked = t.panicked || class == ClassPanic
		if t.methodClass == ClassUnknown {
			t.methodClass = class
		}
	}
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok && t.after == 0 {
		t.after = e.RetryAfter()
	}
}

// addForeign adds the traits of errors from clients and from the standard library.
func (t *traits) addForeign(err error) {
	if t.status == 0 {
		switch e := err.(type) {
		case interface{ HTTPStatusCode() int }:
			t.status = e.HTTPStatusCode()
		case interface{ StatusCode() int }:
			t.status = e.StatusCode()
		}
	}
	n := node{err: err}
	n.matcher, _ = err.(interface{ Is(error) bool })
	t.connection = t.connection || n.is(syscall.ECONNREFUSED) || n.is(syscall.ECONNRESET) ||
		n.is(syscall.ECONNABORTED) || n.is(syscall.EPIPE) || isBrokenHTTP2(err)
	t.addErrno(err)
	t.interrupted = t.interrupted || n.is(ErrInterrupted)
	t.inDoubt = t.inDoubt || n.is(ErrInDoubt)
	t.eof = t.eof || n.is(io.ErrUnexpectedEOF)
	if e, ok := err.(*url.Error); ok && errors.Is(e.Err, io.EOF) {
		t.connection = true // net/http: the connection was closed before a response arrived
	}
	t.canceled = t.canceled || n.is(context.Canceled)
	if e, ok := err.(net.Error); ok {
		// context.DeadlineExceeded and os.ErrDeadlineExceeded are net.Errors too.
		t.timeout = t.timeout || e.Timeout()
		if dns, ok := err.(*net.DNSError); ok {
			t.temporary = t.temporary || dns.IsTemporary
		} else if e, ok := err.(interface{ Temporary() bool }); ok {
			t.temporary = t.temporary || e.Temporary()
		}
	}
}

// addErrno adds the traits of the operating system's error numbers. The numbers of Windows socket
// errors can be checked on all systems, since other systems use far lower numbers.
func (t *traits) addErrno(err error) {
	e, ok := err.(syscall.Errno)
	if !ok {
		return
	}
	switch e {
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.ENETRESET:
		t.temporary = true
		return
	}
	switch uintptr(e) {
	case 10050, 10051, 10052, 10064, 10065: // WSAENETDOWN, …NETUNREACH, …NETRESET, …HOSTDOWN, …HOSTUNREACH
		t.temporary = true
	case 10053, 10054, 10061: // WSAECONNABORTED, …CONNRESET, …CONNREFUSED
		t.connection = true
	case 10060: // WSAETIMEDOUT
		t.timeout = true
	}
}

// isBrokenHTTP2 reports whether err means that an HTTP/2 stream was reset or its connection was
// lost. Such errors come from net/http, which does not export their types, or from
// golang.org/x/net/http2.
func isBrokenHTTP2(err error) bool {
	switch reflect.TypeOf(err).String() {
	case "http.http2StreamError", "http2.StreamError", "http.http2GoAwayError", "http2.GoAwayError",
		"http.http2ConnectionError", "http2.ConnectionError":
		return true
	}
	return false
}

// badConnText is the text of driver.ErrBadConn, whose package is not imported.
const badConnText = "driver: bad connection"

// isBrokenHTTP2Text is like isBrokenHTTP2, but takes the text of an error that errors.New made.
func isBrokenHTTP2Text(text string) bool {
	text, ok := strings.CutPrefix(text, "http2: ")
	return ok && (strings.HasPrefix(text, "client connection") || strings.HasPrefix(text, "client conn ") ||
		strings.HasPrefix(text, "server sent GOAWAY") || strings.HasPrefix(text, "Transport received Server's graceful shutdown GOAWAY") ||
		strings.HasPrefix(text, "Transport: cannot retry err"))
}

// node is one error in a tree. It is compared with several targets.
type node struct {
	err     error
	matcher interface{ Is(error) bool } // nil for an error without that method
}

// is compares like errors.Is, but does not unwrap.
func (n node) is(target error) bool {
	if n.matcher != nil && n.matcher.Is(target) {
		return true
	}
	return n.err == target // cannot panic: the types of the targets are comparable
}

// ask adds the traits of the errors that err's As method finds.
func (t *traits) ask(err error) {
	var (
		permanent *mark.Permanent
		retryable *mark.Retryable
		classed   interface{ Class() Class }
		named     interface{ HTTPStatusCode() int }
		short     interface{ StatusCode() int }
		after     interface{ RetryAfter() time.Duration }
		network   net.Error
	)
	t.permanent = t.permanent || errors.As(err, &permanent)
	t.retryable = t.retryable || errors.As(err, &retryable)
	for _, target := range []any{&classed, &named, &short, &after, &network} {
		_ = errors.As(err, target)
	}
	for _, e := range []any{classed, named, short, after, network} {
		if e, ok := e.(error); ok && e != nil && e != err {
			t.addMethods(e)
			t.addForeign(e)
		}
	}
}
