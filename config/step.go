package config

import (
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/internal/nearest"
)

// readStep reads a document of another system.
func readStep(data []byte, decode func(value)) (warnings []Problem, err error) {
	err = read(data, func(v value) {
		decode(v)
		warnings = v.r.warnings
	})
	sortProblems(warnings)
	return warnings, err
}

// warn says at the value what another system does and Reprise does not.
func (v value) warn(format string, args ...any) {
	problems := len(v.r.problems)
	v.fail(format, args...)
	if len(v.r.problems) > problems {
		v.r.warnings = append(v.r.warnings, v.r.problems[problems])
		v.r.problems = v.r.problems[:problems]
	}
}

// part calls the function of each key that is known, of a mapping that has others
// which are not about retries. A key that is nearly a known one is a problem.
func (v value) part(want string, fields map[string]func(value)) {
	names := slices.Sorted(maps.Keys(fields))
	for _, e := range v.entries(want) {
		if field, ok := fields[e.key]; ok {
			field(e.value)
		} else if nearest.To(e.key, names) != "" {
			unknown(value{r: v.r, node: e.keyNode, path: e.value.path}, e.key, names)
		}
	}
}

// milliseconds is a duration as a number of them.
func (v value) milliseconds() time.Duration {
	return time.Duration(v.integer(0, maxDuration.Milliseconds(), wantMilliseconds)) * time.Millisecond
}

// anyError are all classes: those of errors that are never retried are left out
// by the rules of core.
func anyError() []record.Class {
	all := make([]record.Class, len(classes))
	for i := range all {
		all[i] = record.Class(i)
	}
	return all
}
