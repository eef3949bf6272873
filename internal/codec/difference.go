package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// A Difference is a part in which two encoded values differ.
type Difference struct {
	Path     string // such as items[2].price; empty for the whole
	Was, Now any    // nil where one of them does not have it
}

// Differences returns at most limit parts in which two encoded values differ.
func Differences(was, now []byte, limit int) ([]Difference, error) {
	var a, b any
	if err := Decode(was, &a); err != nil {
		return nil, err
	}
	if err := Decode(now, &b); err != nil {
		return nil, err
	}
	all := differences(nil, "", a, b, limit)
	return all, nil
}

func differences(all []Difference, path string, was, now any, limit int) []Difference {
	if len(all) >= limit || reflect.DeepEqual(was, now) {
		return all
	}
	switch a := was.(type) {
	case time.Time:
		if b, ok := now.(time.Time); ok && a.Equal(b) {
			return all
		}
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			for _, key := range unionOfKeys(a, b) {
				all = differences(all, memberPath(path, key), a[key], b[key], limit)
			}
			return all
		}
	case []any:
		if b, ok := now.([]any); ok && len(a) == len(b) {
			for i := range a {
				all = differences(all, elementPath(path, i), a[i], b[i], limit)
			}
			return all
		}
	}
	return append(all, Difference{path, was, now})
}

// memberPath is the path of a member of the object at path.
func memberPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// elementPath is the path of an element of the array at path.
func elementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// unionOfKeys are the keys of both, sorted.
func unionOfKeys(a, b map[string]any) []string {
	var keys []string
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Values returns what was and what is now, each with its path, such as `price: 12`
// and `price: 13`.
func (d Difference) Values() (was, now string) {
	path := d.Path
	if path != "" {
		path += ": "
	}
	return path + short(d.Was), path + short(d.Now)
}

// String is a line such as `price: recorded 12, now 13`.
func (d Difference) String() string {
	text := fmt.Sprintf("recorded %s, now %s", short(d.Was), short(d.Now))
	if d.Path == "" {
		return text
	}
	return d.Path + ": " + text
}

func short(v any) string {
	if v == nil {
		return "nothing"
	}
	text := []rune(fmt.Sprintf("%#v", v))
	switch v := v.(type) {
	case string:
		text = []rune(strconv.Quote(v))
	case time.Time:
		text = []rune(v.Format(time.RFC3339Nano))
	}
	if len(text) > 40 {
		return string(text[:39]) + "…"
	}
	return string(text)
}
