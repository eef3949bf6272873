package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

var stringType = reflect.TypeFor[string]()

// A mismatch is a part of an encoded value that its type cannot hold.
type mismatch struct {
	path string // such as items[2].price; empty for the whole
	got  string // such as "a string"
	want reflect.Type
	err  error // of a decoder of the type's own; nil otherwise
}

func (m *mismatch) Error() string {
	text := fmt.Sprintf("got %s, want %s", m.got, m.want)
	if m.err != nil {
		text = m.err.Error()
	}
	if m.path == "" {
		return text
	}
	return m.path + ": " + text
}

func (m *mismatch) Unwrap() error { return m.err }

// misfit is the error of a value that a type cannot hold.
func misfit(data []byte, t reflect.Type) error { return &mismatch{got: Describe(data), want: t} }

// refused is the error of a value that a method of its type has refused. The
// library's own errors say less than what was found.
func refused(data []byte, t reflect.Type, err error) error {
	if strings.HasPrefix(err.Error(), "msgpack: ") && !errors.Is(err, ErrUnknownField) {
		return misfit(data, t)
	}
	return &mismatch{got: Describe(data), want: t, err: err}
}

// tooLarge is the error of a number that a type is too small for.
func tooLarge(h head, t reflect.Type) error {
	got := strconv.FormatInt(h.int(), 10)
	if h.kind == kindUint {
		got = strconv.FormatUint(h.bits, 10)
	}
	return &mismatch{got: got, want: t}
}

// tooLong is the error of an array with fewer elements than there are.
func tooLong(data []byte, t reflect.Type, n int, of string) error {
	return &mismatch{got: fmt.Sprintf("%s of %d %s", Describe(data), n, of), want: t}
}

// inside adds what is before the path of an error: a name, or the number of an
// element in brackets.
func inside(path string, err error) error {
	m, ok := err.(*mismatch) //nolint:errorlint // the decoder's own, not one in the error of a method
	switch {
	case !ok:
		return &mismatch{path: path, err: err}
	case m.path != "" && m.path[0] != '[':
		path += "."
	}
	m.path = path + m.path
	return m
}
