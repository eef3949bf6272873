package condition

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// A toleranceVisitor is a visitor that replaces operations that fail on missing values with
// functions that accept missing values. Children are visited before their parents.
type toleranceVisitor struct{}

// Visit implements ast.Visitor.
func (toleranceVisitor) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.ChainNode:
		*node = n.Node
	case *ast.MemberNode:
		call(node, member, n.Node, n.Property)
	case *ast.UnaryNode:
		if f := unaries[n.Operator]; f != nil {
			call(node, f, n.Node)
		} else {
			n.Node = toBool(n.Node)
		}
	case *ast.BuiltinNode:
		call(node, unaries[n.Name], n.Arguments...)
	case *ast.ConditionalNode:
		n.Cond = toBool(n.Cond)
	case *ast.BinaryNode:
		binary(node, n)
	}
}

func binary(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "??":
		return
	case "and", "&&", "or", "||":
		n.Left, n.Right = toBool(n.Left), toBool(n.Right)
		return
	case "==", "!=":
		_, left := n.Left.(*ast.NilNode)
		_, right := n.Right.(*ast.NilNode)
		if left || right {
			return
		}
	case "matches":
		n.Right = &ast.ConstantNode{Value: regexp.MustCompile(n.Right.(*ast.StringNode).Value)}
	}
	if f := arithmetic[n.Operator]; f != nil {
		call(node, f, n.Left, n.Right)
	} else {
		call(node, comparisons[n.Operator], n.Left, n.Right)
	}
}

// call replaces node with a call to f.
func call[F func(any) any | func(any) bool | func(a, b any) any | func(a, b any) bool](node *ast.Node, f F, arguments ...ast.Node) {
	*node = &ast.CallNode{Callee: &ast.ConstantNode{Value: f}, Arguments: arguments}
}

// toBool converts n to a boolean expression. A missing value counts as false.
func toBool(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.BoolNode, *ast.UnaryNode:
		return n
	case *ast.CallNode:
		if reflect.TypeOf(n.Callee.(*ast.ConstantNode).Value).Out(0).Kind() == reflect.Bool {
			return n
		}
	case *ast.BinaryNode:
		if n.Operator != "??" {
			return n
		}
	}
	call(&n, func(a any) bool { return a == true }, n)
	return n
}

// These functions replace operators and builtins: unaries take one operand, arithmetic
// takes two, and comparisons take two and return a boolean.
var (
	unaries = map[string]func(any) any{
		"-":     unary(runtime.Negate),
		"+":     unary(func(a any) any { return runtime.Add(a, 0) }),
		"len":   unary(func(a any) any { return runtime.Len(a) }),
		"lower": unary(func(a any) any { return strings.ToLower(a.(string)) }),
		"upper": unary(func(a any) any { return strings.ToUpper(a.(string)) }),
	}
	arithmetic = map[string]func(a, b any) any{
		"+":  binaryValue(runtime.Add),
		"-":  binaryValue(runtime.Subtract),
		"*":  binaryValue(runtime.Multiply),
		"/":  binaryValue(func(a, b any) any { return runtime.Divide(a, b) }),
		"%":  binaryValue(func(a, b any) any { return runtime.Modulo(a, b) }),
		"**": binaryValue(func(a, b any) any { return runtime.Exponent(a, b) }),
		"^":  binaryValue(func(a, b any) any { return runtime.Exponent(a, b) }),
	}
	comparisons = map[string]func(a, b any) bool{
		"==":         comparison(runtime.Equal),
		"!=":         comparison(func(a, b any) bool { return !runtime.Equal(a, b) }),
		"<":          comparison(runtime.Less),
		"<=":         comparison(runtime.LessOrEqual),
		">":          comparison(runtime.More),
		">=":         comparison(runtime.MoreOrEqual),
		"in":         comparison(in),
		"contains":   comparison(func(a, b any) bool { return strings.Contains(a.(string), b.(string)) }),
		"startsWith": comparison(func(a, b any) bool { return strings.HasPrefix(a.(string), b.(string)) }),
		"endsWith":   comparison(func(a, b any) bool { return strings.HasSuffix(a.(string), b.(string)) }),
		"matches":    comparison(func(a, b any) bool { return b.(*regexp.Regexp).MatchString(a.(string)) }),
	}
)

// in reports whether a list contains a value, a map or struct has a key, or a string
// contains a substring.
func in(a, b any) bool {
	if text, ok := b.(string); ok {
		return strings.Contains(text, a.(string))
	}
	switch reflect.TypeOf(b).Kind() {
	case reflect.Slice, reflect.Array:
		return runtime.In(a, b)
	}
	return member(b, a) != nil
}

// The functions unary, binaryValue and comparison wrap an operator. The functions that they return
// yield nil or false for missing or incompatible operands, whereas the operators of package runtime
// panic.

func unary(f func(a any) any) func(any) any {
	return func(a any) (out any) {
		if a == nil {
			return nil
		}
		defer func() { _ = recover() }()
		return f(a)
	}
}

func binaryValue(f func(a, b any) any) func(a, b any) any {
	return func(a, b any) (out any) {
		if a == nil || b == nil {
			return nil
		}
		defer func() { _ = recover() }()
		return f(a, b)
	}
}

func comparison(f func(a, b any) bool) func(a, b any) bool {
	return func(a, b any) (holds bool) {
		if a == nil || b == nil {
			return false
		}
		defer func() { _ = recover() }()
		return f(a, b)
	}
}
