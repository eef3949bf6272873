package engine

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/reprise-go/reprise/record"
)

// The limits for an attempt's attributes.
const (
	maxAttributes    = 32
	maxAttributeKey  = 64   // in characters
	maxAttributeText = 1024 // in characters
)

// Annotate is core.Annotate.
func Annotate(ctx context.Context, key string, value any) {
	if s := scopeInRun(ctx); s != nil && s.call != nil {
		s.ensureState().annotate(key, value)
	}
}

func (in *scopeState) annotate(key string, value any) {
	if key == "" {
		return
	}
	key, value = record.Truncate(key, maxAttributeKey), attribute(value)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.attributes == nil {
		in.attributes = make(map[string]any)
	}
	if _, ok := in.attributes[key]; ok || len(in.attributes) < maxAttributes {
		in.attributes[key] = value
	}
}

// takeAttributes returns the attributes, or nil if there are none, and clears
// them, so that they are recorded once.
func (in *scopeState) takeAttributes() map[string]any {
	in.mu.Lock()
	defer in.mu.Unlock()
	attributes := in.attributes
	in.attributes = nil
	return attributes
}

// attribute converts the value to the form that it has after a resume.
func attribute(value any) any {
	if d, ok := value.(time.Duration); ok {
		return d.Seconds()
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() <= math.MaxInt64 {
			return int64(v.Uint()) //nolint:gosec // it fits
		}
		return v.Uint()
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	case reflect.String:
		return record.Truncate(v.String(), maxAttributeText)
	}
	return record.Truncate(fmt.Sprint(value), maxAttributeText)
}
