package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

var stringType = reflect.TypeFor[string]()

// A mismatch is a part of an encoded value that does not fit its type.
type mismatch struct {
	path string // such as items[2].price; empty for the whole value
	got  string // such as "a string"
	want reflect.Type
	err  error // error from the type's own decoder, or nil
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

// misfit returns the error for a value that does not fit a type.
func misfit(data []byte, t reflect.Type) error { return &mismatch{got: Describe(data), want: t} }

// refused returns the error for a value that a method of its type has rejected with err. If err
// comes from the msgpack library itself, it is replaced by a more specific error.
func refused(data []byte, t reflect.Type, err error) error {
	if strings.HasPrefix(err.Error(), "msgpack: ") && !errors.Is(err, ErrUnknownField) {
		return misfit(data, t)
	}
	return &mismatch{got: Describe(data), want: t, err: err}
}

// tooLarge returns the error for a number that is out of range for a type.
func tooLarge(h head, t reflect.Type) error {
	got := strconv.FormatInt(h.int(), 10)
	if h.kind == kindUint {
		got = strconv.FormatUint(h.bits, 10)
	}
	return &mismatch{got: got, want: t}
}

// tooLong returns the error for an array or bytes that are longer than the type allows.
func tooLong(data []byte, t reflect.Type, n int, of string) error {
	return &mismatch{got: fmt.Sprintf("%s of %d %s", Describe(data), n, of), want: t}
}

// prefixMismatch prepends path to the path in err. path is a name, or the index of an element in
// brackets.
func prefixMismatch(path string, err error) error {
	m, ok := err.(*mismatch) //nolint:errorlint // the decoder's own error, not a method's
	switch {
	case !ok:
		return &mismatch{path: path, err: err}
	case m.path != "" && m.path[0] != '[':
		path += "."
	}
	m.path = path + m.path
	return m
}
