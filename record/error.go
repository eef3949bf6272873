package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/internal/mark"
)

// An Error is an error as a record keeps it. It has the text, class, status
// code and Retry-After of the error that it was made from. errors.Is and
// errors.As find in it what they found in that error, as far as it is a
// sentinel of the standard library or of package core, or was registered with
// [RegisterError] or [RegisterErrorType].
type Error struct {
	Message   string // cut at MessageLimit
	Type      string // Go type of the error
	Class     Class
	Status    int           // HTTP, 0 for none
	After     time.Duration // Retry-After, 0 for none
	Sentinels []string      // names of registered errors that errors.Is found
	Typed     []TypedError  // values of registered types that errors.As found

	tooLarge []string // registered types whose values are not kept
}

// TooLarge returns the names of the registered types that errors.As found in
// the original error and does not find in e, because their values are larger
// than 64 KB. The names are not recorded.
func (e *Error) TooLarge() []string { return e.tooLarge }

// A TypedError is an error of a registered type, encoded.
type TypedError struct {
	Name  string
	Value []byte
}

// ErrorOf returns err as a record keeps it. ErrorOf(nil) is nil.
func ErrorOf(err error) *Error { return errorOf(err, 0) }

// errorOf is ErrorOf for an error at that depth inside others.
func errorOf(err error, depth int) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	traits := Inspect(err)
	e := &Error{
		Message: Truncate(fmt.Sprint(err), MessageLimit), Type: fmt.Sprintf("%T", err),
		Class: traits.Class, Status: traits.HTTPStatus, After: traits.RetryAfter,
	}
	registry.describe(e, err, depth)
	return e
}

// MessageLimit is the number of characters to which the text of an error is
// cut.
const MessageLimit = 4000

// maxTyped is the size in bytes of the largest value of a registered type that
// is kept.
const maxTyped = 64 << 10

// Brief returns the error without what only errors.As needs and with a short
// text, for records that repeat the error of another record.
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

// HTTPStatusCode returns the status code of the original error, 0 for none.
func (e *Error) HTTPStatusCode() int { return e.Status }

// RetryAfter returns the delay that the service had asked for, 0 for none.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Is matches the registered errors that errors.Is found in the original error.
func (e *Error) Is(target error) bool {
	name := registry.nameOf(target)
	for _, s := range e.Sentinels {
		if name != "" && s == name {
			return true
		}
	}
	return false
}

// As restores the registered type that target asks for.
func (e *Error) As(target any) bool {
	for _, typed := range e.Typed {
		if registry.restore(typed, target) {
			return true
		}
	}
	return false
}

// RegisterError makes errors.Is find err in errors that were recorded and
// restored, under a name that must stay the same from release to release. It is
// for package initialization, and panics if the name or the error is already
// registered with another, or if one is missing.
func RegisterError(name string, err error) {
	if name == "" || err == nil {
		panic("record: RegisterError needs a name and an error")
	}
	registry.addSentinel(name, err)
}

// RegisterErrorType makes errors.As find an E in errors that were recorded and
// restored. The value of E is encoded by its exported fields, including those
// that hold errors. It panics as [RegisterError] does.
func RegisterErrorType[E error](name string) {
	if name == "" {
		panic("record: RegisterErrorType needs a name")
	}
	registry.addType(name, errorTypeOf[E]())
}

// errorType is a registered type without its type parameter.
type errorType struct {
	name    string
	target  reflect.Type // the type of the target of errors.As
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
	types     map[string]errorType
	typeOrder []errorType
}

type namedError struct {
	name string
	err  error
}

var registry = newErrorRegistry()

func newErrorRegistry() *errorRegistry {
	r := &errorRegistry{sentinels: map[string]error{}, names: map[error]string{}, types: map[string]errorType{}}
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
		{"net.ErrClosed", net.ErrClosed},
		{"errors.ErrUnsupported", errors.ErrUnsupported},
		{"syscall.ECONNREFUSED", syscall.ECONNREFUSED},
		{"syscall.ECONNRESET", syscall.ECONNRESET},
		{"syscall.ECONNABORTED", syscall.ECONNABORTED},
		{"syscall.EPIPE", syscall.EPIPE},
		{"syscall.ENOSPC", syscall.ENOSPC},
		{"reprise.ErrRedacted", ErrRedacted},
		{"reprise.retryable", mark.ErrRetryable},
	} {
		r.addSentinel(known.name, known.err)
	}
	return r
}

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
	if taken, ok := r.types[name]; ok && taken.target != t.target {
		panic(fmt.Sprintf("record: RegisterErrorType(%q): the name is taken by %v", name, taken.target.Elem()))
	}
	if _, ok := r.types[name]; !ok {
		t.name = name
		r.typeOrder = append(r.typeOrder, t)
	}
	r.types[name] = t
}

// describe sets the sentinels and types of e to those registered ones that err
// is. Methods of err run without the lock, since they may use the registry. If
// one panics, describe ends.
func (r *errorRegistry) describe(e *Error, err error, depth int) {
	defer func() { _ = recover() }()
	r.mu.RLock()
	sentinels, types := r.order, r.typeOrder // only ever appended to
	r.mu.RUnlock()
	tree := treeOf(err)
	for _, s := range sentinels {
		if tree.is(s.err) {
			e.Sentinels = append(e.Sentinels, s.name)
		}
	}
	if depth > maxErrorDepth {
		return
	}
	for _, t := range types {
		if !tree.mayBe(t.target.Elem()) {
			continue
		}
		switch value, ok := t.find(err, depth); {
		case !ok:
		case len(value) > maxTyped:
			e.tooLarge = append(e.tooLarge, t.name)
		default:
			e.Typed = append(e.Typed, TypedError{t.name, value})
		}
	}
}

// errorTree is an error and all errors that it wraps, in the order of
// errors.Is. It is used to compare them with everything that is registered.
type errorTree struct {
	errs      []error
	answersAs bool // one of them has a method As
}

// treeOf returns the tree of err, up to where a method Unwrap panics.
func treeOf(err error) (t errorTree) {
	defer func() { _ = recover() }()
	t.add(err)
	return t
}

func (t *errorTree) add(err error) {
	for err != nil {
		t.errs = append(t.errs, err)
		if _, ok := err.(interface{ As(any) bool }); ok {
			t.answersAs = true
		}
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range wrapper.Unwrap() {
				t.add(inner)
			}
			return
		default:
			return
		}
	}
}

// is is errors.Is for a target of a comparable type.
func (t *errorTree) is(target error) bool {
	for _, err := range t.errs {
		if err == target {
			return true
		}
		if asked, ok := err.(interface{ Is(error) bool }); ok && asked.Is(target) {
			return true
		}
	}
	return false
}

// mayBe reports whether errors.As might find an error of that type.
func (t *errorTree) mayBe(wanted reflect.Type) bool {
	for _, err := range t.errs {
		if is := reflect.TypeOf(err); is == wanted || wanted.Kind() == reflect.Interface && is.Implements(wanted) {
			return true
		}
	}
	return t.answersAs
}

// nameOf returns the name under which err was registered, empty if it was not.
func (r *errorRegistry) nameOf(err error) (name string) {
	if err == nil || !reflect.TypeOf(err).Comparable() {
		return ""
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	defer func() { _ = recover() }() // a comparable struct may contain a value that is not
	return r.names[err]
}

func (r *errorRegistry) restore(typed TypedError, target any) bool {
	r.mu.RLock()
	t, ok := r.types[typed.Name]
	r.mu.RUnlock()
	return ok && reflect.TypeOf(target) == t.target && t.restore(typed.Value, target)
}
