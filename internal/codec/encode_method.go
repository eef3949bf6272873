package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// encodeByMethod returns a function that encodes values of a type using the type's own method.
func encodeByMethod(t reflect.Type, f form) encodeFunc {
	call := map[form]func(e *encoder, v any) error{
		asMsgpack: (*encoder).msgpack, asBinary: (*encoder).binary, asText: (*encoder).text, asJSON: (*encoder).json,
	}[f]
	canBeNil := nilable(t.Kind())
	byValue := t.Kind() == reflect.Interface
	return func(e *encoder, v reflect.Value) error {
		if canBeNil && v.IsNil() {
			e.w.Nil()
			return nil
		}
		if !byValue {
			v = pointerTo(v)
		}
		return safely(func() error { return call(e, v.Interface()) })
	}
}

// pointerTo returns a pointer to v or to a copy of v. The pointer also has the methods that the
// value has.
func pointerTo(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	return c
}

func (e *encoder) binary(v any) error {
	data, err := v.(encoding.BinaryMarshaler).MarshalBinary()
	e.w.Bytes(data)
	return err
}

func (e *encoder) text(v any) error {
	data, err := v.(encoding.TextMarshaler).MarshalText()
	e.w.Bytes(data)
	return err
}

// msgpack appends the output of the type's own msgpack method.
func (e *encoder) msgpack(v any) error {
	if m, ok := v.(msgpack.CustomEncoder); ok {
		l := libraryEncoders.Get().(*libraryEncoder)
		l.buf.Reset()
		l.enc.Reset(&l.buf)
		l.enc.SetCustomStructTag("json")
		l.enc.UseCompactInts(true)
		l.enc.SetOmitEmpty(e.omitsZero)
		if err := m.EncodeMsgpack(l.enc); err != nil { // l is not returned to the pool, since its state is unknown
			return err
		}
		e.w.Raw(l.buf.Bytes())
		if l.buf.Cap() <= maxPooled {
			libraryEncoders.Put(l)
		}
		return nil
	}
	data, err := v.(msgpack.Marshaler).MarshalMsgpack()
	e.w.Raw(data)
	return err
}

// libraryEncoder is the library's encoder together with its buffer, for methods that need such an
// encoder.
type libraryEncoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

var libraryEncoders = sync.Pool{New: func() any { return &libraryEncoder{enc: msgpack.NewEncoder(nil)} }}

// json appends the JSON of a value as an extension. In the identity of a value whose type is
// unknown after decoding, json appends the value of the JSON instead.
func (e *encoder) json(v any) error {
	text, err := v.(json.Marshaler).MarshalJSON()
	if err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return fmt.Errorf("MarshalJSON of %s returned invalid JSON: %w", reflect.TypeOf(v).Elem(), err)
	}
	return e.document(compact.Bytes())
}

// document appends JSON in the form that is described at the method json.
func (e *encoder) document(text []byte) error {
	if isNestedDeeply(text) {
		return ErrTooDeep
	}
	if !e.omitsZero || !e.untyped {
		e.w.json(text)
		return nil
	}
	generic, err := fromJSON(text)
	if err != nil {
		return err
	}
	begin := len(e.w.out)
	if err := e.any(generic); err != nil {
		return err
	}
	typed := bytes.Clone(e.w.out[begin:])
	e.w.out = appendUntyped(e.w.out[:begin], typed)
	return nil
}

// isNestedDeeply reports whether JSON is nested too deeply to be decoded.
func isNestedDeeply(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxNesting/2 {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
