package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A layout lists the encoded fields of a struct, with their names.
type layout struct {
	fields  []*field          // in the order in which they are encoded
	byName  map[string]*field // also contains embedded structs whose fields are listed
	omits   bool              // some field is omitted if it is empty
	asArray bool
	clash   error // the error if two fields have the same name
}

// A field is a field of the struct itself or of an embedded struct.
type field struct {
	name      string
	path      string // Go path, such as .Base.ID
	index     []int
	typ       reflect.Type
	omitEmpty bool
	embedded  bool // a struct that can also be decoded as a whole

	key     []byte // the name, encoded
	encode  encodeFunc
	isEmpty emptyFunc
	decode  decodeFunc
}

// layoutOf returns the layout of a struct. In the old layout, from before JSON was used, two fields
// may have the same name. The old layout follows the rules of the library used at that time:
// github.com/vmihailenco/msgpack/blob/v5.4.1/types.go, getFields.
func layoutOf(t reflect.Type, old bool) *layout { return layoutWithin(t, old, nil) }

// layoutWithin is like layoutOf, but for a struct that is embedded in the structs listed in around.
func layoutWithin(t reflect.Type, old bool, around []reflect.Type) *layout {
	l := &layout{byName: make(map[string]*field)}
	taken := make(map[string]bool)
	if !old {
		taken = ownNames(t)
	}
	around = append(slices.Clip(around), t)
	omitEmpty := false
	for i := range t.NumField() {
		f := t.Field(i)
		name, options := tagOf(f)
		if name == "-" {
			continue
		}
		if f.Name == "_msgpack" {
			l.asArray = options.has("as_array") || options.has("asArray")
			omitEmpty = omitEmpty || options.has("omitempty")
		}
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		one := &field{name: name, path: "." + f.Name, index: f.Index, typ: f.Type, omitEmpty: omitEmpty || options.has("omitempty")}
		if one.name == "" {
			one.name = f.Name
		}
		if f.Anonymous && !options.has("noinline") && l.inline(one, f.IsExported(), old, options.has("inline"), taken, around) {
			continue
		}
		if !f.IsExported() && !old && formOf(pointedTo(f.Type)) != byKind {
			continue // its methods cannot be called
		}
		l.add(one, old)
		if alias := options.value("alias"); alias != "" {
			l.byName[alias] = one
		}
	}
	return l
}

func (l *layout) add(f *field, old bool) {
	if was := l.byName[f.name]; was != nil && !was.embedded && !old {
		l.clash = fmt.Errorf("fields %s and %s are both named %q", was.path[1:], f.path[1:], f.name)
		return
	}
	l.byName[f.name] = f
	l.fields = append(l.fields, f)
	l.omits = l.omits || f.omitEmpty
}

// inline adds the fields of an embedded struct, provided that none of their names
// is taken and the struct has no encoding of its own. Otherwise the struct
// becomes an ordinary field, so that nothing is lost.
func (l *layout) inline(embedded *field, exported, old, forced bool, taken map[string]bool, around []reflect.Type) bool {
	t := pointedTo(embedded.typ)
	if t.Kind() != reflect.Struct || slices.Contains(around, t) {
		return false
	}
	forced = forced && old
	if !forced && !hasFieldsOnly(t, old) && (exported || old) {
		return false
	}
	inner := layoutWithin(t, old, around).fields
	for _, f := range inner {
		if !forced && (l.byName[f.name] != nil || taken[f.name]) {
			return false
		}
	}
	for _, f := range inner {
		if l.byName[f.name] != nil {
			continue
		}
		f.index = append(slices.Clip(embedded.index), f.index...)
		f.path = embedded.path + f.path
		l.add(f, old)
	}
	if l.byName[embedded.name] == nil {
		embedded.embedded = true
		l.byName[embedded.name] = embedded
	}
	return true
}

// hasFieldsOnly reports whether a struct is encoded and decoded by its fields.
func hasFieldsOnly(t reflect.Type, old bool) bool {
	if old {
		return oldFormOf(t) == byKind && readFormOf(t) == byKind
	}
	return formOf(t) == byKind && readFormOf(t) == byKind
}

// pointedTo returns the element type if t is a pointer type, and otherwise t itself.
func pointedTo(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// ownNames returns the names of the fields that are not from an embedded struct.
func ownNames(t reflect.Type) map[string]bool {
	names := make(map[string]bool)
	for i := range t.NumField() {
		f := t.Field(i)
		inner := pointedTo(f.Type)
		name, options := tagOf(f)
		switch {
		case name == "-" || !f.IsExported():
			continue
		case f.Anonymous && !options.has("noinline") && inner.Kind() == reflect.Struct && hasFieldsOnly(inner, false):
			continue
		case name == "":
			name = f.Name
		}
		names[name] = true
	}
	return names
}

// tagOptions are the options of a tag, such as omitempty or alias:name.
type tagOptions []string

// tagOf returns the name and options in a field's tag: the msgpack tag if there is one, otherwise
// the json tag. The name is empty if the tag has none. A tag with a colon before the first comma
// has no name.
func tagOf(f reflect.StructField) (name string, options tagOptions) {
	tag := f.Tag.Get("msgpack")
	if tag == "" {
		tag = f.Tag.Get("json")
	}
	options = strings.Split(tag, ",")
	for i := range options {
		options[i] = strings.TrimSpace(options[i])
	}
	if !strings.Contains(options[0], ":") {
		name, options = options[0], options[1:]
	}
	return name, options
}

func (o tagOptions) has(name string) bool {
	return slices.ContainsFunc(o, func(option string) bool {
		key, _, _ := strings.Cut(option, ":")
		return strings.TrimSpace(key) == name
	})
}

func (o tagOptions) value(name string) string {
	for _, option := range o {
		if key, value, _ := strings.Cut(option, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
