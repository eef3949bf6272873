package record_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// restored returns err in the form that it has in a resumed run.
func restored(t testing.TB, err error) error {
	t.Helper()
	at, parseErr := record.ParseAddress("tool")
	require.NoError(t, parseErr)
	data, encodeErr := snapshot.AppendRecord(nil, &record.Record{
		Seq: 1, Time: time.Unix(1, 0).UTC(), Address: at, Name: "tool", Kind: record.KindTool, Status: record.StatusFailed, Err: err,
	})
	require.NoError(t, encodeErr)
	r, decodeErr := snapshot.DecodeRecord(data)
	require.NoError(t, decodeErr)
	return r.Err
}

// unmarshal returns the error of decoding a JSON document into the value.
func unmarshal(document string, into any) error { return json.Unmarshal([]byte(document), into) }

func marshal(v any) error {
	_, err := json.Marshal(v)
	return err
}

type unwilling struct{}

func (unwilling) MarshalJSON() ([]byte, error) { return nil, io.ErrShortBuffer }

type unwillingText struct{}

func (unwillingText) MarshalText() ([]byte, error) { return nil, io.ErrShortBuffer }

// slow is a net.Error defined by a user and not registered.
type slow struct{ timeout, temporary bool }

func (slow) Error() string     { return "slow" }
func (e slow) Timeout() bool   { return e.timeout }
func (e slow) Temporary() bool { return e.temporary }

// late has only one of the methods of net.Error.
type late struct{ err error }

func (late) Error() string   { return "late" }
func (late) Timeout() bool   { return true }
func (e late) Unwrap() error { return e.err }

// busyError is a registered error type that implements net.Error.
type busyError struct{ Yes bool }

func (*busyError) Error() string     { return "busy" }
func (e *busyError) Timeout() bool   { return e.Yes }
func (e *busyError) Temporary() bool { return !e.Yes }

func init() { record.RegisterErrorType[*busyError]("core_test.busyError") }

// standardErrors returns errors of the standard library, keyed by their cause.
func standardErrors(t testing.TB) map[string]error {
	t.Helper()
	dir := t.TempDir()
	_, notThere := os.Open(filepath.Join(dir, "none"))
	_, isDir := os.ReadFile(dir)
	_, readDir := fs.ReadDir(os.DirFS(dir), "../x")
	closed, err := os.Create(filepath.Join(dir, "closed"))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, afterClose := closed.Write([]byte("x"))
	_, notFound := exec.LookPath("no-such-program-anywhere")
	_, isRange := strconv.ParseInt("99999999999999999999", 10, 64)
	_, isSyntax := strconv.ParseFloat("one", 64)
	_, noDate := time.Parse(time.RFC3339, "yesterday")
	_, noDay := time.Parse(time.DateOnly, "2024-02-31")
	_, noBase64 := base64.StdEncoding.DecodeString("a$b=")
	_, noHex := hex.DecodeString("zz")
	_, halfHex := hex.DecodeString("a")
	_, quotes := csv.NewReader(strings.NewReader("a,\"b\nc\"d\n")).ReadAll()
	_, noURL := url.Parse(strings.TrimSuffix("http://[::1]", "]"))
	_, noEscape := url.QueryUnescape("%zz")
	_, noHost := url.Parse(strings.Join([]string{"http://a", "b/"}, " "))
	_, noAddress := net.ResolveTCPAddr("tcp", "nowhere")
	_, noNetwork := net.Dial("carrier-pigeon", "x:1")
	_, _, noCIDR := net.ParseCIDR("1.2.3")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	_, acceptClosed := listener.Accept()
	_, refused := net.Dial("tcp", address)
	left, right := net.Pipe()
	t.Cleanup(func() { _, _ = left.Close(), right.Close() })
	require.NoError(t, left.SetReadDeadline(time.Unix(1, 0)))
	_, pipeDeadline := left.Read(make([]byte, 1))
	lines := bufio.NewScanner(strings.NewReader(strings.Repeat("x", 100)))
	lines.Buffer(nil, 10)
	require.False(t, lines.Scan())
	dead, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, dialDeadline := new(net.Dialer).DialContext(dead, "tcp", address)
	_, dialCanceled := new(net.Dialer).DialContext(stopped, "tcp", address)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	_, httpTimeout := (&http.Client{Timeout: 20 * time.Millisecond}).Get(server.URL + "/x?y=z")
	_, httpRefused := http.Get("http://" + address)

	cases := map[string]error{
		"open": notThere, "read a directory": isDir, "invalid path": readDir, "write a closed file": afterClose,
		"link":            &os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EXDEV},
		"syscall":         os.NewSyscallError("connect", syscall.ETIMEDOUT),
		"program":         notFound,
		"wait delay":      exec.ErrWaitDelay,
		"number range":    isRange,
		"number syntax":   isSyntax,
		"date":            noDate,
		"day":             noDay,
		"base64":          noBase64,
		"hex":             noHex,
		"hex length":      halfHex,
		"csv":             quotes,
		"url":             noURL,
		"escape":          noEscape,
		"host":            noHost,
		"address":         noAddress,
		"network":         noNetwork,
		"cidr":            noCIDR,
		"invalid address": net.InvalidAddrError("x"),
		"accept":          acceptClosed,
		"refused":         refused,
		"pipe":            pipeDeadline,
		"line":            lines.Err(),
		"dial deadline":   dialDeadline,
		"dial canceled":   dialCanceled,
		"deadline":        dead.Err(),
		"canceled":        stopped.Err(),
		"http timeout":    httpTimeout,
		"http refused":    httpRefused,
		"dns":             &net.DNSError{Err: "no such host", Name: "x.invalid", Server: "1.1.1.1:53", IsNotFound: true},
		"dns timeout":     &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{UnwrapErr: context.DeadlineExceeded, Err: "i/o timeout", Name: "x", IsTimeout: true, IsTemporary: true}},
		"dns config":      &net.DNSConfigError{Err: syscall.EMFILE},
		"op": &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 80},
			Err: os.NewSyscallError("read", syscall.ECONNRESET),
		},
		"op of a deadline":     &net.OpError{Op: "read", Net: "unix", Err: os.ErrDeadlineExceeded},
		"json end":             unmarshal("", new(any)),
		"json":                 unmarshal("{\"a\": 1,}", new(any)),
		"json string":          unmarshal("[\"a\nb\"]", new(any)),
		"json quote":           unmarshal(`[1"]`, new(any)),
		"json apostrophe":      unmarshal(`{'a': 1}`, new(any)),
		"json escape":          unmarshal(`"\q"`, new(any)),
		"json hexadecimal":     unmarshal(`"\u12x4"`, new(any)),
		"json literal":         unmarshal(`[nope]`, new(any)),
		"json number":          unmarshal(`[-x]`, new(any)),
		"json exponent":        unmarshal(`1e+x`, new(any)),
		"json byte":            unmarshal("\xff", new(any)),
		"json after":           unmarshal(`{} x`, new(any)),
		"json key":             unmarshal(`{"a" 1}`, new(any)),
		"json type":            unmarshal(`{"Limit": "x"}`, new(quotaError)),
		"json named type":      unmarshal(`{"a": [5]}`, new(map[string][]quotaError)),
		"json overflow":        unmarshal(`{"limit": 1e99}`, new(quotaError)),
		"json channel":         marshal(make(chan int)),
		"json NaN":             marshal(math.NaN()),
		"json method":          marshal(unwilling{}),
		"json text method":     marshal(unwillingText{}),
		"json into a value":    unmarshal("1", 5),
		"json into nil":        unmarshal("1", nil),
		"json into a nil":      unmarshal("1", (*quotaError)(nil)),
		"user's net.Error":     slow{timeout: true},
		"user's temporary":     slow{temporary: true},
		"user's timeout":       late{syscall.EPERM},
		"registered net.Error": &busyError{Yes: true},
		"attempt timeout":      &core.TimeoutError{Limit: time.Second, Err: context.DeadlineExceeded},
		"of another in a path": &fs.PathError{Op: "open", Path: "x", Err: &quotaError{Limit: 3}},
		"twice a path":         errors.Join(&fs.PathError{Op: "a", Path: "1", Err: syscall.ENOENT}, &fs.PathError{Op: "b", Path: "2", Err: syscall.EACCES}),
		"many":                 errors.Join(io.EOF, isRange, refused, notThere, unmarshal("{", new(any)), base64.CorruptInputError(7)),
		"asked":                answering{is: syscall.ENOTEMPTY, as: fmt.Errorf("x: %w", notThere)},
		"too large":            bytes.ErrTooLarge,
	}
	for _, no := range []syscall.Errno{syscall.EPERM, syscall.EAGAIN, syscall.EWOULDBLOCK, syscall.EINTR, syscall.EINVAL, syscall.EIO, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.EHOSTUNREACH, syscall.ENOSYS, syscall.EXDEV, syscall.ETIMEDOUT, syscall.EMFILE} {
		cases["errno "+strconv.Itoa(int(no))] = no
	}
	for name, err := range cases {
		require.Error(t, err, name)
	}
	return cases
}

// standardSentinels are the targets with which errors.Is is tested.
var standardSentinels = []error{
	io.EOF, io.ErrUnexpectedEOF, io.ErrShortBuffer, io.ErrShortWrite, io.ErrClosedPipe, io.ErrNoProgress,
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, fs.ErrClosed, os.ErrDeadlineExceeded, os.ErrProcessDone, os.ErrNoDeadline,
	context.Canceled, context.DeadlineExceeded, net.ErrClosed, net.ErrWriteToConnected, errors.ErrUnsupported,
	strconv.ErrRange, strconv.ErrSyntax, exec.ErrNotFound, exec.ErrDot, exec.ErrWaitDelay, bufio.ErrTooLong, bytes.ErrTooLarge,
	fs.SkipDir, os.ErrNoHandle, csv.ErrQuote, csv.ErrBareQuote, csv.ErrFieldCount, hex.ErrLength,
	base64.CorruptInputError(1), base64.CorruptInputError(7), hex.InvalidByteError('z'), hex.InvalidByteError('a'),
	url.EscapeError("%zz"), url.InvalidHostError(" "), net.UnknownNetworkError("carrier-pigeon"), net.InvalidAddrError("x"),
	syscall.EPERM, syscall.ENOENT, syscall.EACCES, syscall.EEXIST, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY, syscall.EINVAL, syscall.EIO,
	syscall.EAGAIN, syscall.EWOULDBLOCK, syscall.EINTR, syscall.EMFILE, syscall.ENOSPC, syscall.ENOSYS, syscall.EXDEV, syscall.EROFS,
	syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ETIMEDOUT, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
	syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EADDRINUSE,
}

// found describes the error of type E that errors.As finds: its text, the results
// of its methods, and its fields. It is empty if there is none.
func found[E any](err error) string {
	var e E
	if !errors.As(err, &e) {
		return ""
	}
	text := fmt.Sprint(e)
	if n, ok := any(e).(interface{ Timeout() bool }); ok {
		text += fmt.Sprint(" timeout: ", n.Timeout())
	}
	if n, ok := any(e).(interface{ Temporary() bool }); ok {
		text += fmt.Sprint(" temporary: ", n.Temporary())
	}
	if reflect.TypeFor[E]().Kind() == reflect.Interface {
		return text
	}
	if v := reflect.Indirect(reflect.ValueOf(e)); v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Type != reflect.TypeFor[reflect.Value]() {
				text += fmt.Sprintf(" %s: %v", f.Name, v.Field(i))
			}
		}
	}
	for _, s := range standardSentinels { // also look in the error that errors.As found
		if inside, ok := any(e).(error); ok && errors.Is(inside, s) {
			text += fmt.Sprintf(" is %v", s)
		}
	}
	return text
}

var findStandard = map[string]func(error) string{
	"net.Error": found[net.Error], "Timeout": found[interface{ Timeout() bool }], "Temporary": found[interface{ Temporary() bool }],
	"Errno": found[syscall.Errno], "PathError": found[*fs.PathError], "LinkError": found[*os.LinkError], "SyscallError": found[*os.SyscallError],
	"OpError": found[*net.OpError], "DNSError": found[*net.DNSError], "AddrError": found[*net.AddrError], "net.ParseError": found[*net.ParseError],
	"UnknownNetworkError": found[net.UnknownNetworkError], "InvalidAddrError": found[net.InvalidAddrError], "DNSConfigError": found[*net.DNSConfigError],
	"url.Error": found[*url.Error], "EscapeError": found[url.EscapeError], "InvalidHostError": found[url.InvalidHostError],
	"NumError": found[*strconv.NumError], "time.ParseError": found[*time.ParseError], "CorruptInputError": found[base64.CorruptInputError],
	"InvalidByteError": found[hex.InvalidByteError], "csv.ParseError": found[*csv.ParseError], "exec.Error": found[*exec.Error],
	"SyntaxError": found[*json.SyntaxError], "UnmarshalTypeError": found[*json.UnmarshalTypeError], "UnsupportedTypeError": found[*json.UnsupportedTypeError],
	"InvalidUnmarshalError": found[*json.InvalidUnmarshalError], "MarshalerError": found[*json.MarshalerError], "UnsupportedValueError": found[*json.UnsupportedValueError],
}

func TestErrorsOfTheStandardLibraryMatchAfterAResume(t *testing.T) {
	for name, err := range standardErrors(t) {
		for how, live := range map[string]error{
			"alone": err, "wrapped": fmt.Errorf("call: %w", err), "joined": errors.Join(errors.New("first"), err), "marked": core.Permanent(err),
			"of a call": &core.CallError{Name: "tool", Reason: record.ReasonExhausted, Err: err}, "asked": answering{is: err, as: err},
		} {
			once := restored(t, live)
			for when, got := range map[string]error{"once": once, "again": restored(t, fmt.Errorf("again: %w", once))} {
				at := name + ", " + how + ", " + when
				for _, s := range standardSentinels {
					assert.Equal(t, errors.Is(live, s), errors.Is(got, s), "%s: errors.Is(%#v, %#v)", at, live, s)
				}
				for target, find := range findStandard {
					assert.Equal(t, find(live), find(got), "%s: errors.As(%s)", at, target)
				}
				assert.Equal(t, record.Classify(live), record.Classify(got), at)
			}
		}
	}
}

func TestErrorsInRestoredOnesAreThoseOfTheStandardLibrary(t *testing.T) {
	err := restored(t, &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT})
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
	assert.Equal(t, &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, path)
	var number *strconv.NumError
	_, failed := strconv.Atoi("x")
	require.ErrorAs(t, restored(t, failed), &number)
	assert.Equal(t, strconv.ErrSyntax, number.Err)
	var unfit *json.UnmarshalTypeError
	require.ErrorAs(t, restored(t, unmarshal(`"x"`, new(int))), &unfit)
	assert.Equal(t, reflect.TypeFor[int](), unfit.Type)
	require.ErrorAs(t, restored(t, unmarshal(`"x"`, new(quotaError))), &unfit)
	assert.Equal(t, "record_test.quotaError", unfit.Type.String())
	assert.Equal(t, reflect.Struct, unfit.Type.Kind())
	var quota *quotaError
	require.ErrorAs(t, restored(t, &fs.PathError{Op: "open", Path: "x", Err: &quotaError{Limit: 3}}), &path)
	require.ErrorAs(t, path.Err, &quota)
	assert.Equal(t, 3, quota.Limit)
}

func TestErrnosAreKeptByName(t *testing.T) {
	e := record.ErrorOf(fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}))
	assert.Contains(t, e.Sentinels, "syscall.ENOENT")
	assert.Contains(t, e.Sentinels, "fs.ErrNotExist")
	var no syscall.Errno
	assert.NotErrorAs(t, restored(t, &record.Error{Message: "x", Sentinels: []string{"syscall.EELSEWHERE"}}), &no)
	assert.NotErrorAs(t, restored(t, syscall.Errno(4000)), &no, "a number without a name is not restored")
}

// The recorded form of an error has a limited size, no matter what the error wraps.
func TestWhatIsKeptOfErrorsIsBounded(t *testing.T) {
	size := func(err error) int {
		n := 0
		for _, typed := range record.ErrorOf(err).Typed {
			n += len(typed.Value)
		}
		return n
	}
	deep, many := error(syscall.ENOENT), make([]error, 0, 1000)
	for i := range 1000 {
		deep = &fs.PathError{Op: "open", Path: strconv.Itoa(i), Err: deep}
		many = append(many, &fs.PathError{Op: "open", Path: strconv.Itoa(i), Err: syscall.ENOENT})
	}
	mixed := error(syscall.ECONNRESET)
	for range 6 {
		mixed = fmt.Errorf("outer: %w", &url.Error{Op: "Get", URL: "x", Err: fmt.Errorf("inner: %w", &net.OpError{Op: "read", Err: fmt.Errorf("innermost: %w", mixed)})})
	}
	assert.Less(t, size(deep), 30_000, "five texts of at most 4,000 characters")
	assert.Less(t, size(errors.Join(many...)), 500)
	assert.Less(t, size(mixed), 20_000)
	huge := record.ErrorOf(&fs.PathError{Op: "open", Path: strings.Repeat("x", 70_000), Err: syscall.ENOENT})
	assert.Empty(t, huge.Typed)
	assert.Equal(t, []string{"errors of the standard library"}, huge.TooLarge())
	assert.ErrorIs(t, huge, syscall.ENOENT)
	assert.Less(t, size(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), 400, "a common error")
}

// FuzzRestoredErrors restores errors of the standard library from arbitrary bytes, calls their
// methods, and encodes them again. None of this may panic.
func FuzzRestoredErrors(f *testing.F) {
	for _, err := range standardErrors(f) {
		for _, typed := range record.ErrorOf(err).Typed {
			if typed.Name == "std" {
				f.Add(typed.Value)
			}
		}
	}
	for _, kind := range []string{
		"fs.PathError", "os.LinkError", "os.SyscallError", "exec.Error", "strconv.NumError", "time.ParseError", "csv.ParseError", "url.Error", "net.OpError", "net.DNSError",
		"net.DNSConfigError", "json.SyntaxError", "json.UnmarshalTypeError", "json.UnsupportedTypeError", "json.MarshalerError", "syscall.Errno", "sentinel", "typed", "other", "none",
	} {
		bare, err := record.Encode([]map[string]any{{"kind": kind}})
		require.NoError(f, err)
		f.Add(bare)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		e := &record.Error{Message: "x", Typed: []record.TypedError{{Name: "std", Value: value}}}
		again := record.ErrorOf(fmt.Errorf("again: %w", e))
		for _, err := range []error{e, again} {
			_ = record.Classify(err)
			for _, s := range standardSentinels {
				_ = errors.Is(err, s)
			}
			for _, find := range findStandard {
				_ = find(err)
			}
		}
		for _, typed := range again.Typed {
			if len(typed.Value) > 64<<10 {
				t.Errorf("%d bytes are kept", len(typed.Value))
			}
		}
	})
}
