package record

import (
	"reflect"

	"github.com/reprise-go/reprise/internal/codec"
)

// CloneMetadata returns a copy of m that has maps and slices of its own, also
// inside of others.
func CloneMetadata(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	c := make(map[string]any, len(m))
	for key, v := range m {
		c[key] = clone(reflect.ValueOf(v), 0).Interface()
	}
	return c
}

// maxCloned is how deep maps and slices are copied. What is deeper, such as a map
// that is in itself, becomes what a store would give back.
const maxCloned = 64

func clone(v reflect.Value, depth int) reflect.Value {
	switch {
	case !v.IsValid():
		return reflect.Zero(reflect.TypeFor[any]())
	case v.Kind() != reflect.Map && v.Kind() != reflect.Slice && v.Kind() != reflect.Interface || v.IsNil():
		return v
	case v.Kind() == reflect.Interface:
		c := reflect.New(v.Type()).Elem()
		c.Set(clone(v.Elem(), depth))
		return c
	case depth == maxCloned && v.CanInterface():
		return restored(v)
	case v.Kind() == reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			set(c.Index(i), clone(v.Index(i), depth+1))
		}
		return c
	}
	c := reflect.MakeMapWithSize(v.Type(), v.Len())
	for key, value := range v.Seq2() {
		element := reflect.New(v.Type().Elem()).Elem()
		set(element, clone(value, depth+1))
		c.SetMapIndex(key, element)
	}
	return c
}

// set leaves to as it is where v became something that it cannot hold.
func set(to, v reflect.Value) {
	if v.Type().AssignableTo(to.Type()) {
		to.Set(v)
	}
}

// restored is v as a store would give it back.
func restored(v reflect.Value) reflect.Value {
	in := codec.NewReader(codec.EncodeAny(v.Interface()))
	defer in.Release()
	return reflect.ValueOf(in.Any())
}
