package condition

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"github.com/reprise-go/reprise/internal/nearest"
)

// functions lists the functions that a condition may call.
var functions = []string{"len", "lower", "upper"}

// operators lists the operators that a condition may use.
var operators = []string{
	"and", "&&", "or", "||", "not", "!", "==", "!=", "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith",
	"matches", "+", "-", "*", "/", "%", "**", "^", "??",
}

// An admissionVisitor is a visitor that rejects disallowed expressions and rewrites NoETL syntax
// into that of the expression language. Children are visited before their parents.
type admissionVisitor struct {
	source string
	names  uses
	err    error // the first error
}

// Visit implements ast.Visitor.
func (a *admissionVisitor) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode,
		*ast.ConstantNode, *ast.ArrayNode, *ast.ChainNode, *ast.ConditionalNode:
	case *ast.IdentifierNode:
		a.name(node, n)
	case *ast.MemberNode:
		if n.Method {
			a.reject(n, "methods cannot be called")
		}
	case *ast.UnaryNode:
		if !slices.Contains(operators, n.Operator) {
			a.reject(n, fmt.Sprintf("the operator %s is not allowed; want one of %s", n.Operator, strings.Join(operators, " ")))
		}
	case *ast.BinaryNode:
		a.binary(node, n)
	case *ast.BuiltinNode:
		if !slices.Contains(functions, n.Name) {
			a.reject(n, fmt.Sprintf("the function %s is not allowed; want one of %s", n.Name, strings.Join(functions, ", ")))
		}
	case *ast.CallNode:
		a.reject(n, fmt.Sprintf("only the functions %s can be called", strings.Join(functions, ", ")))
	default:
		a.reject(n, "loops, variables, maps, slices and ranges are not allowed in a condition")
	}
}

func (a *admissionVisitor) name(node *ast.Node, n *ast.IdentifierNode) {
	switch n.Value {
	case "None":
		ast.Patch(node, &ast.NilNode{})
	case "True", "False":
		ast.Patch(node, &ast.BoolNode{Value: n.Value == "True"})
	default:
		i := slices.Index(names[:], n.Value)
		if i < 0 {
			problem := fmt.Sprintf("unknown name %q", n.Value)
			if meant := nearest.To(n.Value, names[:]); meant != "" {
				problem += fmt.Sprintf("; did you mean %q?", meant)
			}
			a.reject(n, problem+"; want one of "+strings.Join(names[:], ", "))
			return
		}
		a.names |= 1 << i
	}
}

func (a *admissionVisitor) binary(node *ast.Node, n *ast.BinaryNode) {
	switch {
	case !slices.Contains(operators, n.Operator):
		a.reject(n, fmt.Sprintf("the operator %s is not allowed; want one of %s", n.Operator, strings.Join(operators, " ")))
	case n.Operator == "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok {
			a.reject(n, "the pattern of matches must be a string literal")
			return
		}
		if _, err := regexp.Compile(pattern.Value); err != nil {
			a.reject(n, err.Error())
		}
	case n.Operator == "in" && n.Right.Type() != nil && n.Right.Type().Kind() == reflect.String:
		// In Python and Jinja, the in operator also tests for a substring.
		ast.Patch(node, &ast.BinaryNode{Operator: "contains", Left: n.Right, Right: n.Left})
	}
}

func (a *admissionVisitor) reject(n ast.Node, problem string) {
	if a.err != nil {
		return
	}
	location := (&file.Error{Location: n.Location()}).Bind(file.NewSource(a.source))
	a.err = &Error{location.Line, location.Column + 1, problem}
}
