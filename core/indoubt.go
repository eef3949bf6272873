package core

import "github.com/reprise-go/reprise/internal/engine"

// InDoubtPolicy sets what happens to a call in doubt: a call whose handler may or may not have
// taken effect. A call is in doubt if the process ended or the run was interrupted while the
// handler ran, or if the handler returned an error marked by [InDoubt]. The policy is also used for
// calls of an irreversible actor that might repeat an effect. It applies when the run is resumed;
// after an error marked by [InDoubt], it applies at once.
//
// InDoubtFail and InDoubtAsk also apply, at once, to an attempt that may have taken effect even
// though its handler does not say so:
//
//   - it exceeded a time limit, panicked, or called runtime.Goexit;
//   - its handler returned an error of the class timeout, connection, eof, network, server or
//     canceled, which means that the response was lost;
//   - its handler succeeded, and then a postcondition, an interceptor, or the encoding or storing of
//     the output failed.
//
// An attempt has failed, and is retried as configured, if its handler returned any other error, an
// error marked by [Retryable] or [Permanent], or an error that means that the request was not
// handled: no connection was made (an error from dialing, DNS or a proxy, ECONNREFUSED, a TLS
// handshake timeout), or the HTTP status is 503 or 4xx, whatever the class of the error. A timeout
// of an http.Client or a context does not tell whether it occurred while dialing, so the attempt is
// in doubt; a timeout of a net.Dialer does tell. Only the handler's error counts, even if an
// interceptor replaces it. With InDoubtRetry, all these attempts have failed.
//
// If a call failed in doubt, the class of its error does not cause a retry of the surrounding call,
// because such a retry would make the call in doubt again. The surrounding call is retried if its
// handler marks the error by [Retryable] or its configuration selects the error.
type InDoubtPolicy = engine.InDoubt

// The choices for calls in doubt.
const (
	InDoubtDefault = engine.InDoubtDefault // InDoubtAsk for an irreversible actor, otherwise InDoubtRetry
	InDoubtRetry   = engine.InDoubtRetry   // the attempt is made again
	InDoubtFail    = engine.InDoubtFail    // the call fails with ErrInDoubt
	InDoubtAsk     = engine.InDoubtAsk     // the call waits for an answer, such as state.InDoubtRunAgain
)
