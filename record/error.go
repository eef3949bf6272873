package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/internal/errtree"
	"github.com/reprise-go/reprise/internal/mark"
)

// An Error is the form in which a record keeps an error. It holds the original error's text, class,
// status code and Retry-After delay. errors.Is and errors.As find an error in an Error if they
// found it in the original error, and it was registered with [RegisterError] or [RegisterErrorType]
// or belongs to package core or to the standard library:
//
//   - The sentinels and the error types of bufio, bytes, context, encoding/base64, encoding/csv,
//     encoding/hex, encoding/json, errors, io, io/fs, net, net/url, os, os/exec, strconv and time.
//     An exec.ExitError is not found, because it belongs to a process.
//   - A syscall.Errno that has a name, even if the record was moved to another operating system
//     that has an error with that name.
//   - Interfaces with the methods Timeout and Temporary, such as net.Error, and interfaces that
//     registered types implement.
type Error struct {
	Message   string // cut at MessageLimit
	Type      string // Go type of the error
	Class     Class
	Status    int           // HTTP status code, or 0
	After     time.Duration // Retry-After, or 0
	Sentinels []string      // names of registered errors that errors.Is found
	Typed     []TypedError  // values of the registered types that errors.As found

	tooLarge []string // registered types whose values were too large to be kept
}

// TooLarge returns the names of the registered types that errors.As found in the original error but
// not in e, because their values are larger than 64 KB. All errors of the standard library share
// the name "errors of the standard library". The names are not recorded.
func (e *Error) TooLarge() []string { return e.tooLarge }

// A TypedError is an encoded error of a registered type.
type TypedError struct {
	Name  string
	Value []byte
}

// ErrorOf returns the form in which a record keeps err. ErrorOf(nil) is nil.
func ErrorOf(err error) *Error { return errorOf(err, 0) }

// errorOf is like ErrorOf, but for an error that is nested in other errors at the given depth.
func errorOf(err error, depth int) *Error { return describe(err, depth, true) }

// describe implements errorOf. whole is false if the results of the methods of net.Error are kept
// elsewhere.
func describe(err error, depth int, whole bool) *Error {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *Error:
		return e
	case *frozenError:
		if e.recorded != nil {
			return e.recorded
		}
	}
	tree := treeOf(err)
	return tree.describe(err, tree.traits(), depth, whole)
}

// describe returns the form in which a record keeps err, the root of the tree.
func (t *errorTree) describe(err error, traits Traits, depth int, whole bool) *Error {
	e := &Error{
		Message: Truncate(fmt.Sprint(err), MessageLimit), Type: fmt.Sprintf("%T", err),
		Class: traits.Class, Status: traits.HTTPStatus, After: traits.RetryAfter,
	}
	registry.describe(e, t, depth, whole)
	return e
}

// MessageLimit is the maximum length of an error's text in characters. Longer texts are cut.
const MessageLimit = 4000

// maxTyped is the maximum size, in bytes, of a value of a registered type. Larger values are not
// kept.
const maxTyped = 64 << 10

// Brief returns the error with a short text, and without the data that only errors.As needs. It is
// meant for records that repeat an error from another record.
func (e *Error) Brief() *Error {
	if e == nil || len(e.Message) <= briefMessage && len(e.Typed) == 0 {
		return e
	}
	brief := *e
	brief.Message, brief.Typed = Truncate(e.Message, briefMessage), nil
	return &brief
}

const briefMessage = 200

// Error returns the text of the error that was recorded.
func (e *Error) Error() string { return e.Message }

// HTTPStatusCode returns the HTTP status code of the original error, or 0 if it had none.
func (e *Error) HTTPStatusCode() int { return e.Status }

// RetryAfter returns the delay that the service asked for, or 0 if it asked for none.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Is reports whether errors.Is found target in the original error. It returns false if target is
// neither registered nor an error of the standard library.
func (e *Error) Is(target error) bool {
	if registry.nameOf(target) != "" {
		for _, s := range e.Sentinels {
			if registry.sentinel(s) == target { // compared by value: an error number may have several names
				return true
			}
		}
	}
	return e.isStandard(target)
}

// As sets *target if errors.As found an error of the type of *target in the original error. This
// type must be registered, belong to the standard library, or be an interface that an error kept in
// e implements.
func (e *Error) As(target any) bool {
	pointer := reflect.TypeOf(target)
	if pointer == nil || pointer.Kind() != reflect.Pointer {
		return false
	}
	for _, typed := range e.Typed {
		if registry.restore(typed, target) {
			return true
		}
	}
	for _, err := range e.standard() {
		if errors.As(err, target) {
			return true
		}
	}
	wanted := pointer.Elem()
	if wanted.Kind() != reflect.Interface {
		return false
	}
	for _, typed := range e.Typed {
		if err := registry.restoreAs(typed, wanted); err != nil {
			reflect.ValueOf(target).Elem().Set(reflect.ValueOf(err))
			return true
		}
	}
	return false
}

// RegisterError registers err under a name, so that errors.Is finds err in errors that were
// recorded and restored. The name must stay the same from release to release. Call RegisterError
// during package initialization. It panics if the name is empty or already registered for another
// error, or if err is nil, registered under another name, or of a type that cannot be compared.
func RegisterError(name string, err error) {
	if name == "" || err == nil {
		panic("record: RegisterError needs a name and an error")
	}
	registry.addSentinel(name, err)
}

// RegisterErrorType makes errors.As find an E in errors that were recorded and restored. The value
// of E is encoded by its exported fields, including those that contain errors. RegisterErrorType
// panics if the name is empty or is already registered for another type.
func RegisterErrorType[E error](name string) {
	if name == "" {
		panic("record: RegisterErrorType needs a name")
	}
	registry.addType(name, errorTypeOf[E]())
}

// errorType is a registered type without its type parameter.
type errorType struct {
	name    string
	target  reflect.Type // the type of the second argument of errors.As
	find    func(err error, depth int) ([]byte, bool)
	restore func([]byte, any) bool
}

// errorRegistry is filled when packages are initialized, like the registries of
// encoding/gob and database/sql.
type errorRegistry struct {
	mu        sync.RWMutex
	sentinels map[string]error
	names     map[error]string
	order     []namedError
	errnos    []namedErrno // kept apart from order, which is searched linearly
	types     map[string]errorType
	typeOrder []errorType
	typeNames map[reflect.Type]string
}

type namedError struct {
	name string
	err  error
}

var registry = newErrorRegistry()

func newErrorRegistry() *errorRegistry {
	r := &errorRegistry{sentinels: map[string]error{}, names: map[error]string{}, types: map[string]errorType{}, typeNames: map[reflect.Type]string{}}
	for _, known := range []namedError{
		{"context.DeadlineExceeded", context.DeadlineExceeded},
		{"context.Canceled", context.Canceled},
		{"io.EOF", io.EOF},
		{"io.ErrUnexpectedEOF", io.ErrUnexpectedEOF},
		{"io.ErrClosedPipe", io.ErrClosedPipe},
		{"io.ErrShortWrite", io.ErrShortWrite},
		{"io.ErrNoProgress", io.ErrNoProgress},
		{"fs.ErrNotExist", fs.ErrNotExist},
		{"fs.ErrExist", fs.ErrExist},
		{"fs.ErrPermission", fs.ErrPermission},
		{"fs.ErrInvalid", fs.ErrInvalid},
		{"fs.ErrClosed", fs.ErrClosed},
		{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded},
		{"os.ErrProcessDone", os.ErrProcessDone},
		{"os.ErrNoDeadline", os.ErrNoDeadline},
		{"exec.ErrNotFound", exec.ErrNotFound},
		{"exec.ErrDot", exec.ErrDot},
		{"exec.ErrWaitDelay", exec.ErrWaitDelay},
		{"net.ErrClosed", net.ErrClosed},
		{"net.ErrWriteToConnected", net.ErrWriteToConnected},
		{"errors.ErrUnsupported", errors.ErrUnsupported},
		{"strconv.ErrRange", strconv.ErrRange},
		{"strconv.ErrSyntax", strconv.ErrSyntax},
		{"io.ErrShortBuffer", io.ErrShortBuffer},
		{"fs.SkipDir", fs.SkipDir},
		{"fs.SkipAll", fs.SkipAll},
		{"os.ErrNoHandle", os.ErrNoHandle},
		{"bufio.ErrTooLong", bufio.ErrTooLong},
		{"bufio.ErrInvalidUnreadByte", bufio.ErrInvalidUnreadByte},
		{"bufio.ErrInvalidUnreadRune", bufio.ErrInvalidUnreadRune},
		{"bufio.ErrNegativeAdvance", bufio.ErrNegativeAdvance},
		{"bufio.ErrAdvanceTooFar", bufio.ErrAdvanceTooFar},
		{"bufio.ErrBadReadCount", bufio.ErrBadReadCount},
		{"bufio.ErrBufferFull", bufio.ErrBufferFull},
		{"bufio.ErrNegativeCount", bufio.ErrNegativeCount},
		{"bytes.ErrTooLarge", bytes.ErrTooLarge},
		{"csv.ErrBareQuote", csv.ErrBareQuote},
		{"csv.ErrQuote", csv.ErrQuote},
		{"csv.ErrFieldCount", csv.ErrFieldCount},
		{"hex.ErrLength", hex.ErrLength},
		{"reprise.ErrRedacted", ErrRedacted},
		{"reprise.retryable", mark.ErrRetryable},
	} {
		r.addSentinel(known.name, known.err)
	}
	r.errnos = append(slices.Clone(commonErrnos), systemErrnos...)
	for _, e := range r.errnos {
		name := errnoPrefix + e.name
		r.sentinels[name] = e.errno
		if r.names[e.errno] == "" { // the first name is written; all names are read
			r.names[e.errno] = name
		}
	}
	return r
}

// errnoPrefix is the prefix of the names of error numbers.
const errnoPrefix = "syscall."

func (r *errorRegistry) addSentinel(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reflect.TypeOf(err).Comparable() {
		panic(fmt.Sprintf("record: RegisterError(%q): errors.Is cannot compare a %T", name, err))
	}
	if taken, ok := r.sentinels[name]; ok && taken != err {
		panic(fmt.Sprintf("record: RegisterError(%q): the name is taken by %q", name, taken))
	}
	if taken, ok := r.names[err]; ok && taken != name {
		panic(fmt.Sprintf("record: RegisterError(%q): the error is registered as %q", name, taken))
	}
	if _, ok := r.sentinels[name]; !ok {
		r.order = append(r.order, namedError{name, err})
	}
	r.sentinels[name], r.names[err] = err, name
}

func (r *errorRegistry) addType(name string, t errorType) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == standardName {
		panic(fmt.Sprintf("record: RegisterErrorType(%q): the name is taken by the errors of the standard library", name))
	}
	if taken, ok := r.types[name]; ok && taken.target != t.target {
		panic(fmt.Sprintf("record: RegisterErrorType(%q): the name is taken by %v", name, taken.target.Elem()))
	}
	if _, ok := r.types[name]; !ok {
		t.name = name
		r.typeOrder = append(r.typeOrder, t)
	}
	r.types[name], r.typeNames[t.target.Elem()] = t, name
}

// describe sets e's sentinels and types to the registered ones that match the tree. The errors'
// methods run without the lock, since they may use the registry. If a method panics, describe
// returns early.
func (r *errorRegistry) describe(e *Error, tree *errorTree, depth int, whole bool) {
	defer func() { _ = recover() }()
	r.mu.RLock()
	sentinels, types := r.order, r.typeOrder // elements are never changed
	r.mu.RUnlock()
	for _, s := range sentinels {
		if tree.is(s.err) {
			e.Sentinels = append(e.Sentinels, s.name)
		}
	}
	e.Sentinels = r.appendErrnos(e.Sentinels, tree)
	if depth > maxErrorDepth || tree.isEndless { // errors.As would not return
		return
	}
	for _, t := range types {
		if !tree.mayContain(t.target.Elem()) {
			continue
		}
		switch value, ok := t.find(tree.errs[0], depth); {
		case !ok:
		case len(value) > maxTyped:
			e.tooLarge = append(e.tooLarge, t.name)
		default:
			e.Typed = append(e.Typed, TypedError{t.name, value})
		}
	}
	switch value := r.keepStandard(tree, depth, whole); {
	case value == nil:
	case len(value) > maxTyped:
		e.tooLarge = append(e.tooLarge, "errors of the standard library")
	default:
		e.Typed = append(e.Typed, TypedError{standardName, value})
	}
}

// appendErrnos appends the names of the error numbers that match the tree.
func (r *errorRegistry) appendErrnos(names []string, tree *errorTree) []string {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, err := range tree.errs {
		switch e := err.(type) {
		case syscall.Errno:
			add(r.nameOf(e))
		case *Error:
			for _, name := range e.Sentinels {
				if strings.HasPrefix(name, errnoPrefix) {
					add(name)
				}
			}
		case interface{ Is(error) bool }:
			for _, known := range r.errnos {
				if e.Is(known.errno) {
					add(r.nameOf(known.errno))
				}
			}
		}
	}
	return names
}

// errorTree holds an error and all errors that it wraps, in the order in which errors.Is visits
// them. It is compared with all registered errors and types.
type errorTree struct {
	errs      []error
	matchers  []interface{ Is(error) bool } // the errors that have an Is method
	answersAs bool                          // at least one error has an As method
	isEndless bool                          // an error wraps itself
}

// treeOf returns the tree of err. If an Unwrap method panics, the tree ends at its error.
func treeOf(err error) (t errorTree) {
	defer func() { _ = recover() }()
	t.isEndless = !errtree.Walk(err, t.add)
	return t
}

func (t *errorTree) add(err error) {
	t.errs = append(t.errs, err)
	if _, ok := err.(interface{ As(any) bool }); ok {
		t.answersAs = true
	}
	if matcher, ok := err.(interface{ Is(error) bool }); ok {
		t.matchers = append(t.matchers, matcher)
	}
}

// traits implements [Inspect].
func (t *errorTree) traits() (found Traits) {
	var of traits
	defer func() {
		_ = recover()
		found = of.toTraits()
	}()
	for _, err := range t.errs {
		of.inspect(err)
	}
	return found // set by the deferred function
}

// is does the same as errors.Is, for a target of a comparable type.
func (t *errorTree) is(target error) bool {
	for _, err := range t.errs {
		if err == target {
			return true
		}
	}
	for _, err := range t.matchers {
		if err.Is(target) {
			return true
		}
	}
	return false
}

// mayContain reports whether errors.As might find an error of the wanted type.
func (t *errorTree) mayContain(wanted reflect.Type) bool {
	for _, err := range t.errs {
		if is := reflect.TypeOf(err); is == wanted || wanted.Kind() == reflect.Interface && is.Implements(wanted) {
			return true
		}
	}
	return t.answersAs
}

// nameOf returns the name under which err was registered, or an empty string if it was not.
func (r *errorRegistry) nameOf(err error) (name string) {
	if err == nil || !reflect.TypeOf(err).Comparable() {
		return ""
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	defer func() { _ = recover() }() // a comparable struct may contain a value that is not comparable
	return r.names[err]
}

// sentinel returns the error that was registered under the given name, or nil if there is none.
func (r *errorRegistry) sentinel(name string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.sentinels[name]
}

// nameOfType returns the name under which the type was registered, or an empty string if the type
// was not registered.
func (r *errorRegistry) nameOfType(t reflect.Type) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.typeNames[t]
}

// restoreAs restores an error of a registered type. It returns nil if the type does not implement
// the wanted interface.
func (r *errorRegistry) restoreAs(typed TypedError, wanted reflect.Type) error {
	r.mu.RLock()
	t, ok := r.types[typed.Name]
	r.mu.RUnlock()
	if !ok || !t.target.Elem().Implements(wanted) {
		return nil
	}
	into := reflect.New(t.target.Elem())
	if !t.restore(typed.Value, into.Interface()) {
		return nil
	}
	err, _ := into.Elem().Interface().(error)
	return err
}

func (r *errorRegistry) restore(typed TypedError, target any) bool {
	r.mu.RLock()
	t, ok := r.types[typed.Name]
	r.mu.RUnlock()
	return ok && reflect.TypeOf(target) == t.target && t.restore(typed.Value, target)
}
