package core

import (
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// InDoubtPolicy sets what happens to a call in doubt, whose handler may or may not have taken
// effect: its process ended, or its run was interrupted, while the handler ran, or the handler
// returned an error marked by [InDoubt]. It is also for calls of an irreversible actor that might
// repeat an effect. It applies when the run is resumed, and for [InDoubt] at once.
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
// handshake), or the HTTP status is 503 or 4xx. What an interceptor makes of the error of a handler
// does not matter. With InDoubtRetry, all such attempts have failed.
//
// A call around one that failed in doubt is not retried because of the class of that error, since it
// would make the call again. It is retried if its handler marks the error by [Retryable] or its
// configuration selects the error.
type InDoubtPolicy = engine.InDoubt

// The choices for calls in doubt.
const (
	InDoubtDefault = engine.InDoubtDefault // InDoubtAsk for an irreversible actor, InDoubtRetry for any other
	InDoubtRetry   = engine.InDoubtRetry   // the attempt is made again
	InDoubtFail    = engine.InDoubtFail    // the call fails with ErrInDoubt
	InDoubtAsk     = engine.InDoubtAsk     // the call waits for an answer, such as state.InDoubtRunAgain
)

// ErrUnfit is found in the error of an answer that does not fit its question.
var ErrUnfit = engine.ErrUnfit

// Encode encodes value as an answer to the question. If the value itself does not fit, its JSON is
// used instead: a *big.Int and a json.Number as a number, a json.RawMessage as its content. If that
// does not fit either, the error is [ErrUnfit], as from [Question.Check].
func (q Question) Encode(value any) ([]byte, error) {
	encoded, err := record.Encode(value)
	if err != nil {
		return nil, err
	}
	if err = q.Check(encoded); err == nil {
		return encoded, nil
	}
	text, ok := toJSON(value)
	if !ok {
		return nil, err
	}
	v, err := codec.FromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	if encoded, err = record.Encode(v); err == nil {
		err = q.Check(encoded)
	}
	if err != nil {
		return nil, err
	}
	return encoded, nil
}

// toJSON returns the JSON of value. It reports false if value has none.
func toJSON(value any) (text []byte, ok bool) {
	defer func() {
		if recover() != nil { // a method of the user's type panicked
			ok = false
		}
	}()
	text, err := json.Marshal(value)
	return text, err == nil
}

// Check returns an error if an encoded value cannot be the answer to the question. The value must
// fit the Schema, without missing, unknown or mistyped fields. The answer about a call in doubt
// must be a state.InDoubtAnswer, with an output that fits the call. The error is [ErrUnfit] and
// names the field.
func (q Question) Check(encoded []byte) error { return engine.Question(q).Check(encoded) }
