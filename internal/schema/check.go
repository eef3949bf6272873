package schema

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// check returns what Go finds wrong with a value that the JSON schema allows,
// or "". It is not asked about null.
type check func(value any) string

func fitsSigned(t reflect.Type) check {
	return fitsInteger(t, func(text string) error {
		_, err := strconv.ParseInt(text, 10, t.Bits())
		return err
	})
}

func fitsUnsigned(t reflect.Type) check {
	return fitsInteger(t, func(text string) error {
		_, err := strconv.ParseUint(text, 10, t.Bits())
		return err
	})
}

func fitsInteger(t reflect.Type, parse func(string) error) check {
	return func(value any) string {
		number, ok := value.(json.Number)
		if !ok {
			return ""
		}
		// A JSON schema takes 1.0 and 1e3 for integers. encoding/json does not.
		if strings.ContainsAny(number.String(), ".eE") {
			return fmt.Sprintf("want integer without fraction or exponent, got %s", brief(value))
		}
		if parse(number.String()) != nil {
			return fmt.Sprintf("%s is out of the range of %s", brief(value), t.Kind())
		}
		return ""
	}
}

func fitsFloat(t reflect.Type) check {
	return func(value any) string {
		if number, ok := value.(json.Number); ok {
			if _, err := strconv.ParseFloat(number.String(), t.Bits()); err != nil {
				return fmt.Sprintf("%s is out of the range of %s", brief(value), t.Kind())
			}
		}
		return ""
	}
}

// fitsAny checks all numbers within: encoding/json reads those of an any into a
// float64.
func fitsAny(value any) string {
	switch v := value.(type) {
	case json.Number:
		return fitsFloat(reflect.TypeFor[float64]())(v)
	case *list:
		for _, item := range v.items {
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
			return fmt.Sprintf("%s is not base64; want the standard alphabet with padding", brief(value))
		}
	}
	return ""
}

func isTime(value any) string {
	var t time.Time
	if json.Unmarshal(encode(value), &t) != nil {
		return fmt.Sprintf(`%s is not a date-time; want RFC 3339 such as "2006-01-02T15:04:05Z"`, brief(value))
	}
	return ""
}

// decodes tries the value on the methods of t.
func decodes(t reflect.Type) check {
	return func(value any) string {
		if err := json.Unmarshal(encode(value), reflect.New(t).Interface()); err != nil {
			return rejected(value, t, err)
		}
		return ""
	}
}

// isText tries a key of a map on the text methods of t.
func isText(t reflect.Type) check {
	return func(value any) string {
		text, _ := value.(string)
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return rejected(value, t, err)
		}
		return ""
	}
}

// isQuoted checks the JSON that a string holds for a scalar of type t. A
// pattern has ruled out white space and null, save for strings.
func isQuoted(t reflect.Type) check {
	return func(value any) string {
		text, _ := value.(string)
		if t.Kind() == reflect.String && t != jsonNumber && !isJSONString(text) {
			return fmt.Sprintf(`%s is not a JSON string in a string; want it with its quotes, such as "\"text\""`, brief(value))
		}
		if json.Unmarshal([]byte(text), reflect.New(t).Interface()) != nil {
			return fmt.Sprintf("%s is out of the range of %s", brief(value), t.Kind())
		}
		return ""
	}
}

func isJSONString(text string) bool {
	return strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) && json.Valid([]byte(text))
}

func rejected(value any, t reflect.Type, err error) string {
	return fmt.Sprintf("%s is not a valid %s: %s", brief(value), t, strings.TrimPrefix(err.Error(), "json: "))
}
