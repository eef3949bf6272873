package streamer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/misfit"
)

const (
	maxBody  = 1 << 20          // maximum size of a request body, in bytes
	maxDepth = 1000             // maximum nesting of values in a body; deeper values cannot be recorded
	bodyTime = 30 * time.Second // how long the body may take to arrive

	exampleTime = "2026-01-02T15:04:05Z"
)

// readBody reads a request's body into the struct that body points to. The body must be a JSON
// object that contains each field at most once. An empty request leaves the struct unchanged. The
// whole request is read and checked before anything is done, so a request that is cut off has no
// effect. If readBody returns false, it has refused the request.
func (h *Handler) readBody(w http.ResponseWriter, req *http.Request, body any) bool {
	data, err := receive(w, req)
	if err == nil {
		err = decodeBody(data, body)
	}
	var long *http.MaxBytesError
	switch {
	case err == nil:
		return true
	case errors.As(err, &long):
		h.refuse(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes", maxBody))
	case errors.Is(err, io.ErrUnexpectedEOF):
		h.refuse(w, http.StatusBadRequest, "bad_request", "the body was cut off")
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		h.refuse(w, http.StatusRequestTimeout, "too_slow", fmt.Sprintf("the body did not arrive within %v", bodyTime))
	default:
		h.refuse(w, http.StatusBadRequest, "bad_request", "the body is not the JSON that is expected here: "+err.Error())
	}
	return false
}

// receive reads a request's whole body. It must arrive within bodyTime unless the server has its
// own limit. Without a limit, a client that stalls before the end of the body would hold the
// connection forever.
func receive(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	server, _ := req.Context().Value(http.ServerContextKey).(*http.Server)
	limited := server != nil && server.ReadTimeout > 0
	if !limited {
		_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // not every ResponseWriter supports deadlines
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err == nil && !limited {
		_ = control.SetReadDeadline(time.Time{})
	}
	return data, err
}

// decodeBody decodes a request body into the struct that body points to.
func decodeBody(data []byte, body any) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0: // treated as {}
		return nil
	case !utf8.Valid(data):
		return errors.New("it is not UTF-8")
	case data[0] != '{':
		return errors.New("want an object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var (
		wrong  *json.UnmarshalTypeError
		noTime *time.ParseError
	)
	switch err := d.Decode(body); {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is %s; want %s", wrong.Field, misfit.Got(wrong), misfit.Want(wrong))
	case errors.As(err, &noTime):
		return fmt.Errorf("%s is not a time; want a time such as %q", noTime.Value, exampleTime)
	case err != nil && strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: "): // the error has no type of its own
		return fmt.Errorf("a time is not a string; want a string such as %q", exampleTime)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not complete")
	case err != nil && strings.HasPrefix(err.Error(), "json: unknown field "):
		return cmp.Or(unknownField(data, "the body", reflect.TypeOf(body).Elem()), errors.New(strings.TrimPrefix(err.Error(), "json: ")))
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		return errors.New("there is more data after the object")
	}
	return checkValue(data)
}

// unknownField returns an error for the first name in data, in alphabetical order, that is not a
// field of t. If there is no such name, it returns nil. The error refers to data by the name given
// in what.
func unknownField(data []byte, what string, t reflect.Type) error {
	switch {
	case t.Kind() == reflect.Pointer:
		return unknownField(data, what, t.Elem())
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return nil
	case t.Kind() == reflect.Slice:
		var elements []json.RawMessage
		_ = json.Unmarshal(data, &elements) // any other kind of JSON has no names
		for i, element := range elements {
			if err := unknownField(element, fmt.Sprintf("%s[%d]", what, i), t.Elem()); err != nil {
				return err
			}
		}
		return nil
	case t.Kind() != reflect.Struct:
		return nil
	}
	var names []string
	types := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
			types[name] = f.Type
		}
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(data, &object)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case i < 0 && len(names) == 0:
			return fmt.Errorf("unknown field %q; %s has no fields", name, what)
		case i < 0:
			return fmt.Errorf("unknown field %q; the fields of %s are %s", name, what, strings.Join(names, ", "))
		}
		if err := unknownField(object[name], names[i], types[names[i]]); err != nil {
			return err
		}
	}
	return nil
}

// checkValue rejects values that are nested too deeply, and objects in which a name occurs twice,
// because only one of that name's values would be used. The outermost object is decoded into a
// struct, so its names are compared without regard to case. data must be valid JSON.
func checkValue(data []byte) error {
	type level struct {
		names  map[string]bool // nil in an array
		isName bool            // the next token in an object is a name
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		within := len(levels) - 1
		switch {
		case token == json.Delim(']'), token == json.Delim('}'):
			levels = levels[:within]
			continue
		case within >= 0 && levels[within].isName:
			name := token.(string)
			if within == 0 {
				name = fold(name, levels[0].names)
			}
			if levels[within].names[name] {
				return fmt.Errorf("%s is given more than once", strconv.Quote(name))
			}
			levels[within].names[name], levels[within].isName = true, false
			continue
		case within >= 0 && levels[within].names != nil:
			levels[within].isName = true
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: make(map[string]bool), isName: true})
		case json.Delim('['):
			levels = append(levels, level{})
		}
		if len(levels) > maxDepth+1 {
			return fmt.Errorf("a value is nested deeper than %d levels", maxDepth)
		}
	}
}

// fold returns the name in names that equals name or differs from it only in case. If there is
// none, it returns name itself.
func fold(name string, names map[string]bool) string {
	for other := range names { // names contains only the fields of a struct, so it is small
		if strings.EqualFold(name, other) {
			return other
		}
	}
	return name
}
