package schema

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a field of a struct as encoding/json sees it.
type field struct {
	name   string // name in JSON
	goName string
	typ    reflect.Type
	tag    reflect.StructTag
	index  []int

	tagged   bool // the name is from a tag, which takes precedence over untagged names
	optional bool
	quoted   bool

	// unreachable is the unexported struct to which an embedded pointer on the path to the field
	// points, or nil if there is none. encoding/json can encode such a field but not set it.
	unreachable reflect.Type
}

// embedded is a struct whose fields are promoted, at some depth.
type embedded struct {
	typ         reflect.Type
	index       []int
	optional    bool // embedded by pointer; the pointer is nil if none of the fields is given
	unreachable reflect.Type
}

// fieldsOf returns the fields of the struct t in order. The fields of embedded structs are promoted
// as in encoding/json: a name hides the same name at a greater depth, a tagged name hides an
// untagged name at the same depth, and names that still conflict hide each other.
func fieldsOf(t reflect.Type) []*field {
	var found []*field
	visited := map[reflect.Type]bool{}
	for level := []embedded{{typ: t}}; len(level) > 0; {
		times := map[reflect.Type]int{}
		for _, e := range level {
			times[e.typ]++
		}
		var next []embedded
		for _, e := range level {
			if visited[e.typ] {
				continue
			}
			visited[e.typ] = true
			own, promoted := scan(e)
			found = append(found, own...)
			if times[e.typ] > 1 {
				// The same struct occurs twice at one depth: its names hide each other.
				found = append(found, own...)
			}
			next = append(next, promoted...)
		}
		level = next
	}
	return dropHidden(found)
}

// scan returns the fields of e itself, and the structs that e embeds.
func scan(e embedded) (own []*field, promoted []embedded) {
	for i := range e.typ.NumField() {
		sf := e.typ.Field(i)
		elem := sf.Type
		if elem.Name() == "" && elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		if !sf.IsExported() && (!sf.Anonymous || elem.Kind() != reflect.Struct) {
			continue
		}
		tag := sf.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		index := append(slices.Clone(e.index), i)

		if name == "" && sf.Anonymous && elem.Kind() == reflect.Struct {
			through := embedded{typ: elem, index: index, optional: e.optional, unreachable: e.unreachable}
			if elem != sf.Type {
				through.optional = true
				if !sf.IsExported() {
					through.unreachable = elem
				}
			}
			promoted = append(promoted, through)
			continue
		}
		unreachable := e.unreachable
		if !sf.IsExported() && elem != sf.Type {
			unreachable = elem // the struct is embedded too, but its field has a name
		}

		has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
		own = append(own, &field{
			name:        cmp.Or(name, sf.Name),
			goName:      sf.Name,
			typ:         sf.Type,
			tag:         sf.Tag,
			index:       index,
			tagged:      name != "",
			optional:    e.optional || sf.Type.Kind() == reflect.Pointer || has("omitempty") || has("omitzero"),
			quoted:      has("string"),
			unreachable: unreachable,
		})
	}
	return own, promoted
}

// dropHidden drops the fields that are hidden by others.
func dropHidden(found []*field) []*field {
	byName := map[string][]*field{}
	for _, f := range found {
		byName[f.name] = append(byName[f.name], f)
	}
	var fields []*field
	for _, same := range byName {
		slices.SortFunc(same, func(a, b *field) int {
			return cmp.Or(rank(a, b), slices.Compare(a.index, b.index))
		})
		if len(same) == 1 || rank(same[0], same[1]) != 0 {
			fields = append(fields, same[0])
		}
	}
	slices.SortFunc(fields, func(a, b *field) int { return slices.Compare(a.index, b.index) })
	return fields
}

// rank compares two fields of the same name. A field that hides the other comes first.
func rank(a, b *field) int {
	if c := cmp.Compare(len(a.index), len(b.index)); c != 0 {
		return c
	}
	switch {
	case a.tagged == b.tagged:
		return 0
	case a.tagged:
		return -1
	}
	return 1
}

// validName reports whether encoding/json accepts name in a tag. If it does not, the Go name is
// used.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}
