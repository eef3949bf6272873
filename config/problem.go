package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A Problem is an error at a position in a document, or a warning about a setting that Reprise does
// not support.
type Problem struct {
	File         string // empty if the document is not from a file
	Line, Column int    // starting at 1; 0 if the problem is not in a document, as with environment variables
	Key          string // such as "actors.get_weather.jitter"; empty for the whole document
	Text         string
}

// String returns a line such as "retry.yaml:3:12: all.max_attempts: got -1, want 1 to
// 2147483647, or unlimited".
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

// An Error lists the problems of a document, at most 100, ordered by position.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
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

// Make errors.As find an *Error in recorded errors too.
func init() {
	record.RegisterErrorType[*Error]("config.Error")
}
