package codec

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Clients that are generated for services, such as those for OpenAI and
// Anthropic, have types that remember the JSON that they were read from, and read
// parts of themselves from it when they are asked. Their fields alone would come
// back without that.

// rawJSON is implemented by types that remember the JSON that they were read from.
type rawJSON interface{ RawJSON() string }

// isRaw reports whether values of the type remember their JSON.
func isRaw(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && has(t, reflect.TypeFor[rawJSON]()) && has(t, jsonReader) && !has(t, jsonMarshaler) && !isPromoted(t, jsonReader)
}

// encodeRaw returns what encodes a value as the JSON that it was read from, as
// long as its fields are those that the JSON has. The identity of a value is in
// its fields, unless nobody knows its type once it is decoded.
func encodeRaw(t reflect.Type) encodeFunc {
	byFields := bounded(encodeByKind(t, false))
	return func(e *encoder, v reflect.Value) error {
		if e.omitsZero && !e.untyped {
			return byFields(e, v)
		}
		var text []byte
		err := safely(func() error {
			text = rawOf(addressed(v))
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

// rawOf returns the JSON that the value behind the pointer was read from; nil if
// there is none, or its fields were changed since.
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
