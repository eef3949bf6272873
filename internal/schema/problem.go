package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// A Problem is one error in a JSON document.
type Problem struct {
	// Path is the path of the value, such as items[2].unit. A name that is not a plain word is
	// written in brackets, as in prices["per day"]. Path is empty if the problem is with the whole
	// document.
	Path string

	// Message describes what is wrong and what is allowed.
	Message string
}

// String returns the problem as one line.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// A ValidationError contains the problems that [Schema.Validate] found in a
// document.
type ValidationError struct {
	// Problems has at least one element. It lists duplicate names first and then the other
	// problems, each in the order of the document.
	Problems []Problem
}

// maxLines is the maximum number of problems in a message, since the model that
// reads the message is charged for its length.
const maxLines = 30

// Error returns one problem per line. It shows at most 30 problems, followed by the number of
// further problems.
func (e *ValidationError) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxLines {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(e.Problems)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// member returns the path of the member with the given name in the object at path.
func member(path, name string) string {
	if !isWord(name) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

func isWord(name string) bool {
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-', r == '$':
		default:
			return false
		}
	}
	return name != ""
}
