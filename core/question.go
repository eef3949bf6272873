package core

import (
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// ErrUnfit is wrapped by the error returned for an answer that does not fit its question.
var ErrUnfit = engine.ErrUnfit

// Encode encodes value as an answer to the question. If the value itself does not fit, Encode uses
// its JSON instead: a *big.Int and a json.Number become a number, a json.RawMessage becomes its
// content. If the JSON does not fit either, the error wraps [ErrUnfit], like the error from
// [Question.Check].
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

// toJSON returns the JSON of value. It returns false if value cannot be converted to JSON.
func toJSON(value any) (text []byte, ok bool) {
	defer func() {
		if recover() != nil { // a method of the user's type panicked
			ok = false
		}
	}()
	text, err := json.Marshal(value)
	return text, err == nil
}

// Check returns an error if an encoded value cannot be an answer to the question. The value must
// fit the Schema, without missing, unknown or mistyped fields. An answer about a call in doubt must
// be a state.InDoubtAnswer, with an output that fits the call. The error wraps [ErrUnfit] and names
// the field.
func (q Question) Check(encoded []byte) error { return engine.Question(q).Check(encoded) }
