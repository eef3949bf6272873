package state

import (
	"reflect"

	"github.com/reprise-go/reprise/internal/codec"
)

// cloneMetadata returns a deep copy of m, in which maps and slices are copied.
func cloneMetadata(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	c := make(map[string]any, len(m))
	for key, v := range m {
		c[key] = cloneValue(reflect.ValueOf(v), 0).Interface()
	}
	return c
}

// maxCloned is the depth to which maps and slices are copied. Deeper values, such as those in a map
// that contains itself, are replaced by what a store would return for them.
const maxCloned = 64

func cloneValue(v reflect.Value, depth int) reflect.Value {
	switch {
	case !v.IsValid():
		return reflect.Zero(reflect.TypeFor[any]())
	case v.Kind() != reflect.Map && v.Kind() != reflect.Slice && v.Kind() != reflect.Interface || v.IsNil():
		return v
	case v.Kind() == reflect.Interface:
		c := reflect.New(v.Type()).Elem()
		c.Set(cloneValue(v.Elem(), depth))
		return c
	case depth == maxCloned && v.CanInterface():
		return asStored(v)
	case v.Kind() == reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			setValue(c.Index(i), cloneValue(v.Index(i), depth+1))
		}
		return c
	}
	c := reflect.MakeMapWithSize(v.Type(), v.Len())
	for pair := v.MapRange(); pair.Next(); {
		element := reflect.New(v.Type().Elem()).Elem()
		setValue(element, cloneValue(pair.Value(), depth+1))
		c.SetMapIndex(pair.Key(), element)
	}
	return c
}

// setValue sets target to v, unless v, after conversion, has a type that cannot be assigned to
// target.
func setValue(target, v reflect.Value) {
	if v.Type().AssignableTo(target.Type()) {
		target.Set(v)
	}
}

// asStored returns v as a store would return it.
func asStored(v reflect.Value) reflect.Value {
	in := codec.NewReader(codec.EncodeAny(v.Interface()))
	defer in.Release()
	return reflect.ValueOf(in.Any())
}
