package codec

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// A mismatch is a part of an encoded value that its type cannot hold.
type mismatch struct {
	path string // such as items[2].price; empty for the whole
	got  string // such as "a string"
	want reflect.Type
	err  error // of a decoder of the type's own; nil otherwise
}

func (m *mismatch) Error() string {
	text := fmt.Sprintf("got %s, want %s", m.got, m.want)
	if m.err != nil {
		text = m.err.Error()
	}
	if m.path == "" {
		return text
	}
	return m.path + ": " + text
}

func (m *mismatch) Unwrap() error { return m.err }

// inWords is err, with which decoding data into v failed, in terms of the part that
// does not fit; err itself where no single part does not.
func inWords(data []byte, v any, err error) error {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return err
	}
	if m := findMismatch(data, t.Elem(), "", 0); m != nil {
		return m
	}
	return errors.New(strings.TrimPrefix(err.Error(), "msgpack: "))
}

// maxMismatchDepth is how deep a part is looked for.
const maxMismatchDepth = 32

// findMismatch returns the first part of data that cannot be decoded into its part
// of t, nil if there is none.
func findMismatch(data []byte, t reflect.Type, path string, depth int) *mismatch {
	if depth > maxMismatchDepth {
		return nil
	}
	err := decodePlainly(data, reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	for inner := t; ; inner = inner.Elem() {
		if m := mismatchInside(data, inner, path, depth); m != nil {
			return m
		}
		if inner.Kind() != reflect.Pointer {
			if strings.HasPrefix(err.Error(), "msgpack: ") {
				err = nil
			}
			return &mismatch{path, Describe(data), t, err}
		}
	}
}

// decodePlainly decodes, and explains nothing.
func decodePlainly(data []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	d := newDecoder(data, false)
	return d.dec.Decode(v)
}

// mismatchInside looks into the parts of an array, a map or a struct.
func mismatchInside(data []byte, t reflect.Type, path string, depth int) *mismatch {
	in := NewReader(data)
	defer in.Release()
	switch kind := t.Kind(); {
	case (kind == reflect.Slice || kind == reflect.Array) && Describe(data) == "an array":
		for i := range in.Array() {
			if m := findMismatch(in.Skip(), t.Elem(), elementPath(path, i), depth+1); m != nil || in.Err() != nil {
				return m
			}
		}
	case (kind == reflect.Map || kind == reflect.Struct) && Describe(data) == "an object":
		for name := range in.Pairs() {
			part := in.Skip()
			if in.Err() != nil {
				return nil
			}
			of := fieldType(t, name)
			if of == nil {
				continue
			}
			if m := findMismatch(part, of, memberPath(path, name), depth+1); m != nil {
				return m
			}
		}
	}
	return nil
}

// fieldType is the type of a member of a map or a struct, nil if it is not known.
func fieldType(t reflect.Type, name string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && (tag == name || tag == "" && f.Name == name) {
			return f.Type
		}
	}
	return nil
}

// overflow returns the first number in data that an integer type in v is too small
// for: it was decoded to another one. Nil if there is none.
func overflow(data []byte, v any) error {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || !isNarrow(t.Elem()) {
		return nil
	}
	if m := findOverflow(data, t.Elem(), "", 0); m != nil {
		return m
	}
	return nil
}

func findOverflow(data []byte, t reflect.Type, path string, depth int) *mismatch {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > maxMismatchDepth || !isNarrow(t) {
		return nil
	}
	in := NewReader(data)
	defer in.Release()
	what := Describe(data)
	switch kind := t.Kind(); {
	case isNarrowInt(kind) && what == "an integer":
		var n any
		if decodePlainly(data, &n) == nil && !holds(t, reflect.ValueOf(n)) {
			return &mismatch{path: path, got: fmt.Sprint(n), want: t}
		}
	case (kind == reflect.Slice || kind == reflect.Array) && what == "an array":
		for i := range in.Array() {
			if m := findOverflow(in.Skip(), t.Elem(), elementPath(path, i), depth+1); m != nil || in.Err() != nil {
				return m
			}
		}
	case (kind == reflect.Map || kind == reflect.Struct) && what == "an object":
		for name := range in.Pairs() {
			part := in.Skip()
			if in.Err() != nil {
				return nil
			}
			if of := fieldType(t, name); of != nil {
				if m := findOverflow(part, of, memberPath(path, name), depth+1); m != nil {
					return m
				}
			}
		}
	}
	return nil
}

func isNarrowInt(kind reflect.Kind) bool {
	return kind >= reflect.Int8 && kind <= reflect.Int32 || kind >= reflect.Uint && kind <= reflect.Uint64
}

// holds reports whether an integer type can hold n, an integer of 64 bits.
func holds(t reflect.Type, n reflect.Value) bool {
	zero := reflect.Zero(t)
	switch {
	case n.CanUint() && zero.CanUint():
		return !zero.OverflowUint(n.Uint())
	case n.CanUint():
		return n.Uint() <= math.MaxInt64 && !zero.OverflowInt(int64(n.Uint()))
	case zero.CanUint():
		return n.Int() >= 0 && !zero.OverflowUint(uint64(n.Int()))
	}
	return !zero.OverflowInt(n.Int())
}

// narrowTypes remembers of types whether they have an integer in them that does not
// hold all of 64 bits.
var narrowTypes sync.Map // reflect.Type → bool

func isNarrow(t reflect.Type) bool {
	if known, ok := narrowTypes.Load(t); ok {
		return known.(bool)
	}
	narrow := hasNarrow(t, make(map[reflect.Type]bool))
	narrowTypes.Store(t, narrow)
	return narrow
}

// decodesItself reports whether t has methods that decode it.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, by := range []reflect.Type{
		reflect.TypeFor[msgpack.CustomDecoder](), reflect.TypeFor[msgpack.Unmarshaler](),
		reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
	} {
		if p.Implements(by) {
			return true
		}
	}
	return false
}

func hasNarrow(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if decodesItself(t) {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if t.Elem().Kind() == reflect.Uint8 { // bytes
			return false
		}
		return hasNarrow(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && hasNarrow(f.Type, seen) {
				return true
			}
		}
		return false
	}
	return isNarrowInt(t.Kind())
}
