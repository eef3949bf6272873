package record

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"net"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"syscall"
	"time"
)

// init registers the error types of the standard library whose values can be restored.
func init() {
	// A number that has a name is kept as a sentinel. Any other number is kept as text.
	addStandardIf("syscall.Errno", func(syscall.Errno) (parts, bool) { return parts{}, false }, func(parts) syscall.Errno { return 0 })

	addStandard("fs.PathError",
		func(e *fs.PathError) parts { return parts{texts: []string{e.Op, e.Path}, inner: e.Err} },
		func(p parts) *fs.PathError { return &fs.PathError{Op: p.text(0), Path: p.text(1), Err: p.wrapped()} })
	addStandard("os.LinkError",
		func(e *os.LinkError) parts { return parts{texts: []string{e.Op, e.Old, e.New}, inner: e.Err} },
		func(p parts) *os.LinkError {
			return &os.LinkError{Op: p.text(0), Old: p.text(1), New: p.text(2), Err: p.wrapped()}
		})
	addStandard("os.SyscallError",
		func(e *os.SyscallError) parts { return parts{texts: []string{e.Syscall}, inner: e.Err} },
		func(p parts) *os.SyscallError { return &os.SyscallError{Syscall: p.text(0), Err: p.wrapped()} })
	addStandard("exec.Error",
		func(e *exec.Error) parts { return parts{texts: []string{e.Name}, inner: e.Err} },
		func(p parts) *exec.Error { return &exec.Error{Name: p.text(0), Err: p.wrapped()} })

	addStandard("strconv.NumError",
		func(e *strconv.NumError) parts { return parts{texts: []string{e.Func, e.Num}, inner: e.Err} },
		func(p parts) *strconv.NumError {
			return &strconv.NumError{Func: p.text(0), Num: p.text(1), Err: p.wrapped()}
		})
	addStandard("time.ParseError",
		func(e *time.ParseError) parts {
			return parts{texts: []string{e.Layout, e.Value, e.LayoutElem, e.ValueElem, e.Message}}
		},
		func(p parts) *time.ParseError {
			return &time.ParseError{Layout: p.text(0), Value: p.text(1), LayoutElem: p.text(2), ValueElem: p.text(3), Message: p.text(4)}
		})
	addStandard("base64.CorruptInputError",
		func(e base64.CorruptInputError) parts { return parts{numbers: []int64{int64(e)}} },
		func(p parts) base64.CorruptInputError { return base64.CorruptInputError(p.number(0)) })
	addStandard("hex.InvalidByteError",
		func(e hex.InvalidByteError) parts { return parts{numbers: []int64{int64(e)}} },
		func(p parts) hex.InvalidByteError { return hex.InvalidByteError(p.number(0)) })
	addStandard("csv.ParseError",
		func(e *csv.ParseError) parts {
			return parts{numbers: []int64{int64(e.StartLine), int64(e.Line), int64(e.Column)}, inner: e.Err}
		},
		func(p parts) *csv.ParseError {
			return &csv.ParseError{StartLine: int(p.number(0)), Line: int(p.number(1)), Column: int(p.number(2)), Err: p.wrapped()}
		})
	addNetwork()
	addJSON()
}

func addNetwork() {
	addStandard("url.Error",
		func(e *url.Error) parts { return parts{texts: []string{e.Op, e.URL}, inner: e.Err} },
		func(p parts) *url.Error { return &url.Error{Op: p.text(0), URL: p.text(1), Err: p.wrapped()} })
	addStandard("url.EscapeError",
		func(e url.EscapeError) parts { return parts{texts: []string{string(e)}} },
		func(p parts) url.EscapeError { return url.EscapeError(p.text(0)) })
	addStandard("url.InvalidHostError",
		func(e url.InvalidHostError) parts { return parts{texts: []string{string(e)}} },
		func(p parts) url.InvalidHostError { return url.InvalidHostError(p.text(0)) })
	addStandard("net.OpError", keepOpError, restoreOpError)
	addStandard("net.DNSError",
		func(e *net.DNSError) parts {
			flags := []int64{numberOf(e.IsTimeout), numberOf(e.IsTemporary), numberOf(e.IsNotFound)}
			return parts{texts: []string{e.Err, e.Name, e.Server}, numbers: flags, inner: e.UnwrapErr}
		},
		func(p parts) *net.DNSError {
			return &net.DNSError{
				UnwrapErr: p.inner, Err: p.text(0), Name: p.text(1), Server: p.text(2),
				IsTimeout: p.number(0) != 0, IsTemporary: p.number(1) != 0, IsNotFound: p.number(2) != 0,
			}
		})
	addStandard("net.AddrError",
		func(e *net.AddrError) parts { return parts{texts: []string{e.Err, e.Addr}} },
		func(p parts) *net.AddrError { return &net.AddrError{Err: p.text(0), Addr: p.text(1)} })
	addStandard("net.ParseError",
		func(e *net.ParseError) parts { return parts{texts: []string{e.Type, e.Text}} },
		func(p parts) *net.ParseError { return &net.ParseError{Type: p.text(0), Text: p.text(1)} })
	addStandard("net.DNSConfigError",
		func(e *net.DNSConfigError) parts { return parts{inner: e.Err} },
		func(p parts) *net.DNSConfigError { return &net.DNSConfigError{Err: p.wrapped()} })
	addStandard("net.UnknownNetworkError",
		func(e net.UnknownNetworkError) parts { return parts{texts: []string{string(e)}} },
		func(p parts) net.UnknownNetworkError { return net.UnknownNetworkError(p.text(0)) })
	addStandard("net.InvalidAddrError",
		func(e net.InvalidAddrError) parts { return parts{texts: []string{string(e)}} },
		func(p parts) net.InvalidAddrError { return net.InvalidAddrError(p.text(0)) })
}

func numberOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// keepOpError keeps the addresses as strings. The bits of the first number show which addresses
// exist.
func keepOpError(e *net.OpError) parts {
	p := parts{texts: []string{e.Op, e.Net}, inner: e.Err}
	var there int64
	for i, a := range []net.Addr{e.Source, e.Addr} {
		if a == nil {
			p.texts = append(p.texts, "", "")
			continue
		}
		there |= 1 << i
		p.texts = append(p.texts, a.Network(), a.String())
	}
	if there == 0 {
		p.texts = p.texts[:2]
	} else {
		p.numbers = []int64{there}
	}
	return p
}

func restoreOpError(p parts) *net.OpError {
	e := &net.OpError{Op: p.text(0), Net: p.text(1), Err: p.wrapped()}
	there := p.number(0)
	if there&1 != 0 {
		e.Source = address{p.text(2), p.text(3)}
	}
	if there&2 != 0 {
		e.Addr = address{p.text(4), p.text(5)}
	}
	return e
}

// address is a net.Addr with the given network and string form.
type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }

func addJSON() {
	addStandardIf("json.SyntaxError",
		func(e *json.SyntaxError) (parts, bool) {
			document, ok := brokenJSON(e.Error())
			return parts{texts: []string{document}, numbers: []int64{e.Offset}}, ok
		},
		func(p parts) *json.SyntaxError {
			e := syntaxErrorOf(p.text(0))
			if e == nil { // the document has become valid in this release of Go
				e = new(json.SyntaxError)
			}
			e.Offset = p.number(0)
			return e
		})
	addStandard("json.UnmarshalTypeError",
		func(e *json.UnmarshalTypeError) parts {
			return parts{texts: []string{e.Value, e.Struct, e.Field, nameOfType(e.Type)}, numbers: []int64{e.Offset, kindOfType(e.Type)}}
		},
		func(p parts) *json.UnmarshalTypeError {
			return &json.UnmarshalTypeError{Value: p.text(0), Struct: p.text(1), Field: p.text(2), Type: typeOf(p.text(3), p.number(1)), Offset: p.number(0)}
		})
	addStandard("json.InvalidUnmarshalError",
		func(e *json.InvalidUnmarshalError) parts {
			return parts{texts: []string{nameOfType(e.Type)}, numbers: []int64{kindOfType(e.Type)}}
		},
		func(p parts) *json.InvalidUnmarshalError {
			if p.number(0) == 0 {
				return new(json.InvalidUnmarshalError) // the error for a nil argument
			}
			return &json.InvalidUnmarshalError{Type: typeOf(p.text(0), p.number(0))}
		})
	addStandard("json.UnsupportedTypeError",
		func(e *json.UnsupportedTypeError) parts {
			return parts{texts: []string{nameOfType(e.Type)}, numbers: []int64{kindOfType(e.Type)}}
		},
		func(p parts) *json.UnsupportedTypeError {
			return &json.UnsupportedTypeError{Type: typeOf(p.text(0), p.number(0))}
		})
	addStandard("json.UnsupportedValueError",
		func(e *json.UnsupportedValueError) parts { return parts{texts: []string{e.Str}} },
		func(p parts) *json.UnsupportedValueError { return &json.UnsupportedValueError{Str: p.text(0)} })
	addStandardIf("json.MarshalerError",
		func(e *json.MarshalerError) (parts, bool) {
			p := parts{texts: []string{nameOfType(e.Type)}, numbers: []int64{kindOfType(e.Type), 0}, inner: e.Err}
			for ; p.numbers[1] <= 1; p.numbers[1]++ {
				if restoreMarshalerError(p).Error() == e.Error() {
					return p, true
				}
			}
			return parts{}, false
		}, restoreMarshalerError)
}

// restoreMarshalerError rebuilds the error of a MarshalJSON method or, if the second number is 1,
// of a MarshalText method. Only package json can set which method it was.
func restoreMarshalerError(p parts) *json.MarshalerError {
	e := new(json.MarshalerError)
	if p.number(1) == 1 {
		_, err := json.Marshal(failingText{p.wrapped()})
		_ = errors.As(err, &e)
	}
	e.Type, e.Err = typeOf(p.text(0), p.number(0)), p.wrapped()
	return e
}

// failingText is a value whose MarshalText method fails.
type failingText struct{ err error }

func (f failingText) MarshalText() ([]byte, error) { return nil, f.err }

func nameOfType(t reflect.Type) string {
	if t == nil {
		return ""
	}
	return t.String()
}

func kindOfType(t reflect.Type) int64 {
	if t == nil {
		return 0
	}
	return int64(t.Kind())
}

// predeclared are the types that need no package, by kind.
var predeclared = map[reflect.Kind]reflect.Type{
	reflect.Bool: reflect.TypeFor[bool](), reflect.String: reflect.TypeFor[string](),
	reflect.Int: reflect.TypeFor[int](), reflect.Int8: reflect.TypeFor[int8](), reflect.Int16: reflect.TypeFor[int16](),
	reflect.Int32: reflect.TypeFor[int32](), reflect.Int64: reflect.TypeFor[int64](),
	reflect.Uint: reflect.TypeFor[uint](), reflect.Uint8: reflect.TypeFor[uint8](), reflect.Uint16: reflect.TypeFor[uint16](),
	reflect.Uint32: reflect.TypeFor[uint32](), reflect.Uint64: reflect.TypeFor[uint64](), reflect.Uintptr: reflect.TypeFor[uintptr](),
	reflect.Float32: reflect.TypeFor[float32](), reflect.Float64: reflect.TypeFor[float64](),
	reflect.Complex64: reflect.TypeFor[complex64](), reflect.Complex128: reflect.TypeFor[complex128](),
	reflect.Chan: reflect.TypeFor[chan any](), reflect.Func: reflect.TypeFor[func()](), reflect.Interface: reflect.TypeFor[any](),
	reflect.Map: reflect.TypeFor[map[string]any](), reflect.Pointer: reflect.TypeFor[*any](), reflect.Slice: reflect.TypeFor[[]any](),
	reflect.Array: reflect.TypeFor[[0]any](),
}

// typeOf returns a type that prints like the kept type. It is the kept type itself if that is
// predeclared, and otherwise another type of the same kind, or a struct.
func typeOf(name string, kind int64) reflect.Type {
	like := predeclared[reflect.Kind(kind)]
	if like == nil {
		like = reflect.TypeFor[struct{}]()
	}
	if like.String() == name {
		return like
	}
	return namedType{like, name}
}

// namedType is a type that is printed with the name of another type.
type namedType struct {
	reflect.Type
	name string
}

func (t namedType) String() string { return t.name }

// These methods hide the embedded type's methods, because the kept type does not have them. They
// also let the linker remove unused methods: it keeps every exported method of a program that can
// call Method or MethodByName of package reflect.

func (namedType) NumMethod() int { return 0 }

func (namedType) Method(int) reflect.Method                  { panic("record: the type has no methods") }
func (namedType) MethodByName(string) (reflect.Method, bool) { return reflect.Method{}, false }
func (namedType) Methods() iter.Seq[reflect.Method]          { return func(func(reflect.Method) bool) {} }
