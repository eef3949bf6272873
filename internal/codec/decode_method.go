package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// decodeByMethod returns a function that decodes values of a type using the type's own method.
func decodeByMethod(t reflect.Type, f form) decodeFunc {
	if f == asMsgpack {
		return decodeMsgpack
	}
	read := func(v any, body []byte) error { return v.(encoding.TextUnmarshaler).UnmarshalText(body) }
	if f == asBinary {
		read = func(v any, body []byte) error { return v.(encoding.BinaryUnmarshaler).UnmarshalBinary(body) }
	}
	return func(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
		h, rest, _ := next(data)
		switch h.kind {
		case kindNil:
			v.SetZero()
			return rest, nil
		case kindString, kindBytes:
		default:
			return decodeUnusual(data, v)
		}
		err := safely(func() error {
			return read(v.Addr().Interface(), append([]byte{}, h.body...)) // the method may keep this copy
		})
		if err != nil {
			return nil, refused(data, t, err)
		}
		return rest, nil
	}
}

// decodeMsgpack decodes a type using its own msgpack method.
func decodeMsgpack(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
	rest, _ := Skip(data)
	if data[0] == codeNil {
		v.SetZero()
		return rest, nil
	}
	value := data[:len(data)-len(rest)]
	err := safely(func() error {
		into := v.Addr().Interface()
		if c, ok := into.(msgpack.CustomDecoder); ok {
			return d.custom(c, value)
		}
		return into.(msgpack.Unmarshaler).UnmarshalMsgpack(bytes.Clone(value))
	})
	if err != nil {
		return nil, refused(data, v.Type(), err)
	}
	return rest, nil
}

// libraryDecoder is the library's decoder together with its input, for methods that need such a
// decoder.
type libraryDecoder struct {
	data bytes.Reader
	dec  *msgpack.Decoder
}

var libraryDecoders = sync.Pool{New: func() any { return &libraryDecoder{dec: msgpack.NewDecoder(bytes.NewReader(nil))} }}

func (d *decoder) custom(into msgpack.CustomDecoder, value []byte) error {
	l := libraryDecoders.Get().(*libraryDecoder)
	l.data.Reset(value)
	l.dec.Reset(&l.data)
	l.dec.SetCustomStructTag("json")
	l.dec.UseLooseInterfaceDecoding(true)
	l.dec.SetMapDecoder(decodeLibraryMap)
	l.dec.DisallowUnknownFields(d.refusesUnknown)
	err := into.DecodeMsgpack(l.dec)
	if err != nil && d.refusesUnknown && strings.Contains(err.Error(), "msgpack: unknown field") {
		return errors.Join(ErrUnknownField, err)
	}
	if err == nil && len(value) <= maxPooled { // the decoder's buffer grows to the longest string
		l.data.Reset(nil)
		libraryDecoders.Put(l)
	}
	return err
}

// decodeLibraryMap decodes a map into an interface on behalf of the library.
func decodeLibraryMap(l *msgpack.Decoder) (any, error) {
	n, err := l.DecodeMapLen()
	if err != nil || n < 0 {
		return nil, err
	}
	m := make(map[string]any, min(n, maxRoom))
	for range n {
		key, err := l.DecodeRaw()
		if err != nil {
			return nil, err
		}
		if m[decodeKey(key)], err = l.DecodeInterfaceLoose(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func decodeTime(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	h, rest, _ := next(data)
	t, ok := h.time()
	switch {
	case ok || h.kind == kindNil:
	case h.kind == kindString: // such as in an answer given as JSON
		var err error
		if t, err = time.Parse(time.RFC3339Nano, string(h.body)); err != nil {
			return nil, refused(data, timeType, err)
		}
		_, offset := t.Zone()
		t = inZone(t, offset)
	default:
		return decodeUnusual(data, v)
	}
	*v.Addr().Interface().(*time.Time) = t
	return rest, nil
}

// decodeUnusual decodes a value that is not in the type's usual form. It accepts only values
// encoded as JSON.
func decodeUnusual(data []byte, v reflect.Value) ([]byte, error) {
	h, rest, _ := next(data)
	if !h.isJSON() {
		return nil, misfit(data, v.Type())
	}
	err := safely(func() error { return json.Unmarshal(bytes.Clone(h.body), v.Addr().Interface()) })
	if err != nil {
		return nil, refused(data, v.Type(), err)
	}
	return rest, nil
}
