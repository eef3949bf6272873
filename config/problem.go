package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A Problem is something wrong at one place of a document, or something in it
// that another system does and Reprise does not.
type Problem struct {
	File         string // empty if the document is none
	Line, Column int    // from 1; 0 for what is in no document, as in the environment
	Key          string // such as "actors.get_weather.jitter"; empty for the document as a whole
	Text         string
}

// String is a line such as
// "retry.yaml:3:12: all.max_attempts: got -1, want 1 to 2147483647, or unlimited".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// An Error lists everything that is wrong with a document, in its order.
type Error struct {
	Problems []Problem
}

// Error has a line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// It is found in errors of calls that were recorded, too.
func init() {
	record.RegisterErrorType[*Error]("config.Error")
}
