package record

import (
	"errors"
	"fmt"
	"reflect"
)

// A registered error is encoded by its exported fields. Fields that hold errors are kept in the
// form that [ErrorOf] returns, so that errors.Is and errors.As also find wrapped errors in the
// restored error. Fields of type any are kept as text, unless they hold a number, a bool or a
// string.

// errorValue describes how to convert values of one type to values of another type, which can be
// encoded.
type errorValue struct {
	kept    reflect.Type
	keep    func(into, v reflect.Value, depth int) // nil if kept is the type itself
	restore func(into, kept reflect.Value)
}

// maxErrorDepth is the maximum nesting depth of errors for which the data for errors.As is kept.
const maxErrorDepth = 4

var (
	typeOfError = reflect.TypeFor[error]()
	typeOfAny   = reflect.TypeFor[any]()
)

func errorValueOf(t reflect.Type, depth int) errorValue {
	switch {
	case t == typeOfError:
		return errorValue{reflect.TypeFor[*Error](), keepError, restoreError}
	case t == typeOfAny:
		return errorValue{t, keepAny, reflect.Value.Set}
	case depth == maxErrorDepth: // a type that contains itself
		return errorValue{kept: t}
	case t.Kind() == reflect.Struct:
		return structValueOf(t, depth)
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer:
		return elemValueOf(t, depth)
	}
	return errorValue{kept: t}
}

func keepError(into, v reflect.Value, depth int) {
	if err, _ := v.Interface().(error); err != nil {
		into.Set(reflect.ValueOf(errorOf(err, depth+1)))
	}
}

func restoreError(into, kept reflect.Value) {
	if !kept.IsNil() {
		into.Set(kept)
	}
}

func keepAny(into, v reflect.Value, _ int) {
	if v.IsNil() {
		return
	}
	switch k := v.Elem().Kind(); {
	case k >= reflect.Bool && k <= reflect.Float64 && k != reflect.Uintptr || k == reflect.String:
		into.Set(v)
	default:
		into.Set(reflect.ValueOf(fmt.Sprint(v.Interface())))
	}
}

// structValueOf returns how to convert a struct of type t. A struct that contains no errors is kept
// unchanged.
func structValueOf(t reflect.Type, depth int) errorValue {
	var (
		fields []reflect.StructField
		from   []int // the index of each field in t
		values []errorValue
		other  bool
	)
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		v := errorValueOf(f.Type, depth+1)
		other = other || v.keep != nil
		fields = append(fields, reflect.StructField{Name: f.Name, Type: v.kept, Tag: f.Tag})
		from, values = append(from, i), append(values, v)
	}
	if !other {
		return errorValue{kept: t}
	}
	return errorValue{
		kept: reflect.StructOf(fields),
		keep: func(into, v reflect.Value, depth int) {
			for i, at := range from {
				values[i].put(into.Field(i), v.Field(at), depth)
			}
		},
		restore: func(into, kept reflect.Value) {
			for i, at := range from {
				values[i].get(into.Field(at), kept.Field(i))
			}
		},
	}
}

func elemValueOf(t reflect.Type, depth int) errorValue {
	elem := errorValueOf(t.Elem(), depth)
	if elem.keep == nil {
		return errorValue{kept: t}
	}
	if t.Kind() == reflect.Pointer {
		return errorValue{
			kept: reflect.PointerTo(elem.kept),
			keep: func(into, v reflect.Value, depth int) {
				if !v.IsNil() {
					into.Set(reflect.New(elem.kept))
					elem.put(into.Elem(), v.Elem(), depth)
				}
			},
			restore: func(into, kept reflect.Value) {
				if !kept.IsNil() {
					into.Set(reflect.New(t.Elem()))
					elem.get(into.Elem(), kept.Elem())
				}
			},
		}
	}
	kept := reflect.SliceOf(elem.kept)
	return errorValue{
		kept: kept,
		keep: func(into, v reflect.Value, depth int) {
			into.Set(reflect.MakeSlice(kept, v.Len(), v.Len()))
			for i := range v.Len() {
				elem.put(into.Index(i), v.Index(i), depth)
			}
		},
		restore: func(into, kept reflect.Value) {
			into.Set(reflect.MakeSlice(t, kept.Len(), kept.Len()))
			for i := range kept.Len() {
				elem.get(into.Index(i), kept.Index(i))
			}
		},
	}
}

func (e *errorValue) put(into, v reflect.Value, depth int) {
	if e.keep == nil {
		into.Set(v)
		return
	}
	e.keep(into, v, depth)
}

func (e *errorValue) get(into, kept reflect.Value) {
	if e.restore == nil {
		into.Set(kept)
		return
	}
	e.restore(into, kept)
}

func errorTypeOf[E error]() errorType {
	value := errorValueOf(reflect.TypeFor[E](), 0)
	return errorType{
		target: reflect.TypeFor[*E](),
		find: func(err error, depth int) ([]byte, bool) {
			var e E
			if !errors.As(err, &e) {
				return nil, false
			}
			kept := reflect.New(value.kept).Elem()
			value.put(kept, reflect.ValueOf(&e).Elem(), depth)
			data, failed := Encode(kept.Interface())
			return data, failed == nil
		},
		restore: func(data []byte, target any) bool {
			into, ok := target.(*E)
			kept := reflect.New(value.kept)
			if !ok || Decode(data, kept.Interface()) != nil {
				return false
			}
			value.get(reflect.ValueOf(into).Elem(), kept.Elem())
			return true
		},
	}
}
