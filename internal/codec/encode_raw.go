package codec

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Generated clients of services, such as those for OpenAI and Anthropic, have
// types that remember the JSON from which they were decoded, and read parts of
// themselves from it on demand. If only their fields were encoded, these parts
// would be lost.

// rawJSON is implemented by types that remember the JSON from which they were
// decoded.
type rawJSON interface{ RawJSON() string }

// isRaw reports whether values of the type remember their JSON.
func isRaw(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && hasMethods(t, reflect.TypeFor[rawJSON]()) && hasMethods(t, jsonUnmarshaler) && !hasMethods(t, jsonMarshaler) && !isPromoted(t, jsonUnmarshaler)
}

// encodeRaw returns a function that encodes a value as the JSON from which it was decoded, provided
// that its fields still match that JSON. The identity of such a value consists of its fields,
// unless its type is unknown after decoding.
func encodeRaw(t reflect.Type) encodeFunc {
	byFields := limitDepth(encodeByKind(t, false))
	return func(e *encoder, v reflect.Value) error {
		if e.omitsZero && !e.untyped {
			return byFields(e, v)
		}
		var text []byte
		err := safely(func() error {
			text = rawOf(pointerTo(v))
			return nil
		})
		if err != nil {
			return err
		}
		if text == nil {
			return byFields(e, v)
		}
		return e.document(text)
	}
}

// rawOf returns the JSON from which the value that p points to was decoded. It returns nil if there
// is none, or if the fields have changed since.
func rawOf(p reflect.Value) []byte {
	raw := p.Interface().(rawJSON).RawJSON()
	var compact bytes.Buffer
	if raw == "" || json.Compact(&compact, []byte(raw)) != nil {
		return nil
	}
	read := reflect.New(p.Type().Elem())
	if json.Unmarshal([]byte(raw), read.Interface()) != nil || !haveEqualFields(p, read) {
		return nil
	}
	return compact.Bytes()
}

func haveEqualFields(a, b reflect.Value) bool {
	var encoded [2][]byte
	for i, v := range []reflect.Value{a, b} {
		data, err := EncodeBefore(v.Interface())
		if err != nil {
			return false
		}
		if encoded[i], err = Canonical(data); err != nil {
			return false
		}
	}
	return bytes.Equal(encoded[0], encoded[1])
}
