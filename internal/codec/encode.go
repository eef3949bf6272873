package codec

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"
)

// encoder appends encoded values. The function that encodes a type is built once.
type encoder struct {
	w         Writer
	omitsZero bool // omit struct fields that are zero
	old       bool // use the old form, from before values were encoded as JSON
	untyped   bool // inside an interface
	depth     int  // nesting depth
}

// An encodeFunc appends a value of one type.
type encodeFunc func(e *encoder, v reflect.Value) error

// maxPooled is the maximum size of a pooled buffer.
const maxPooled = 64 << 10

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// encodeFuncs holds the functions for the current form, and oldEncodeFuncs those for the old form.
var encodeFuncs, oldEncodeFuncs sync.Map // reflect.Type → encodeFunc

func encodeFuncOf(t reflect.Type, old bool) encodeFunc {
	known := &encodeFuncs
	if old {
		known = &oldEncodeFuncs
	}
	if f, ok := known.Load(t); ok {
		return f.(encodeFunc)
	}
	whole := sync.OnceValue(func() encodeFunc { return newEncodeFunc(t, old) })
	// While the function for a type is being built, a type that contains itself finds this
	// placeholder.
	if other, ok := known.LoadOrStore(t, encodeFunc(func(e *encoder, v reflect.Value) error {
		return whole()(e, v)
	})); ok {
		return other.(encodeFunc)
	}
	f := whole()
	known.Store(t, f)
	return f
}

func newEncodeFunc(t reflect.Type, old bool) encodeFunc {
	f := formOf(t)
	if old {
		f = oldFormOf(t)
	}
	switch f {
	case asTime:
		return encodeTime
	case asErrorText:
		return encodeErrorText
	case asRawJSON:
		return encodeRaw(t)
	case byKind:
		if holdsNothing(t.Kind()) {
			return encodeByKind(t, old)
		}
		return limitDepth(encodeByKind(t, old))
	}
	return encodeByMethod(t, f)
}

func encodeByKind(t reflect.Type, old bool) encodeFunc {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return func(e *encoder, v reflect.Value) error { e.w.Bool(v.Bool()); return nil }
	case k >= reflect.Int && k <= reflect.Int64:
		return func(e *encoder, v reflect.Value) error { e.w.Int(v.Int()); return nil }
	case k >= reflect.Uint && k <= reflect.Uint64:
		return func(e *encoder, v reflect.Value) error { e.w.Uint(v.Uint()); return nil }
	case k == reflect.Float32:
		return func(e *encoder, v reflect.Value) error { e.w.Float32(float32(v.Float())); return nil }
	case k == reflect.Float64:
		return func(e *encoder, v reflect.Value) error { e.w.Float(v.Float()); return nil }
	case k == reflect.String:
		return func(e *encoder, v reflect.Value) error { e.w.Text(v.String()); return nil }
	case k == reflect.Interface:
		return encodeInterface
	case k == reflect.Pointer:
		return encodePointer(t, old)
	case k == reflect.Slice:
		return encodeSlice(t, old)
	case k == reflect.Array:
		return encodeArray(t, old)
	case k == reflect.Map:
		return encodeMap(t, old)
	case k == reflect.Struct:
		return encodeStruct(t, old)
	}
	return func(*encoder, reflect.Value) error { return &UnsupportedError{Type: t} }
}

// any appends a value of any type.
func (e *encoder) any(v any) error {
	switch v := v.(type) {
	case nil:
		e.w.Nil()
	case bool:
		e.w.Bool(v)
	case string:
		e.w.Text(v)
	case []byte:
		e.w.Bytes(v)
	case int:
		e.w.Int(int64(v))
	case int64:
		e.w.Int(v)
	case uint64:
		e.w.Uint(v)
	case float64:
		e.w.Float(v)
	case time.Time:
		e.time(v)
	default:
		r := reflect.ValueOf(v)
		return encodeFuncOf(r.Type(), e.old)(e, r)
	}
	return nil
}

func encodeInterface(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		e.w.Nil()
		return nil
	}
	v = v.Elem()
	typed := e.untyped
	e.untyped = true
	err := encodeFuncOf(v.Type(), e.old)(e, v)
	e.untyped = typed
	return err
}

func encodeTime(e *encoder, v reflect.Value) error {
	if v.CanAddr() {
		e.time(*v.Addr().Interface().(*time.Time)) // avoids a copy on the heap
	} else {
		e.time(v.Interface().(time.Time))
	}
	return nil
}

// time appends a time. The old form has no offset.
func (e *encoder) time(t time.Time) {
	if e.old {
		e.w.timestamp(t)
	} else {
		e.w.time(t)
	}
}

// encodeErrorText appends the text of an error, as was done before types that contain errors were
// rejected.
func encodeErrorText(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		e.w.Nil()
		return nil
	}
	return safely(func() error {
		e.w.Text(v.Interface().(error).Error())
		return nil
	})
}

func encodePointer(t reflect.Type, old bool) encodeFunc {
	elem := encodeFuncOf(t.Elem(), old)
	return func(e *encoder, v reflect.Value) error {
		if v.IsNil() {
			e.w.Nil()
			return nil
		}
		return elem(e, v.Elem())
	}
}

func encodeSlice(t reflect.Type, old bool) encodeFunc {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(e *encoder, v reflect.Value) error {
			e.w.Bytes(v.Bytes())
			return nil
		}
	}
	elements := encodeArray(t, old)
	return func(e *encoder, v reflect.Value) error {
		if v.IsNil() {
			e.w.Nil()
			return nil
		}
		return elements(e, v)
	}
}

func encodeArray(t reflect.Type, old bool) encodeFunc {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(e *encoder, v reflect.Value) error {
			b := make([]byte, v.Len())
			for i := range b {
				b[i] = byte(v.Index(i).Uint())
			}
			e.w.Bytes(b)
			return nil
		}
	}
	elem := encodeFuncOf(t.Elem(), old)
	return func(e *encoder, v reflect.Value) error {
		n := v.Len()
		e.w.Array(n)
		for i := range n {
			if err := elem(e, v.Index(i)); err != nil {
				return prefixPath("["+strconv.Itoa(i)+"]", err)
			}
		}
		return nil
	}
}

func encodeMap(t reflect.Type, old bool) encodeFunc {
	key, elem := encodeFuncOf(t.Key(), old), encodeFuncOf(t.Elem(), old)
	isAnyMap := t == reflect.TypeFor[map[string]any]()
	return func(e *encoder, v reflect.Value) error {
		if v.IsNil() {
			e.w.Nil()
			return nil
		}
		if isAnyMap && v.CanInterface() {
			return e.anyMap(v.Interface().(map[string]any))
		}
		e.w.Map(v.Len())
		for it := v.MapRange(); it.Next(); {
			e.depth += keyNesting
			err := key(e, it.Key())
			e.depth -= keyNesting
			if err == nil {
				err = elem(e, it.Value())
			}
			if err != nil {
				return prefixPath(fmt.Sprintf("[%v]", it.Key()), err)
			}
		}
		return nil
	}
}

// anyMap appends a map of the most common type without using reflection.
func (e *encoder) anyMap(m map[string]any) error {
	typed := e.untyped
	e.untyped = true
	e.w.Map(len(m))
	for key, value := range m {
		e.w.Text(key)
		if err := e.any(value); err != nil {
			return prefixPath("["+key+"]", err)
		}
	}
	e.untyped = typed
	return nil
}

func encodeStruct(t reflect.Type, old bool) encodeFunc {
	l := writtenLayout(t, old)
	if l.clash != nil {
		return func(*encoder, reflect.Value) error { return l.clash }
	}
	if l.asArray {
		return l.encodeAsArray
	}
	return l.encode
}

// writtenLayout returns the layout of a struct with the encoder of each field.
func writtenLayout(t reflect.Type, old bool) *layout {
	l := layoutOf(t, old)
	for _, f := range l.fields {
		var name Writer
		name.Text(f.name)
		f.key = name.Finish()
		f.encode, f.isEmpty = encodeFuncOf(f.typ, old), emptyFuncOf(f.typ, old)
	}
	return l
}

func (l *layout) encode(e *encoder, v reflect.Value) error {
	omits := l.omits || e.omitsZero
	n := len(l.fields)
	begin := len(e.w.out)
	if omits {
		n = 0
		e.w.out = append(e.w.out, 0) // a placeholder for the head of the map
	} else {
		e.w.Map(n)
	}
	for _, f := range l.fields {
		part, ok := f.valueIn(v)
		if omits {
			if !ok || (f.omitEmpty || e.omitsZero) && f.isEmpty(e, part) {
				continue
			}
			n++
		}
		e.w.out = append(e.w.out, f.key...)
		if !ok {
			e.w.Nil()
		} else if err := f.encode(e, part); err != nil {
			return prefixPath(f.path, err)
		}
	}
	if omits {
		e.w.insertMap(begin, n)
	}
	return nil
}

func (l *layout) encodeAsArray(e *encoder, v reflect.Value) error {
	e.w.Array(len(l.fields))
	for _, f := range l.fields {
		if part, ok := f.valueIn(v); !ok {
			e.w.Nil()
		} else if err := f.encode(e, part); err != nil {
			return prefixPath(f.path, err)
		}
	}
	return nil
}

// valueIn returns the value of the field in the struct. ok is false if the field is in an embedded
// struct that is nil.
func (f *field) valueIn(v reflect.Value) (part reflect.Value, ok bool) {
	if len(f.index) == 1 {
		return v.Field(f.index[0]), true
	}
	for i, at := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(at)
	}
	return v, true
}

// A pathError is an error in a part of a value.
type pathError struct {
	path string // such as .Items[2].Price
	err  error
}

func (p *pathError) Error() string { return "field " + p.path + ": " + p.err.Error() }
func (p *pathError) Unwrap() error { return p.err }

// prefixPath prepends path to the path in err.
func prefixPath(path string, err error) error {
	if err == errEndless { //nolint:errorlint // the encoder's own error, not a method's
		return err
	}
	switch e := err.(type) { //nolint:errorlint // the encoder's own error, not one that a method returned
	case *UnsupportedError:
		return &UnsupportedError{path + e.Path, e.Type}
	case *pathError:
		e.path = path + e.path
		return e
	}
	return &pathError{path, err}
}

// safely calls f, which calls a method of a user's type, and converts a panic to an
// error.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
