package condition

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// MaxLength is the maximum length of a condition, in bytes.
const MaxLength = 4096

// maxNodes is the maximum number of names, literals and operators in a condition.
const maxNodes = 500

// A Condition is a compiled boolean expression about an attempt. It is immutable and
// safe for concurrent use. Create one with [Compile].
type Condition struct {
	text    string
	program *vm.Program
	names   uses
	idle    sync.Pool // of *evaluation
}

// An Error describes why a condition is invalid, and where.
type Error struct {
	Line, Column int // position in the text, starting at 1
	Problem      string
}

// Error returns a line such as `1:5: unknown name "statuscode"; did you mean
// "status_code"?`.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Problem) }

// Compile parses and type-checks a condition. If it is invalid, the error is an
// *[Error].
func Compile(text string) (*Condition, error) {
	source, err := unwrap(text)
	if err != nil {
		return nil, err
	}
	admitted := &admissionVisitor{source: source}
	_, err = expr.Compile(source, append(limits(), expr.Env(typedNames{}), expr.Patch(admitted))...)
	if admitted.err != nil {
		return nil, admitted.err // more useful than the type error that results from it
	}
	if err != nil {
		return nil, explain(source, err)
	}
	// Compile again with operators that accept missing values.
	untyped := &admissionVisitor{source: source}
	program, err := expr.Compile(source, append(limits(), expr.Env(values{}), expr.Patch(untyped), expr.Patch(toleranceVisitor{}))...)
	if err != nil {
		return nil, explain(source, err)
	}
	return &Condition{text: text, program: program, names: admitted.names}, nil
}

// String returns the text of the condition.
func (c *Condition) String() string { return c.text }

// Holds reports whether the condition is true for the attempt. It never panics.
func (c *Condition) Holds(a core.Attempt) bool {
	e, _ := c.idle.Get().(*evaluation)
	if e == nil {
		e = new(evaluation)
	}
	e.values.fill(a, c.names)
	answer, err := e.machine.Run(c.program, &e.values)
	e.values = values{}
	c.idle.Put(e)
	holds, ok := answer.(bool)
	return err == nil && ok && holds
}

// An evaluation holds the state needed to evaluate a condition once. Evaluations are reused.
type evaluation struct {
	machine vm.VM
	values  values
}

// unwrap replaces the braces of NoETL's {{ … }} with blanks, so that the columns reported in errors
// stay correct.
func unwrap(text string) (string, error) {
	if len(text) > MaxLength {
		return "", &Error{1, 1, fmt.Sprintf("the expression has %d bytes; at most %d are allowed", len(text), MaxLength)}
	}
	source := text
	if inside := strings.TrimSpace(text); strings.HasPrefix(inside, "{{") {
		if !strings.HasSuffix(inside, "}}") || len(inside) < 4 {
			return "", &Error{1, 1, "{{ is not closed; write {{ … }} around the whole expression, or no braces"}
		}
		from, to := strings.Index(text, "{{"), strings.LastIndex(text, "}}")
		source = text[:from] + "  " + text[from+2:to] + "  " + text[to+2:]
	}
	if strings.TrimSpace(source) == "" {
		return "", &Error{1, 1, "the expression is empty; want a boolean expression such as status_code >= 500"}
	}
	return source, nil
}

// limits returns the options common to both compilations.
func limits() []expr.Option {
	options := []expr.Option{expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	return options
}

// explain converts a compiler error to an *Error.
func explain(source string, err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		problem := err.Error()
		if strings.HasPrefix(problem, "expected bool") {
			problem = "the expression is not boolean: " + problem + "; compare it with a value"
		}
		return &Error{1, 1, problem}
	}
	if at.Line == 0 {
		at = at.Bind(file.NewSource(source))
	}
	return &Error{at.Line, at.Column + 1, at.Message}
}

// Make errors.As find an *Error in recorded errors too.
func init() {
	record.RegisterErrorType[*Error]("condition.Error")
}
