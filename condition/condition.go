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

// MaxLength is the longest text of a condition, in bytes.
const MaxLength = 4096

// maxNodes is how many names, literals and operators a condition may have.
const maxNodes = 500

// A Condition is a compiled expression that is true or false of an attempt. It
// does not change, and is for many goroutines.
type Condition struct {
	text    string
	program *vm.Program
	names   uses
	idle    sync.Pool // of *evaluation
}

// An Error says why a text is no condition, and where.
type Error struct {
	Line, Column int // in the text, from 1
	Problem      string
}

// Error is a line such as `1:5: unknown name "statuscode"; did you mean "status_code"?`.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Problem) }

// Compile parses and type-checks a condition. The error is an *[Error].
func Compile(text string) (*Condition, error) {
	source, err := unwrap(text)
	if err != nil {
		return nil, err
	}
	admitted := &admission{source: source}
	_, err = expr.Compile(source, append(limits(), expr.Env(typedNames{}), expr.Patch(admitted))...)
	if admitted.err != nil {
		return nil, admitted.err // what is not allowed says more than that its types are wrong
	}
	if err != nil {
		return nil, explain(source, err)
	}
	// Compiled again, with operators to which values may be missing.
	again := &admission{source: source}
	program, err := expr.Compile(source, append(limits(), expr.Env(values{}), expr.Patch(again), expr.Patch(tolerance{}))...)
	if err != nil {
		return nil, explain(source, err)
	}
	return &Condition{text: text, program: program, names: admitted.names}, nil
}

// String is the text that was compiled.
func (c *Condition) String() string { return c.text }

// Holds reports whether the condition is true of the attempt. It never panics.
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

// evaluation is what one evaluation needs, kept for the next.
type evaluation struct {
	machine vm.VM
	values  values
}

// unwrap blanks out the braces of NoETL's {{ … }}, so that columns stay right.
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
		return "", &Error{1, 1, "the expression is empty; want one that is true or false, such as status_code >= 500"}
	}
	return source, nil
}

// limits are the options that both compilations have.
func limits() []expr.Option {
	options := []expr.Option{expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	return options
}

// explain makes an Error of the compiler's.
func explain(source string, err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		problem := err.Error()
		if strings.HasPrefix(problem, "expected bool") {
			problem = "the expression is not true or false: " + problem + "; compare it with something"
		}
		return &Error{1, 1, problem}
	}
	if at.Line == 0 {
		at = at.Bind(file.NewSource(source))
	}
	return &Error{at.Line, at.Column + 1, at.Message}
}

// It is found in errors of calls that were recorded, too.
func init() {
	record.RegisterErrorType[*Error]("condition.Error")
}
