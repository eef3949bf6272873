package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Errors of the standard library are kept as parts from which they can be rebuilt. errors.As finds
// the rebuilt errors in a recorded error, with their fields and methods, and also finds interfaces
// such as net.Error. A single value in [Error.Typed] contains the parts of the first error of each
// type in the tree, and of the errors that such an error wraps.

// standardName is the name of the value in [Error.Typed] that contains the parts.
const standardName = "std"

// keptError is an error in the value named standardName.
type keptError struct {
	Kind    string     `json:"kind"` // the name of a standardType, or one of the kinds below
	Texts   []string   `json:"texts,omitempty"`
	Numbers []int64    `json:"numbers,omitempty"`
	Inner   *keptError `json:"inner,omitempty"` // the wrapped error
	Other   *Error     `json:"other,omitempty"` // set for keptOther
}

// The kinds of keptError other than names of a standardType.
const (
	keptSentinel = "sentinel" // a registered error: its name and its text
	keptTyped    = "typed"    // an error of a registered type, by the name of its value in Error.Typed
	keptOther    = "other"    // any other error: whether it is a timeout, and whether it is temporary
)

// standardType is an error type of the standard library.
type standardType struct {
	name string
	typ  reflect.Type
	// keep returns the parts of an error of the type, or false if the error cannot be rebuilt from
	// parts.
	keep    func(error) (parts, bool)
	restore func(parts) error
	ask     func(as func(any) bool) (error, bool) // calls an As method to get an error of the type
}

// parts contains the parts of an error of the standard library.
type parts struct {
	texts   []string
	numbers []int64
	inner   error
}

// text returns the text with index i, or an empty string if there is none.
func (p *parts) text(i int) string {
	if i < len(p.texts) {
		return p.texts[i]
	}
	return ""
}

// number returns the number with index i, or 0 if there is none.
func (p *parts) number(i int) int64 {
	if i < len(p.numbers) {
		return p.numbers[i]
	}
	return 0
}

// wrapped returns the inner error. It is meant for types whose Error method needs one.
func (p *parts) wrapped() error {
	if p.inner == nil {
		return &Error{Message: "(unknown)"}
	}
	return p.inner
}

// standard returns the standardType for E.
func standard[E error](name string, keep func(E) (parts, bool), restore func(parts) E) *standardType {
	return &standardType{
		name:    name,
		keep:    func(err error) (parts, bool) { return keep(err.(E)) }, //nolint:errorlint // of this type itself
		restore: func(p parts) error { return restore(p) },
		ask: func(asAsked func(any) bool) (error, bool) {
			var e E
			ok := asAsked(&e)
			return e, ok
		},
	}
}

var (
	standardTypes  []*standardType
	standardByType = make(map[reflect.Type]*standardType)
	standardByName = make(map[string]*standardType)
)

// addStandard adds the type E. All errors of this type can be restored.
func addStandard[E error](name string, keep func(E) parts, restore func(parts) E) {
	addStandardIf(name, func(e E) (parts, bool) { return keep(e), true }, restore)
}

func addStandardIf[E error](name string, keep func(E) (parts, bool), restore func(parts) E) {
	standard(name, keep, restore).add(reflect.TypeFor[E]())
}

func (t *standardType) add(of reflect.Type) {
	t.typ = of
	standardTypes = append(standardTypes, t)
	standardByType[of], standardByName[t.name] = t, t
}

// network holds the results of the methods of net.Error.
type network struct {
	hasTimeout, hasTemporary bool
	timeout, temporary       bool
}

func networkOf(err error) (n network) {
	if e, ok := err.(interface{ Timeout() bool }); ok {
		n.hasTimeout, n.timeout = true, e.Timeout()
	}
	if e, ok := err.(interface{ Temporary() bool }); ok {
		n.hasTemporary, n.temporary = true, e.Temporary()
	}
	return n
}

// collector collects the errors of the standard library in a tree.
type collector struct {
	registry *errorRegistry
	depth    int
	kept     []keptError

	types                                 map[reflect.Type]bool // types that were kept
	hasNetError, hasTimeout, hasTemporary bool                  // whether a kept error is a net.Error, has a Timeout method, or has a Temporary method
}

// keepStandard returns the encoded errors of the standard library in the tree, or nil if there are
// none. Unless whole is set, the root is kept elsewhere.
func (r *errorRegistry) keepStandard(tree *errorTree, depth int, whole bool) []byte {
	c := collector{registry: r, depth: depth}
	c.add(tree, whole)
	if len(c.kept) == 0 {
		return nil
	}
	data, err := Encode(c.kept)
	if err != nil {
		return nil
	}
	return data
}

func (c *collector) add(tree *errorTree, whole bool) {
	for i, err := range tree.errs {
		if i > 0 || whole {
			c.keep(err)
		}
		switch e := err.(type) { //nolint:errorlint // each error by itself, not what it wraps
		case *Error:
			for _, restored := range e.standard() {
				inside := treeOf(restored)
				c.add(&inside, true)
			}
		case interface{ As(any) bool }:
			c.askFor(e.As)
		}
	}
}

// askFor keeps the errors that can be found only with an As method.
func (c *collector) askFor(as func(any) bool) {
	var (
		net       net.Error
		timeout   interface{ Timeout() bool }
		temporary interface{ Temporary() bool }
	)
	for _, target := range []any{&net, &timeout, &temporary} {
		_ = as(target)
	}
	for _, found := range []any{timeout, temporary, net} { // the net.Error comes last: it must not precede the first error with either method
		if err, ok := found.(error); ok {
			c.keep(err)
		}
	}
	for _, t := range standardTypes {
		if c.types[t.typ] {
			continue
		}
		if found, ok := t.ask(as); ok {
			c.keep(found)
		}
	}
}

// keep keeps err and all errors that it wraps, if err is new.
func (c *collector) keep(err error) {
	if !c.isNew(err) {
		return
	}
	tree := treeOf(err)
	if name := c.registry.nameOfType(reflect.TypeOf(err)); name != "" {
		c.kept = append(c.kept, keptError{Kind: keptTyped, Texts: []string{name}})
		tree.errs = tree.errs[:1] // the value might lack the errors that err wraps
	} else {
		c.kept = append(c.kept, *keepInner(err, c.depth))
	}
	for _, e := range tree.errs {
		if t := reflect.TypeOf(e); standardByType[t] != nil {
			if c.types == nil {
				c.types = make(map[reflect.Type]bool)
			}
			c.types[t] = true
		}
		n := networkOf(e)
		c.hasNetError = c.hasNetError || n.hasTimeout && n.hasTemporary
		c.hasTimeout, c.hasTemporary = c.hasTimeout || n.hasTimeout, c.hasTemporary || n.hasTemporary
	}
}

// isNew reports whether err has a standard library type or interface that no error kept so far has.
func (c *collector) isNew(err error) bool {
	t := reflect.TypeOf(err)
	if standardByType[t] != nil {
		return !c.types[t]
	}
	n := networkOf(err)
	return n.hasTimeout && n.hasTemporary && !c.hasNetError || n.hasTimeout && !c.hasTimeout || n.hasTemporary && !c.hasTemporary
}

// maxStandardDepth is the maximum number of errors of the standard library that are kept if each
// wraps the next.
const maxStandardDepth = 8

// keepInner returns err in the form in which it is kept, or nil if err is nil.
func keepInner(err error, depth int) *keptError { return keepWithin(err, depth, maxStandardDepth) }

func keepWithin(err error, depth, levels int) *keptError {
	if err == nil {
		return nil
	}
	if name := registry.nameOf(err); name != "" {
		return &keptError{Kind: keptSentinel, Texts: []string{name, Truncate(fmt.Sprint(err), MessageLimit)}}
	}
	if t := standardByType[reflect.TypeOf(err)]; t != nil && levels > 0 {
		if p, ok := t.keep(err); ok {
			return &keptError{Kind: t.name, Texts: p.texts, Numbers: p.numbers, Inner: keepWithin(p.inner, depth, levels-1)}
		}
	}
	k := &keptError{Kind: keptOther, Numbers: networkOf(err).numbers()}
	if e, ok := err.(interface{ recorded() *Error }); ok {
		k.Other = e.recorded()
	} else {
		k.Other = describe(err, depth+1, len(k.Numbers) == 0)
	}
	return k
}

// numbers returns the result of each method as 0 or 1, or -1 if the method is missing. It returns
// nil if both methods are missing.
func (n network) numbers() []int64 {
	if !n.hasTimeout && !n.hasTemporary {
		return nil
	}
	number := func(has, is bool) int64 {
		switch {
		case !has:
			return -1
		case is:
			return 1
		}
		return 0
	}
	return []int64{number(n.hasTimeout, n.timeout), number(n.hasTemporary, n.temporary)}
}

// standard returns the errors of the standard library in e.
func (e *Error) standard() (errs []error) {
	for _, typed := range e.Typed {
		if typed.Name != standardName {
			continue
		}
		var kept []keptError
		if Decode(typed.Value, &kept) != nil {
			return nil
		}
		for i := range kept {
			err := kept[i].restore(maxStandardDepth)
			if kept[i].Kind == keptTyped {
				err = e.typed(kept[i].Texts)
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// typed returns the error of a registered type with one of the names, or nil if there is none.
func (e *Error) typed(names []string) error {
	for _, typed := range e.Typed {
		if slices.Contains(names, typed.Name) {
			return registry.restoreAs(typed, typeOfError)
		}
	}
	return nil
}

// restore returns the error that was kept, or nil if k is nil.
func (k *keptError) restore(levels int) error {
	if k == nil {
		return nil
	}
	p := parts{texts: k.Texts, numbers: k.Numbers}
	switch {
	case k.Kind == keptSentinel:
		if err := registry.sentinel(p.text(0)); err != nil {
			return err
		}
		return &Error{Message: p.text(1), Type: p.text(0)} // from another operating system or release
	case k.Kind == keptOther && k.Other != nil:
		return k.other()
	case standardByName[k.Kind] == nil || levels == 0:
		return nil
	}
	p.inner = k.Inner.restore(levels - 1)
	return standardByName[k.Kind].restore(p)
}

// other returns an error whose type is not known.
func (k *keptError) other() error {
	if len(k.Numbers) < 2 {
		return k.Other
	}
	e := restoredError{k.Other}
	timeout, temporary := k.Numbers[0], k.Numbers[1]
	switch {
	case timeout >= 0 && temporary >= 0:
		return &restoredNetwork{restoredTimeout{e, timeout > 0}, temporary > 0}
	case timeout >= 0:
		return &restoredTimeout{e, timeout > 0}
	case temporary >= 0:
		return &restoredTemporary{e, temporary > 0}
	}
	return k.Other
}

// restoredError is an error with methods that an [Error] does not have. errors.As can thus find
// these methods only if the original error had them.
type restoredError struct{ err *Error }

func (e *restoredError) Error() string    { return e.err.Message }
func (e *restoredError) Unwrap() error    { return e.err }
func (e *restoredError) recorded() *Error { return e.err }

type restoredTimeout struct {
	restoredError
	timeout bool
}

func (e *restoredTimeout) Timeout() bool { return e.timeout }

type restoredTemporary struct {
	restoredError
	temporary bool
}

func (e *restoredTemporary) Temporary() bool { return e.temporary }

// restoredNetwork is a restored net.Error.
type restoredNetwork struct {
	restoredTimeout
	temporary bool
}

func (e *restoredNetwork) Temporary() bool { return e.temporary }

// isStandard reports whether e contains an error of the standard library that is equal to target
// and whose type is a comparable value type, such as base64.CorruptInputError.
func (e *Error) isStandard(target error) bool {
	t := reflect.TypeOf(target)
	if t == nil || standardByType[t] == nil || t.Kind() == reflect.Pointer || t == reflect.TypeFor[syscall.Errno]() {
		return false
	}
	for _, err := range e.standard() {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// syntaxErrors are beginnings of JSON documents after which another byte causes a syntax error.
// There is one for each message that package json uses for such errors.
var syntaxErrors = []string{
	"", "{", `{"":0,`, `{""`, `{"":0`, "[0", "0 ", `"`, `"\`, `"\u`, `"\u0`, `"\u00`, `"\u000`, "-", "0.", "0e", "0e-",
	"t", "tr", "tru", "f", "fa", "fal", "fals", "n", "nu", "nul",
}

// brokenJSON returns a document that fails to parse with the given error text. There is no other
// way to set the text of a json.SyntaxError.
func brokenJSON(text string) (document string, ok bool) {
	for _, begin := range syntaxErrors {
		for _, document := range []string{begin, begin + brokenAt(text)} {
			if e := syntaxErrorOf(document); e != nil && e.Error() == text {
				return document, true
			}
		}
	}
	return "", false
}

// brokenAt returns the character that the text of a syntax error quotes.
func brokenAt(text string) string {
	quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(text, "invalid character "))
	if err != nil {
		return "" // the text is that for an unexpected end of the input
	}
	character, err := strconv.Unquote(quoted)
	if r := []rune(character); err == nil && len(r) == 1 && r[0] <= 0xff {
		return string([]byte{byte(r[0])}) // package json quotes a single byte as a character
	}
	return ""
}

// syntaxErrorOf returns the syntax error of a JSON document.
func syntaxErrorOf(document string) *json.SyntaxError {
	var into any
	var e *json.SyntaxError
	if err := json.Unmarshal([]byte(document), &into); !errors.As(err, &e) {
		return nil
	}
	return e
}
