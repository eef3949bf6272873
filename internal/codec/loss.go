package codec

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// LossError reports that encoding would lose a part of a type's values.
type LossError struct {
	Path string       // such as .Items[].Err; empty for the type itself
	Type reflect.Type // type of that part
	Why  string
}

// Error returns the path, the type and the reason.
func (e *LossError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("codec: a %s would be lost: %s", e.Type, e.Why)
	}
	return fmt.Sprintf("codec: field %s: a %s would be lost: %s", e.Path, e.Type, e.Why)
}

// findLoss returns the first part of a type that would be lost, or nil if there is none. If isRead
// is set, a part that can be encoded but not decoded counts as lost, too.
func findLoss(t reflect.Type, isRead bool) *LossError {
	return (&lossFinder{isRead: isRead, seen: make(map[reflect.Type]bool)}).find(t)
}

type lossFinder struct {
	isRead bool
	seen   map[reflect.Type]bool
}

func (l *lossFinder) find(t reflect.Type) *LossError {
	if l.seen[t] || contentless[t] {
		return nil
	}
	l.seen[t] = true
	switch f := formOf(t); {
	case f == asJSON || f == asRawJSON || f == asTime:
		return nil
	case t.Kind() == reflect.Interface:
		return lossOfInterface(t)
	case f != byKind:
		return l.inMethods(t, f)
	case l.isRead && readFormOf(t) != byKind && !isText(t):
		return &LossError{Type: t, Why: "it has " + readMethods[readFormOf(t)] + ", but no " + writeMethods[readFormOf(t)]}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return l.find(t.Elem())
	case reflect.Slice, reflect.Array:
		return prefixLoss("[]", l.find(t.Elem()))
	case reflect.Map:
		if problem := l.find(t.Key()); problem != nil {
			return prefixLoss("[key]", problem)
		}
		return prefixLoss("[]", l.find(t.Elem()))
	case reflect.Struct:
		return l.inStruct(t)
	}
	return nil
}

func prefixLoss(path string, e *LossError) *LossError {
	if e != nil {
		e.Path = path + e.Path
	}
	return e
}

func lossOfInterface(t reflect.Type) *LossError {
	if t.NumMethod() == 0 {
		return nil
	}
	return &LossError{Type: t, Why: "it is an interface with methods, and the type of its value is not recorded"}
}

var (
	writeMethods = map[form]string{asMsgpack: "EncodeMsgpack or MarshalMsgpack", asBinary: "MarshalBinary", asText: "MarshalText"}
	readMethods  = map[form]string{asMsgpack: "DecodeMsgpack or UnmarshalMsgpack", asBinary: "UnmarshalBinary", asText: "UnmarshalText"}
)

// inMethods returns what is lost from a type that encodes itself: everything if no method decodes
// it, and the other fields if its methods are promoted from an embedded field.
func (l *lossFinder) inMethods(t reflect.Type, f form) *LossError {
	if l.isRead && readFormOf(t) != f && !isText(t) {
		return &LossError{Type: t, Why: "it has " + writeMethods[f] + ", but no " + readMethods[f]}
	}
	from := map[form]reflect.Type{asBinary: binaryMarshaler, asText: textMarshaler}[f]
	if from == nil || !isPromoted(t, from) {
		return nil
	}
	var others []string
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() && !field.Anonymous {
			others = append(others, field.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return &LossError{Type: t, Why: "its " + writeMethods[f] + " is promoted from an embedded type, and omits " + strings.Join(others, ", ")}
}

// isText reports whether the type is a string or a byte slice. Such a type
// needs no method to decode what its encoding method returned.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// inStruct returns what is lost from a struct that is encoded by its fields.
func (l *lossFinder) inStruct(t reflect.Type) *LossError {
	fields := layoutOf(t, false)
	if fields.clash != nil {
		return &LossError{Type: t, Why: fields.clash.Error()}
	}
	kept := 0
	for _, f := range fields.fields {
		path, problem := findUnsettable(t, f.index)
		switch {
		case problem != nil:
			return prefixLoss(path, problem)
		case path == "":
			kept++
		}
		if problem := l.find(f.typ); problem != nil {
			return prefixLoss(f.path, problem)
		}
	}
	if kept > 0 || !hasHidden(t) {
		return nil
	}
	return &LossError{Type: t, Why: "it has no exported field, and no methods that encode and decode it"}
}

// findUnsettable returns the path of the first field along index that cannot be set, or "" if all
// fields can be set. If the field is an embedded pointer, the fields behind it are lost, and
// findUnsettable also returns this loss.
func findUnsettable(t reflect.Type, index []int) (path string, problem *LossError) {
	for i, at := range index {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		f := t.Field(at)
		t, path = f.Type, path+"."+f.Name
		switch isLast := i == len(index)-1; {
		case f.IsExported():
		case isLast && f.Type.Kind() != reflect.Struct:
			return path, nil
		case f.Type.Kind() == reflect.Pointer:
			return path, &LossError{Type: f.Type, Why: "a pointer to an unexported embedded struct cannot be set"}
		}
	}
	return "", nil
}

// hasHidden reports whether a struct has a field that is not encoded although it has content and
// was not omitted on purpose.
func hasHidden(t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && f.Name != "_" && f.Type.Size() > 0 && !contentless[f.Type] {
			return true
		}
	}
	return false
}

// contentless lists types whose state is meaningless in another process.
var contentless = map[reflect.Type]bool{
	reflect.TypeFor[sync.Mutex](): true, reflect.TypeFor[sync.RWMutex](): true,
	reflect.TypeFor[sync.Once](): true, reflect.TypeFor[sync.WaitGroup](): true,
}
