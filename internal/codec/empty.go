package codec

import (
	"reflect"
	"sync"
)

// An emptyFunc reports whether a field with the given value counts as empty.
type emptyFunc func(e *encoder, v reflect.Value) bool

// zeroer is implemented by types that define when a value is zero.
var zeroer = reflect.TypeFor[interface{ IsZero() bool }]()

var emptyFuncs, oldEmptyFuncs sync.Map // reflect.Type → emptyFunc

// emptyFuncOf returns the function that decides whether a value of type t is empty. If old is set,
// the function decides like the library that used to encode values (see [layoutOf]). Otherwise it
// is stricter where that library lost data.
func emptyFuncOf(t reflect.Type, old bool) emptyFunc {
	known := &emptyFuncs
	if old {
		known = &oldEmptyFuncs
	}
	f, ok := known.Load(t)
	if !ok {
		f, _ = known.LoadOrStore(t, newEmptyFunc(t, old))
	}
	return f.(emptyFunc)
}

func newEmptyFunc(t reflect.Type, old bool) emptyFunc {
	if t.Kind() == reflect.Interface {
		return func(e *encoder, v reflect.Value) bool {
			if v.IsNil() {
				return true
			}
			v = v.Elem()
			if f := formOf(v.Type()); !old && (f == asJSON || f == asRawJSON) {
				return false // JSON is decoded to its value, regardless of the original type
			}
			return emptyFuncOf(v.Type(), old)(e, v)
		}
	}
	empty := emptyByKind(t, old)
	if t.Implements(zeroer) {
		empty = isZeroByMethod
	}
	if old {
		return empty
	}
	switch f := formOf(t); {
	case f == asJSON, f != byKind && f != asTime && f != asRawJSON && t.Kind() == reflect.Struct && !t.Implements(zeroer):
		// A value that is encoded by its methods may have content that is not
		// in its encoded fields.
		return func(e *encoder, v reflect.Value) bool { return v.IsZero() && empty(e, v) }
	}
	return empty
}

func isZeroByMethod(_ *encoder, v reflect.Value) bool {
	if nilable(v.Kind()) && v.IsNil() {
		return true
	}
	return v.CanInterface() && v.Interface().(interface{ IsZero() bool }).IsZero()
}

func emptyByKind(t reflect.Type, old bool) emptyFunc {
	switch t.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return func(_ *encoder, v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Struct:
		return emptyStruct(t, old)
	case reflect.Float32, reflect.Float64: // -0 counts as zero
		return func(_ *encoder, v reflect.Value) bool { return v.Float() == 0 }
	}
	return func(_ *encoder, v reflect.Value) bool { return v.IsZero() }
}

// emptyStruct returns a function that reports whether a struct has no fields to encode.
func emptyStruct(t reflect.Type, old bool) emptyFunc {
	l := layoutOf(t, old)
	for _, f := range l.fields {
		f.isEmpty = emptyFuncOf(f.typ, old)
	}
	return func(e *encoder, v reflect.Value) bool {
		if !l.omits && !e.omitsZero {
			return len(l.fields) == 0
		}
		for _, f := range l.fields {
			part, ok := f.valueIn(v)
			isLeftOut := !ok || (f.omitEmpty || e.omitsZero) && f.isEmpty(e, part)
			if !isLeftOut {
				return false
			}
		}
		return true
	}
}
