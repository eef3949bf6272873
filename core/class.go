package core

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
)

// Class is the kind of an error as far as retrying it is concerned.
type Class uint8

// The classes of errors. Those marked transient are retried by default.
const (
	ClassUnknown    Class = iota // not retried
	ClassTimeout                 // transient: an attempt or an operation in it timed out, HTTP 408
	ClassConnection              // transient: connection refused, reset, aborted, broken pipe
	ClassEOF                     // transient: a stream ended in the middle
	ClassNetwork                 // transient: a network error that calls itself temporary
	ClassTooEarly                // transient: HTTP 425
	ClassRateLimit               // transient: HTTP 429
	ClassServer                  // transient: HTTP 5xx
	ClassCondition               // transient: a postcondition does not hold
	ClassArtifact                // transient: a large output could not be stored
	ClassClient                  // every other HTTP 4xx
	ClassCanceled                // an operation was cancelled, although nothing around the call was
	ClassPermanent               // marked with Permanent
	ClassPanic                   // a panic
	ClassInvalid                 // a precondition, an invalid definition, a value that has no encoding
	classEnd
)

var classNames = [classEnd]string{
	ClassUnknown: "unknown", ClassTimeout: "timeout", ClassConnection: "connection", ClassEOF: "eof",
	ClassNetwork: "network", ClassTooEarly: "too_early", ClassRateLimit: "rate_limit", ClassServer: "server",
	ClassCondition: "condition", ClassArtifact: "artifact", ClassClient: "client", ClassCanceled: "canceled",
	ClassPermanent: "permanent", ClassPanic: "panic", ClassInvalid: "invalid",
}

// String is the name on the wire, such as "rate_limit".
func (c Class) String() string { return nameOf(classNames[:], uint8(c), "class") }

// MarshalText writes the name on the wire.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// IsTransient reports whether errors of the class are retried by default.
func (c Class) IsTransient() bool { return c >= ClassTimeout && c <= ClassArtifact }

// Classify tells the class of an error: by the marks of this package, by an
// HTTP status (a method HTTPStatusCode or StatusCode that returns int,
// anywhere in the chain), by what package net, syscall, io and os return. An
// error that none of these explains is ClassUnknown. Classify(nil) is
// ClassUnknown.
func Classify(err error) Class {
	if err == nil {
		return ClassUnknown
	}
	if c := markedClass(err); c != ClassUnknown {
		return c
	}
	if status, ok := HTTPStatus(err); ok {
		return classOfStatus(status)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.EPIPE):
		return ClassConnection
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ClassEOF
	case errors.Is(err, context.Canceled):
		return ClassCanceled
	}
	return classOfNetwork(err)
}

func markedClass(err error) Class {
	var (
		permanent *permanentError
		panicked  *PanicError
		timeout   *TimeoutError
		classed   interface{ Class() Class }
	)
	switch {
	case errors.As(err, &permanent):
		return ClassPermanent
	case errors.As(err, &panicked):
		return ClassPanic
	case errors.As(err, &timeout):
		return ClassTimeout
	case errors.As(err, &classed):
		return classed.Class()
	}
	return ClassUnknown
}

// classOfNetwork asks net.Error, which context.DeadlineExceeded and
// os.ErrDeadlineExceeded are too.
func classOfNetwork(err error) Class {
	var network net.Error
	if !errors.As(err, &network) {
		return ClassUnknown
	}
	if network.Timeout() {
		return ClassTimeout
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsTemporary {
		return ClassNetwork
	}
	var temporary interface{ Temporary() bool }
	if errors.As(err, &temporary) && temporary.Temporary() {
		return ClassNetwork
	}
	return ClassUnknown
}

// HTTPStatus finds the status code of an HTTP response in an error: the first
// in its chain that has a method HTTPStatusCode() int or StatusCode() int.
func HTTPStatus(err error) (code int, ok bool) {
	var named interface{ HTTPStatusCode() int }
	if errors.As(err, &named) {
		return named.HTTPStatusCode(), true
	}
	var short interface{ StatusCode() int }
	if errors.As(err, &short) {
		return short.StatusCode(), true
	}
	return 0, false
}

func classOfStatus(code int) Class {
	switch {
	case code == 408:
		return ClassTimeout
	case code == 425:
		return ClassTooEarly
	case code == 429:
		return ClassRateLimit
	case code >= 500 && code <= 599:
		return ClassServer
	case code >= 400 && code <= 499:
		return ClassClient
	}
	return ClassUnknown
}
