package core

import "github.com/reprise-go/reprise/internal/engine"

// InDoubtPolicy sets what happens to a call in doubt, whose handler may or may not have taken
// effect: its process ended, or its run was interrupted, while the handler ran, or the handler
// returned an error marked by [InDoubt]. The policy is also for calls of an irreversible actor that
// might repeat an effect. It applies when the run is resumed; after an error marked by [InDoubt], it
// applies at once.
//
// InDoubtFail and InDoubtAsk also apply, at once, to an attempt that may have taken effect although
// its handler does not say so:
//
//   - it exceeded a time limit, panicked, or called runtime.Goexit;
//   - its handler returned an error of the classes timeout, connection, eof, network, server or
//     canceled, which means that the response was lost;
//   - its handler succeeded, and then a postcondition, an interceptor, or the encoding or storing of
//     the output failed.
//
// An attempt has failed, and is retried as configured, if its handler returned any other error, an
// error marked by [Retryable] or [Permanent], or one that means that the request was not handled: no
// connection was made (an error of a dial, of DNS or of a proxy, ECONNREFUSED, a timeout of the TLS
// handshake), or the HTTP status is 503 or 4xx. The timeout of an http.Client or a context does not say
// whether it passed during the dial, so the attempt is in doubt; that of a net.Dialer does. What an
// interceptor makes of the error of a handler does not matter. With InDoubtRetry, all such attempts
// have failed.
//
// The class of the error of a call that failed in doubt does not cause a retry of a call around it,
// since that would make the call in doubt again. The call around it is retried if its handler marks
// the error by [Retryable] or its configuration selects the error.
type InDoubtPolicy = engine.InDoubt

// The choices for calls in doubt.
const (
	InDoubtDefault = engine.InDoubtDefault // InDoubtAsk for an irreversible actor, InDoubtRetry for any other
	InDoubtRetry   = engine.InDoubtRetry   // the attempt is made again
	InDoubtFail    = engine.InDoubtFail    // the call fails with ErrInDoubt
	InDoubtAsk     = engine.InDoubtAsk     // the call waits for an answer, such as state.InDoubtRunAgain
)
