package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Difference is a part in which two encoded values differ.
type Difference struct {
	Path     string // such as items[2].price; empty for the whole value
	Was, Now any    // nil on the side that lacks the part
}

// Differences returns at most limit parts in which two encoded values differ.
func Differences(was, now []byte, limit int) (all []Difference, err error) {
	err = compare(was, now, func(path string, was, now any, _ bool) (deeper bool) {
		switch {
		case len(all) >= limit || isSame(was, now):
			return false
		case haveSameParts(was, now):
			return true
		}
		all = append(all, Difference{path, was, now})
		return false
	})
	return all, err
}

func isSame(was, now any) bool {
	at, _ := was.(time.Time)
	other, ok := now.(time.Time)
	return ok && at.Equal(other) || reflect.DeepEqual(was, now)
}

// haveSameParts reports whether both values are objects, or both are arrays of
// the same length.
func haveSameParts(was, now any) bool {
	switch was := was.(type) {
	case map[string]any:
		_, ok := now.(map[string]any)
		return ok
	case []any:
		now, ok := now.([]any)
		return ok && len(was) == len(now)
	}
	return false
}

// A Lost is a part of an encoded value that is lost when the value is decoded into
// a type.
type Lost struct {
	Path  string // such as items[2].price
	Value any
}

// LostBy returns what was lost when the encoded value data was decoded into v: the fields that the
// type of v lacks, unless they are zero. It returns nothing if data is a map but v is not encoded
// as a map.
func LostBy(data []byte, v any) (all []Lost, err error) {
	again, err := Encode(v)
	if err != nil {
		return nil, err
	}
	err = compare(data, again, func(path string, was, _ any, has bool) (deeper bool) {
		if !has && !isZero(was) {
			all = append(all, Lost{path, was})
		}
		return true
	})
	return all, err
}

// A visit is called with a part of one value and the part of the other value at the same path, if
// any. It reports whether to compare what is inside these parts.
type visit func(path string, was, now any, has bool) (deeper bool)

// compare calls visit for each part of two encoded values.
func compare(was, now []byte, visit visit) error {
	var a, b any
	if err := Decode(was, &a); err != nil {
		return err
	}
	if err := Decode(now, &b); err != nil {
		return err
	}
	visit.all("", a, b, true)
	return nil
}

func (visit visit) all(path string, was, now any, has bool) {
	if !visit(path, was, now, has) {
		return
	}
	switch was := was.(type) {
	case map[string]any:
		if now, ok := now.(map[string]any); ok {
			for _, key := range unionOfKeys(was, now) {
				value, has := now[key]
				visit.all(memberPath(path, key), was[key], value, has)
			}
		}
	case []any:
		now, _ := now.([]any)
		for i := range min(len(was), len(now)) {
			visit.all(elementPath(path, i), was[i], now[i], true)
		}
	}
}

// memberPath returns the path of a member of the object at path.
func memberPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// elementPath returns the path of an element of the array at path.
func elementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// unionOfKeys returns the keys of both maps, sorted.
func unionOfKeys(a, b map[string]any) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Values returns the recorded part and the current part, each with its path, such
// as `price: 12` and `price: 13`.
func (d Difference) Values() (was, now string) {
	path := d.Path
	if path != "" {
		path += ": "
	}
	return path + short(d.Was), path + short(d.Now)
}

// String returns a line such as `price: recorded 12, now 13`.
func (d Difference) String() string {
	text := fmt.Sprintf("recorded %s, now %s", short(d.Was), short(d.Now))
	if d.Path == "" {
		return text
	}
	return d.Path + ": " + text
}

// short returns v as JSON, or as formatted by fmt if JSON cannot express it, cut to 40 characters.
func short(v any) string {
	text := fmt.Sprint(v)
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		text = strconv.Quote(v)
	case time.Time:
		text = v.Format(time.RFC3339Nano)
	case map[string]any, []any:
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(v) == nil {
			text = strings.TrimSuffix(b.String(), "\n")
		}
	}
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:39]) + "…"
	}
	return text
}

// isZero reports whether v is empty, in which case nothing is lost without it.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, value := range v {
			if !isZero(value) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case []byte:
		return len(v) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

// String returns a line such as `price: 12`.
func (l Lost) String() string { return fmt.Sprintf("%s: %v", l.Path, l.Value) }
