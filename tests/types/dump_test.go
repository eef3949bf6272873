package types_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// dump returns the complete contents of v as text, including unexported fields. Pointers are
// followed, and times are shown with their instant and offset.
func dump(v any) string {
	var b strings.Builder
	dumpValue(&b, reflect.ValueOf(v), 0)
	return b.String()
}

var timeType = reflect.TypeFor[time.Time]()

func dumpValue(b *strings.Builder, v reflect.Value, depth int) {
	if !v.IsValid() || depth > 30 {
		b.WriteString("nothing")
		return
	}
	if v.Type() == timeType {
		b.WriteString(dumpTime(v))
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		fmt.Fprintf(b, "%s:", v.Elem().Type())
		dumpValue(b, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprintf(b, "{%s ", v.Type().Field(i).Name)
			dumpValue(b, v.Field(i), depth+1)
			b.WriteByte('}')
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.IsNil() {
			b.WriteString("nil")
			return
		}
		for i := range v.Len() {
			b.WriteByte('[')
			dumpValue(b, v.Index(i), depth+1)
			b.WriteByte(']')
		}
	case reflect.Map:
		dumpMap(b, v, depth)
	case reflect.Func, reflect.Chan:
		fmt.Fprint(b, v.IsNil())
	default:
		fmt.Fprintf(b, "%#v", v)
	}
}

func dumpMap(b *strings.Builder, v reflect.Value, depth int) {
	if v.IsNil() {
		b.WriteString("nil")
		return
	}
	var pairs []string
	for it := v.MapRange(); it.Next(); {
		var pair strings.Builder
		dumpValue(&pair, it.Key(), depth+1)
		pair.WriteByte('=')
		dumpValue(&pair, it.Value(), depth+1)
		pairs = append(pairs, pair.String())
	}
	slices.Sort(pairs)
	fmt.Fprint(b, pairs)
}

// dumpTime reads a time that may be in an unexported field.
func dumpTime(v reflect.Value) string {
	if !v.CanInterface() {
		return "a time"
	}
	t := v.Interface().(time.Time)
	_, offset := t.Zone()
	return fmt.Sprintf("%s %+d", t.UTC().Format("2006-01-02T15:04:05.999999999"), offset)
}
