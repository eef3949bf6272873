package engine

import (
	"errors"
	"net"
	"syscall"

	"github.com/reprise-go/reprise/record"
)

// mayHaveActed reports whether the failed attempt may have had an effect, even though its handler
// did not mark the error with core.InDoubt: the handler was abandoned or panicked, the response of
// a service was lost, or a stage after the handler failed. It returns false if the attempt may be
// repeated, or if the handler did not run.
func (c *Call) mayHaveActed(r *attemptEnd) bool {
	if !c.mustNotRepeat() || r.refused || c.spec.Kind.IsEntered() || r.Err == errUnsatisfied { //nolint:errorlint // of this call, not of a call inside
		return false
	}
	if r.Panicked || r.acted {
		return true
	}
	c.find(r)
	switch r.Stage {
	case record.StagePostcondition, record.StageEncode, record.StageArtifact:
		return true
	case record.StageHandler:
		return !r.traits.Retryable && isResponseLost(r.Err, &r.traits)
	}
	return false
}

// isResponseLost reports whether err means that a request may have been handled even though its
// result is unknown. It returns false if the service was not reached, refused the request, or
// reported that it is temporarily unavailable.
func isResponseLost(err error, t *record.Traits) bool {
	switch {
	case t.HTTPStatus == 503 || t.HTTPStatus >= 400 && t.HTTPStatus < 500:
		return false
	case wasNotSent(err):
		return false
	}
	return isLost(t.Class)
}

// isLost reports whether an error of class c may mean that a response was lost.
func isLost(c record.Class) bool {
	switch c {
	case record.ClassTimeout, record.ClassConnection, record.ClassEOF, record.ClassNetwork, record.ClassServer, record.ClassCanceled:
		return true
	}
	return false
}

// wasNotSent reports whether err means that no connection was made for the request. It allows for
// methods of a user's error that panic.
func wasNotSent(err error) (notSent bool) {
	defer func() { _ = recover() }()
	for e := err; e != nil; e = errors.Unwrap(e) {
		if several, ok := e.(interface{ Unwrap() []error }); ok {
			return wereNotSent(several.Unwrap())
		}
		if op, ok := e.(*net.OpError); ok && op.Op == "proxyconnect" || e.Error() == tlsTimeout { //nolint:errorlint // e itself
			return true
		}
	}
	var dial *net.OpError
	var name *net.DNSError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &name) || errors.As(err, &dial) && dial.Op == "dial"
}

// tlsTimeout is the text of a net/http error whose type is not exported. The error means that the
// request was not sent, because requests are sent only after the handshake.
const tlsTimeout = "net/http: TLS handshake timeout"

// wereNotSent reports whether one of the errors means that a request was not sent, and none of the
// others means that the response to another request was lost.
func wereNotSent(errs []error) (notSent bool) {
	for _, err := range errs {
		if wasNotSent(err) {
			notSent = true
		} else if isLost(record.Classify(err)) {
			return false
		}
	}
	return notSent
}
