package record

import "github.com/reprise-go/reprise/internal/enum"

// Class is the kind of an error. It determines whether the failed attempt is retried by default.
type Class uint8

// The classes of errors. Those marked transient are retried by default.
const (
	ClassUnknown    Class = iota // not retried
	ClassTimeout                 // transient: an attempt or an operation in it timed out, or HTTP 408
	ClassConnection              // transient: a connection was refused, reset, aborted or broken
	ClassEOF                     // transient: a stream ended too early
	ClassNetwork                 // transient: a network error that says it is temporary
	ClassTooEarly                // transient: HTTP 425
	ClassRateLimit               // transient: HTTP 429
	ClassServer                  // transient: HTTP 5xx
	ClassCondition               // transient: a postcondition does not hold
	ClassArtifact                // transient: a large output could not be stored
	ClassClient                  // every other HTTP 4xx
	ClassCanceled                // an operation in the call was cancelled, but not the call itself
	ClassPermanent               // marked with core.Permanent
	ClassPanic                   // a panic
	ClassInvalid                 // a precondition failed, a definition is invalid, or a value cannot be encoded
	ClassBreaker                 // transient: refused by an open circuit breaker
	classEnd
)

var classNames = [classEnd]string{
	ClassUnknown: "unknown", ClassTimeout: "timeout", ClassConnection: "connection", ClassEOF: "eof",
	ClassNetwork: "network", ClassTooEarly: "too_early", ClassRateLimit: "rate_limit", ClassServer: "server",
	ClassCondition: "condition", ClassArtifact: "artifact", ClassClient: "client", ClassCanceled: "canceled",
	ClassPermanent: "permanent", ClassPanic: "panic", ClassInvalid: "invalid",
	ClassBreaker: "breaker",
}

// String returns the wire name, such as "rate_limit".
func (c Class) String() string { return enum.Name(classNames[:], uint8(c), "class") }

// MarshalText returns the wire name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses a name that MarshalText returned.
func (c *Class) UnmarshalText(text []byte) error {
	return enum.Parse(classNames[:], text, "class", (*uint8)(c))
}

// IsTransient reports whether errors of the class are retried by default.
func (c Class) IsTransient() bool {
	return c >= ClassTimeout && c <= ClassArtifact || c == ClassBreaker
}

// Classify returns the class of an error. It searches err and all errors that err wraps for marks
// of package core, a method Class() Class, an HTTP status (a method HTTPStatusCode or StatusCode
// that returns int), and errors from packages net, syscall, io and os. The class of nil and of any
// other error is ClassUnknown.
func Classify(err error) Class {
	return Inspect(err).Class
}

// HTTPStatus returns the HTTP status code in err. It takes the code from the first error, among err
// and the errors that err wraps, that has a method HTTPStatusCode() int or StatusCode() int.
func HTTPStatus(err error) (code int, ok bool) {
	code = Inspect(err).HTTPStatus
	return code, code != 0
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
