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

// step calls the function of each key of a document that is one step of the
// system. The configuration of its retries is at the key own. A document of
// several steps is a problem: that of which one is wanted is not known.
func (v value) step(system, own string, fields map[string]func(value)) {
	want := "one step of " + system + ": a mapping"
	if v.node.Kind == yaml.SequenceNode {
		v.fail("got a list of %d, want %s", len(v.node.Content), want)
		return
	}
	entries := v.entries(want)
	if at, found := severalSteps(entries, own); found != "" {
		at.fail("got %s, want %s", found, want)
		return
	}
	known(entries, fields)
}

// plurals are the keys under which documents have several steps.
var plurals = []string{"workflow", "steps", "step_templates", "tasks"}

// severalSteps describes what a document has instead of one step, and where. The
// text is empty for one step.
func severalSteps(entries []entry, own string) (at value, found string) {
	var with []entry // steps, by their names
	for _, e := range entries {
		if slices.Contains(plurals, e.key) && isCollection(e.value.node) {
			return e.value, "the steps of a whole document"
		}
		if hasKey(e.value.node, own) {
			with = append(with, e)
		}
	}
	isOne := slices.ContainsFunc(entries, func(e entry) bool { return e.key == own })
	if isOne || len(with) < 2 {
		return value{}, ""
	}
	return with[1].value, fmt.Sprintf("a second step with the key %q, after that at %q", own, with[0].key)
}

// isCollection reports whether a list or a mapping has anything in it.
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

// part calls the function of each key that is known, of a mapping that has others
// which are not about retries.
func (v value) part(want string, fields map[string]func(value)) { known(v.entries(want), fields) }

// known calls the function of each key that is known. A key that is nearly a
// known one is a problem.
func known(entries []entry, fields map[string]func(value)) {
	names := slices.Sorted(maps.Keys(fields))
	for _, e := range entries {
		if field, ok := fields[e.key]; ok {
			field(e.value)
		} else if nearest.To(e.key, names) != "" {
			unknown(value{r: e.value.r, node: e.keyNode, path: e.value.path}, e.key, names)
		}
	}
}

// capRetryAfter cuts what a service asks for by Retry-After to the longest delay
// of the configuration.
func (r *Retry) capRetryAfter() {
	r.CapRetryAfter, r.MaxRetryAfter = true, r.MaxDelay
	if r.MaxDelay == core.NoDelay {
		r.InitialDelay, r.MaxDelay = core.NoDelay, 0
		r.MaxRetryAfter = 1 // 0 is the default
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
