package schema

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A check returns why Go would reject a value that the JSON schema allows, or "" if Go accepts it.
// It is not called for null.
type check func(value any) string

func fitsSigned(t reflect.Type) check {
	return inRange(t, func(text string) error {
		_, err := strconv.ParseInt(text, 10, t.Bits())
		return err
	})
}

func fitsUnsigned(t reflect.Type) check {
	return inRange(t, func(text string) error {
		_, err := strconv.ParseUint(text, 10, t.Bits())
		return err
	})
}

func fitsFloat(t reflect.Type) check {
	return inRange(t, func(text string) error {
		_, err := strconv.ParseFloat(text, t.Bits())
		return err
	})
}

// inRange returns a check of numbers that uses parse.
func inRange(t reflect.Type, parse func(string) error) check {
	return func(value any) string {
		if number, ok := value.(json.Number); ok && parse(number.String()) != nil {
			return fmt.Sprintf("%s is out of range for %s", brief(value), t.Kind())
		}
		return ""
	}
}

// fitsAny checks all numbers in a value, because encoding/json decodes a number
// into an any as a float64.
func fitsAny(value any) string {
	switch v := value.(type) {
	case json.Number:
		return fitsFloat(reflect.TypeFor[float64]())(v)
	case []any:
		for _, item := range v {
			if message := fitsAny(item); message != "" {
				return message
			}
		}
	case *object:
		for _, name := range v.names {
			if message := fitsAny(v.values[name]); message != "" {
				return message
			}
		}
	}
	return ""
}

func isBase64(value any) string {
	if text, ok := value.(string); ok {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Sprintf("got %s, want base64 in the standard alphabet with padding", brief(value))
		}
	}
	return ""
}

func isTime(value any) string {
	var t time.Time
	if json.Unmarshal(encode(value), &t) != nil {
		return fmt.Sprintf(`got %s, want an RFC 3339 date-time such as "2006-01-02T15:04:05Z"`, brief(value))
	}
	return ""
}

// decodes returns a check that decodes the value with t's methods.
func decodes(t reflect.Type) check {
	return func(value any) string {
		if err := json.Unmarshal(encode(value), reflect.New(t).Interface()); err != nil {
			return refused(value, t, err)
		}
		return ""
	}
}

// isText returns a check that decodes a map key with t's text methods.
func isText(t reflect.Type) check {
	return func(value any) string {
		text, _ := value.(string)
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return refused(value, t, err)
		}
		return ""
	}
}

func refused(value any, t reflect.Type, err error) string {
	return fmt.Sprintf("%s is not a valid %s: %s", brief(value), t, strings.TrimPrefix(err.Error(), "json: "))
}

// A textForm describes how a scalar is written in a string.
type textForm struct {
	want    string
	pattern *regexp.Regexp // nil if the schema has no pattern for it
}

var (
	integerText  = textForm{"integer in a string", regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)}
	unsignedText = textForm{"unsigned integer in a string", regexp.MustCompile(`^(0|[1-9][0-9]*)$`)}
	numberText   = textForm{"number in a string", regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)}
	quotedText   = textForm{want: "JSON string in a string"}
)

// textFormOf returns how a scalar of type t, other than a bool, is written in a
// string.
func textFormOf(t reflect.Type) textForm {
	switch {
	case isSigned(t):
		return integerText
	case isUnsigned(t):
		return unsignedText
	case t.Kind() == reflect.String && t != jsonNumber:
		return quotedText
	}
	return numberText
}

// isQuoted returns a check that a string contains the JSON form of a scalar of type t.
func isQuoted(t reflect.Type) check {
	form := textFormOf(t)
	return func(value any) string {
		text, _ := value.(string)
		switch {
		case t.Kind() == reflect.Bool:
			return "" // the enum has already checked the value
		case form.pattern == nil && !isJSONString(text):
			return fmt.Sprintf(`got %s, want a JSON string in a string, with its quotes, such as "\"text\""`, brief(value))
		case form.pattern != nil && !form.pattern.MatchString(text):
			return fmt.Sprintf("got %s, want %s", brief(value), withArticle(form.want))
		}
		if json.Unmarshal([]byte(text), reflect.New(t).Interface()) != nil {
			return fmt.Sprintf("%s is out of range for %s", brief(value), t.Kind())
		}
		return ""
	}
}

func isJSONString(text string) bool {
	return strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) && json.Valid([]byte(text))
}
