package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/nearest"
)

// readStep reads a step of another system. It returns warnings as well as an error.
func readStep(data []byte, decode func(value)) (warnings []Problem, err error) {
	err = read(data, func(v value) {
		decode(v)
		warnings = v.r.warnings
	})
	sortProblems(warnings)
	return warnings, err
}

// warn adds a warning at the position of the value.
func (v value) warn(format string, args ...any) {
	problems := len(v.r.problems)
	v.fail(format, args...)
	if len(v.r.problems) > problems {
		v.r.warnings = append(v.r.warnings, v.r.problems[problems])
		v.r.problems = v.r.problems[:problems]
	}
}

// step calls a function from fields for each known key of a document. The document must be a single
// step of the given system; the key named by own holds the step's retry configuration. A document
// with several steps is reported as a problem, because it is not clear which step is wanted.
func (v value) step(system, own string, fields map[string]func(value)) {
	want := "one step of " + system + ": a mapping"
	if v.node.Kind == yaml.SequenceNode {
		v.fail("got a list of %d, want %s", len(v.node.Content), want)
		return
	}
	entries := v.entries(want)
	if second, found := severalSteps(entries, own); found != "" {
		second.fail("got %s, want %s", found, want)
		return
	}
	callKnown(entries, fields)
}

// plurals lists the keys under which documents of other systems hold several steps.
var plurals = []string{"workflow", "steps", "step_templates", "tasks"}

// severalSteps checks whether a document contains several steps. If it does, severalSteps describes
// what it found, and returns the position of the problem; otherwise the description is empty.
func severalSteps(entries []entry, own string) (place value, found string) {
	var steps []entry // entries that look like steps
	for _, e := range entries {
		if slices.Contains(plurals, e.key) && isCollection(e.value.node) {
			return e.value, "the steps of a whole document"
		}
		if hasKey(e.value.node, own) {
			steps = append(steps, e)
		}
	}
	isOne := slices.ContainsFunc(entries, func(e entry) bool { return e.key == own })
	if isOne || len(steps) < 2 {
		return value{}, ""
	}
	return steps[1].value, fmt.Sprintf("a second step with the key %q, after the one at %q", own, steps[0].key)
}

// isCollection reports whether node is a non-empty list or mapping.
func isCollection(node *yaml.Node) bool {
	return (node.Kind == yaml.SequenceNode || node.Kind == yaml.MappingNode) && len(node.Content) > 0
}

func hasKey(node *yaml.Node, key string) bool {
	if node.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return true
		}
	}
	return false
}

// knownFields calls the key's function in fields for each known key of a mapping and ignores other
// keys.
func (v value) knownFields(want string, fields map[string]func(value)) {
	callKnown(v.entries(want), fields)
}

// callKnown calls the key's function in fields for each known key. A key that resembles a known key
// is reported as a typo; other unknown keys are ignored.
func callKnown(entries []entry, fields map[string]func(value)) {
	names := slices.Sorted(maps.Keys(fields))
	for _, e := range entries {
		if field, ok := fields[e.key]; ok {
			field(e.value)
		} else if nearest.To(e.key, names) != "" {
			failUnknownKey(value{r: e.value.r, node: e.keyNode, path: e.value.path}, e.key, names)
		}
	}
}

// capRetryAfter limits delays requested by Retry-After to the maximum delay of the
// configuration.
func (r *Retry) capRetryAfter() {
	r.CapRetryAfter, r.MaxRetryAfter = true, r.MaxDelay
	if r.MaxDelay == core.NoDelay {
		r.InitialDelay, r.MaxDelay = core.NoDelay, 0
		r.MaxRetryAfter = 1 // since 0 would select the default
	}
}

// milliseconds reads a duration in milliseconds.
func (v value) milliseconds() time.Duration {
	return time.Duration(v.integer(0, maxDuration.Milliseconds(), wantMilliseconds)) * time.Millisecond
}

// anyError returns all error classes. Errors that must never be retried are still excluded by the
// rules of package core.
func anyError() []record.Class {
	all := make([]record.Class, len(classes))
	for i := range all {
		all[i] = record.Class(i)
	}
	return all
}
