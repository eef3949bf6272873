package condition

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// names lists the names that a condition may use. The index of a name is its bit number in uses.
var names = [...]string{"result", "data", "status_code", "error", "success", "attempt", "execution_id", "node_id"}

// uses is a bit set of names.
type uses uint8

const (
	usesResult uses = 1 << iota
	usesData
	usesStatusCode
	usesError
	usesSuccess
	usesAttempt
	usesExecutionID
	usesNodeID
)

// typedNames declares the types used for type-checking.
type typedNames struct {
	Result      any    `expr:"result"`
	Data        any    `expr:"data"`
	StatusCode  int    `expr:"status_code"`
	Error       string `expr:"error"`
	Success     bool   `expr:"success"`
	Attempt     int    `expr:"attempt"`
	ExecutionID string `expr:"execution_id"`
	NodeID      string `expr:"node_id"`
}

// values holds the values of the names for one attempt. Nil means that a value is missing.
type values struct {
	Result      any `expr:"result"`
	Data        any `expr:"data"`
	StatusCode  any `expr:"status_code"`
	Error       any `expr:"error"`
	Success     any `expr:"success"`
	Attempt     any `expr:"attempt"`
	ExecutionID any `expr:"execution_id"`
	NodeID      any `expr:"node_id"`
}

// fill sets only the values of the names that are used, because some values are expensive to
// compute.
func (v *values) fill(a core.Attempt, used uses) {
	var result any
	if a.Err == nil {
		result = plain(a.Output)
	}
	if used&usesResult != 0 {
		v.Result = result
	}
	if used&usesData != 0 {
		if v.Data = member(result, "data"); v.Data == nil {
			v.Data = result
		}
	}
	if used&usesStatusCode != 0 {
		if code, ok := record.HTTPStatus(a.Err); ok {
			v.StatusCode = code
		} else {
			v.StatusCode = member(result, "status_code")
		}
	}
	if used&usesError != 0 && a.Err != nil {
		v.Error = textOf(a.Err)
	}
	if used&usesSuccess != 0 {
		success, ok := member(result, "success").(bool)
		v.Success = a.Err == nil && (!ok || success)
	}
	if used&usesAttempt != 0 {
		v.Attempt = a.Number
	}
	if used&usesExecutionID != 0 && a.RunID != "" {
		v.ExecutionID = a.RunID
	}
	if used&usesNodeID != 0 && !a.Address.IsZero() {
		v.NodeID = a.Address.String()
	}
}

func textOf(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprint(err) // describes the panic of the Error method, but allocates more
		}
	}()
	return err.Error()
}

// plain converts v to a basic type: named numbers, strings and booleans to their
// underlying types, pointers to their elements, and nil pointers and unsupported kinds
// to nil.
func plain(v any) any {
	switch v := v.(type) {
	case nil, bool, int, float64, string, map[string]any, []any:
		return v
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
		return nil
	}
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer || r.Kind() == reflect.Interface {
		if r.IsNil() {
			return nil
		}
		if r.Kind() == reflect.Pointer && r.Elem().Kind() == reflect.Struct {
			return r.Interface() // avoid a copy
		}
		r = r.Elem()
	}
	switch {
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		if r.Uint() > math.MaxInt64 {
			return float64(r.Uint())
		}
		return int64(r.Uint()) //nolint:gosec // it fits
	case r.CanFloat():
		return r.Float()
	}
	switch r.Kind() {
	case reflect.Bool:
		return r.Bool()
	case reflect.String:
		return r.String()
	case reflect.Map, reflect.Slice:
		if r.IsNil() {
			return nil
		}
	case reflect.Struct, reflect.Array:
	default:
		return nil // functions, channels and similar kinds
	}
	return r.Interface()
}

// member returns a member of a value: a map's entry by key, a struct's field by JSON name, or a
// list's item by index. It returns nil if there is no such member.
func member(container, key any) any {
	switch m := container.(type) {
	case nil:
		return nil
	case map[string]any:
		name, _ := key.(string)
		return plain(m[name])
	}
	r := reflect.ValueOf(container)
	for r.Kind() == reflect.Pointer {
		r = r.Elem()
	}
	name, named := key.(string)
	switch r.Kind() {
	case reflect.Struct:
		if i := fieldOf(r.Type(), name); named && i != nil {
			return plainField(r, i)
		}
	case reflect.Map:
		if named && r.Type().Key().Kind() == reflect.String {
			return plainValue(r.MapIndex(reflect.ValueOf(name).Convert(r.Type().Key())))
		}
	case reflect.Slice, reflect.Array:
		if i, ok := index(key); ok && i >= 0 && i < r.Len() {
			return plainValue(r.Index(i))
		}
	}
	return nil
}

func plainValue(v reflect.Value) any {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	return plain(v.Interface())
}

// plainField returns the plain value of the field at index, or nil if an embedded pointer on the
// path is nil.
func plainField(r reflect.Value, index []int) any {
	field, err := r.FieldByIndexErr(index)
	if err != nil {
		return nil
	}
	return plainValue(field)
}

func index(key any) (int, bool) {
	switch i := key.(type) {
	case int:
		return i, true
	case int64:
		return int(i), true
	case float64:
		return int(i), i == math.Trunc(i)
	}
	return 0, false
}

// fieldsOf caches the fields of struct types by JSON name, as
// map[reflect.Type]map[string][]int. Its size is bounded by the number of output types
// in the program.
var fieldsOf sync.Map

func fieldOf(t reflect.Type, name string) []int {
	known, ok := fieldsOf.Load(t)
	if !ok {
		fields := make(map[string][]int)
		for _, f := range reflect.VisibleFields(t) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() || tag == "-" || f.Anonymous && tag == "":
				continue
			case tag == "":
				tag = f.Name
			}
			if outer, ok := fields[tag]; !ok || len(f.Index) < len(outer) {
				fields[tag] = f.Index
			}
		}
		known, _ = fieldsOf.LoadOrStore(t, fields)
	}
	return known.(map[string][]int)[name]
}
