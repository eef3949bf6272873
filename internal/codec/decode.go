package codec

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// decoder decodes well-formed bytes. The function that decodes a type is built once.
type decoder struct {
	refusesUnknown bool // a field that is missing from the struct is an error
}

// A decodeFunc decodes one value from data into v, which must be settable, and
// returns the rest of data.
type decodeFunc func(d *decoder, data []byte, v reflect.Value) (rest []byte, err error)

var decodeFuncs sync.Map // reflect.Type → decodeFunc

func decodeFuncOf(t reflect.Type) decodeFunc {
	if f, ok := decodeFuncs.Load(t); ok {
		return f.(decodeFunc)
	}
	whole := sync.OnceValue(func() decodeFunc { return newDecodeFunc(t) }) // as in encodeFuncOf
	if other, ok := decodeFuncs.LoadOrStore(t, decodeFunc(func(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
		return whole()(d, data, v)
	})); ok {
		return other.(decodeFunc)
	}
	f := whole()
	decodeFuncs.Store(t, f)
	return f
}

func newDecodeFunc(t reflect.Type) decodeFunc {
	switch f := readFormOf(t); f {
	case asTime:
		return decodeTime
	case byKind:
		return decodeByKind(t)
	default:
		return decodeByMethod(t, f)
	}
}

func decodeByKind(t reflect.Type) decodeFunc {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return decodeBool
	case k >= reflect.Int && k <= reflect.Int64:
		return decodeInt
	case k >= reflect.Uint && k <= reflect.Uint64:
		return decodeUint
	case k == reflect.Float32 || k == reflect.Float64:
		return decodeFloat
	case k == reflect.String:
		return decodeString
	case k == reflect.Interface:
		return decodeInterface
	case k == reflect.Pointer:
		return decodePointer(t)
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return decodeBytes
	case k == reflect.Slice:
		return decodeSlice(t)
	case k == reflect.Array && t.Elem().Kind() == reflect.Uint8:
		return decodeByteArray
	case k == reflect.Array:
		return decodeArray(t)
	case k == reflect.Map:
		return decodeMap(t)
	case k == reflect.Struct:
		return decodeStruct(t)
	}
	return decodeNothing
}

// decodeNothing decodes into a type that cannot be encoded, such as a channel. It accepts only nil.
func decodeNothing(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	if h, rest, _ := next(data); h.kind == kindNil {
		v.SetZero()
		return rest, nil
	}
	return nil, misfit(data, v.Type())
}

func decodeBool(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	switch h, rest, _ := next(data); h.kind {
	case kindBool, kindNil:
		v.SetBool(h.bool())
		return rest, nil
	}
	return decodeUnusual(data, v)
}

func decodeInt(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	switch h, rest, _ := next(data); {
	case h.kind == kindNil:
		v.SetInt(0)
		return rest, nil
	case h.kind == kindInt && !v.OverflowInt(h.int()):
		v.SetInt(h.int())
		return rest, nil
	case h.kind == kindInt || h.kind == kindUint:
		return nil, tooLarge(h, v.Type())
	}
	return decodeUnusual(data, v)
}

func decodeUint(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	switch h, rest, _ := next(data); {
	case h.kind == kindNil:
		v.SetUint(0)
		return rest, nil
	case (h.kind == kindUint || h.kind == kindInt && h.int() >= 0) && !v.OverflowUint(h.bits):
		v.SetUint(h.bits)
		return rest, nil
	case h.kind == kindInt || h.kind == kindUint:
		return nil, tooLarge(h, v.Type())
	}
	return decodeUnusual(data, v)
}

func decodeFloat(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	h, rest, _ := next(data)
	switch h.kind {
	case kindNil:
		v.SetFloat(0)
	case kindFloat:
		v.SetFloat(h.float())
	case kindInt:
		v.SetFloat(float64(h.int()))
	case kindUint:
		v.SetFloat(float64(h.bits))
	default:
		return decodeUnusual(data, v)
	}
	return rest, nil
}

func decodeString(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	switch h, rest, _ := next(data); h.kind {
	case kindString, kindBytes, kindNil:
		v.SetString(string(h.body))
		return rest, nil
	}
	return decodeUnusual(data, v)
}

func decodeBytes(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	switch h, rest, _ := next(data); h.kind {
	case kindNil:
		v.SetZero()
		return rest, nil
	case kindString, kindBytes:
		v.SetBytes(append([]byte{}, h.body...))
		return rest, nil
	}
	return decodeUnusual(data, v)
}

func decodeByteArray(_ *decoder, data []byte, v reflect.Value) ([]byte, error) {
	switch h, rest, _ := next(data); h.kind {
	case kindNil:
		return rest, nil
	case kindString, kindBytes:
		if len(h.body) > v.Len() {
			return nil, tooLong(data, v.Type(), len(h.body), "bytes")
		}
		for i, b := range h.body {
			v.Index(i).SetUint(uint64(b))
		}
		return rest, nil
	}
	return decodeUnusual(data, v)
}

func decodePointer(t reflect.Type) decodeFunc {
	elem := decodeFuncOf(t.Elem())
	return func(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
		if data[0] == codeNil {
			v.SetZero()
			return data[1:], nil
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		rest, err := elem(d, data, v.Elem())
		if m, ok := err.(*mismatch); ok && m.path == "" { //nolint:errorlint // the decoder's own
			m.want = t
		}
		return rest, err
	}
}

func decodeSlice(t reflect.Type) decodeFunc {
	elem := decodeFuncOf(t.Elem())
	return func(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
		h, rest, _ := next(data)
		switch h.kind {
		case kindNil:
			v.SetZero()
			return rest, nil
		case kindArray:
		default:
			return decodeUnusual(data, v)
		}
		if h.n == 0 {
			v.Set(reflect.MakeSlice(t, 0, 0))
			return rest, nil
		}
		v.SetZero() // the existing elements may be shared
		v.Grow(h.n)
		v.SetLen(h.n)
		return decodeElements(d, rest, v, h.n, elem)
	}
}

func decodeArray(t reflect.Type) decodeFunc {
	elem := decodeFuncOf(t.Elem())
	return func(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
		h, rest, _ := next(data)
		switch {
		case h.kind == kindNil:
			return rest, nil
		case h.kind != kindArray:
			return decodeUnusual(data, v)
		case h.n > v.Len():
			return nil, tooLong(data, t, h.n, "elements")
		}
		return decodeElements(d, rest, v, h.n, elem)
	}
}

// decodeElements decodes the first n elements of a slice or an array.
func decodeElements(d *decoder, data []byte, v reflect.Value, n int, elem decodeFunc) (rest []byte, err error) {
	for i := range n {
		if data, err = elem(d, data, v.Index(i)); err != nil {
			return nil, prefixMismatch(elementPath("", i), err)
		}
	}
	return data, nil
}

// maxRoom is the maximum number of pairs for which a map is preallocated.
const maxRoom = 1024

func decodeMap(t reflect.Type) decodeFunc {
	key, elem := decodeFuncOf(t.Key()), decodeFuncOf(t.Elem())
	return func(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
		h, rest, _ := next(data)
		switch h.kind {
		case kindNil:
			v.SetZero()
			return rest, nil
		case kindMap:
		default:
			return decodeUnusual(data, v)
		}
		if v.IsNil() {
			v.Set(reflect.MakeMapWithSize(t, min(h.n, maxRoom)))
		}
		if m, ok := v.Addr().Interface().(*map[string]any); ok {
			return decodeAnyMap(rest, *m, h.n)
		}
		k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for range h.n {
			k.SetZero()
			e.SetZero()
			value, err := key(d, rest, k)
			if err == nil {
				value, err = elem(d, value, e)
			}
			if err != nil {
				return nil, prefixMismatch(decodeKey(rest), err)
			}
			v.SetMapIndex(k, e)
			rest = value
		}
		return rest, nil
	}
}

// decodeInterface decodes into an interface according to the kind of the encoded value, unless the
// interface already holds a pointer.
func decodeInterface(d *decoder, data []byte, v reflect.Value) ([]byte, error) {
	if p := v.Elem(); p.Kind() == reflect.Pointer && !p.IsNil() && data[0] != codeNil {
		return decodeFuncOf(p.Type().Elem())(d, data, p.Elem())
	}
	generic, rest, err := decodeUntyped(data)
	switch {
	case err != nil:
		return nil, err
	case generic == nil:
		v.SetZero()
		return rest, nil
	}
	if text, ok := generic.(string); ok && v.Type() == errorType {
		generic = errors.New(text)
	}
	if !reflect.TypeOf(generic).AssignableTo(v.Type()) {
		return nil, misfit(data, v.Type())
	}
	v.Set(reflect.ValueOf(generic))
	return rest, nil
}

// readLayout returns the layout of a struct with the decoder of each field. The layout can also be
// used to decode values in the old layout.
func readLayout(t reflect.Type) *layout {
	l := layoutOf(t, false)
	for name, f := range layoutOf(t, true).byName {
		if l.byName[name] == nil {
			l.byName[name] = f
		}
	}
	for _, f := range l.byName {
		f.decode = decodeFuncOf(f.typ)
	}
	return l
}

func decodeStruct(t reflect.Type) decodeFunc {
	l := readLayout(t)
	return func(d *decoder, data []byte, v reflect.Value) (rest []byte, err error) {
		h, rest, _ := next(data)
		switch {
		case h.kind == kindNil, h.kind == kindArray && h.n == 0:
			v.SetZero()
			return rest, nil
		case h.kind == kindArray && h.n == len(l.fields):
			for _, f := range l.fields {
				if rest, err = f.read(d, rest, v); err != nil {
					return nil, prefixMismatch(f.name, err)
				}
			}
			return rest, nil
		case h.kind != kindMap:
			return decodeUnusual(data, v)
		}
		for range h.n {
			name, value, _ := next(rest)
			if name.kind != kindString && name.kind != kindBytes && name.kind != kindNil {
				return nil, misfit(data, t)
			}
			f := l.byName[string(name.body)]
			switch {
			case f != nil:
				if rest, err = f.read(d, value, v); err != nil {
					return nil, prefixMismatch(f.name, err)
				}
			case d.refusesUnknown:
				return nil, prefixMismatch(string(name.body), ErrUnknownField)
			default:
				rest, _ = Skip(value)
			}
		}
		return rest, nil
	}
}

// read decodes the field of the struct v. If embedded structs contain the field, read allocates
// them.
func (f *field) read(d *decoder, data []byte, v reflect.Value) (rest []byte, err error) {
	for i, at := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if data[0] == codeNil {
					return data[1:], nil // the embedded struct was nil
				}
				if !v.CanSet() {
					return nil, fmt.Errorf("its struct embeds a pointer to the unexported struct %s, which cannot be set", v.Type().Elem())
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(at)
	}
	if !v.CanSet() && (v.Kind() != reflect.Struct || data[0] == codeNil) { // embedded and unexported
		return Skip(data)
	}
	return f.decode(d, data, v)
}
