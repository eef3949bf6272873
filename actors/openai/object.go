package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Replies and the events of streams are read member by member: encoding/json
// allocates a dozen times for a chunk that says one word. The result is the
// same; what is here reads JSON that encoding/json found valid.

// readJSON reads a document that is an object, or null.
func readJSON(data []byte, member func(name, value []byte) error) error {
	if !json.Valid(data) {
		return json.Unmarshal(data, new(json.RawMessage)) // which says what is wrong
	}
	return eachMember(bytes.TrimSpace(data), member)
}

// eachMember calls member for each member of an object; null has none.
func eachMember(object []byte, member func(name, value []byte) error) error {
	switch object[0] {
	case 'n':
		return nil
	case '{':
	default:
		return typeError(object, "an object")
	}
	for rest := skipSpace(object[1:]); rest[0] != '}'; {
		name := rest[:stringEnd(rest)]
		rest = skipSpace(rest[len(name):])
		rest = skipSpace(rest[len(":"):])
		value := rest[:valueEnd(rest)]
		if err := member(memberName(name), value); err != nil {
			return fmt.Errorf("%s: %w", name[1:len(name)-1], err)
		}
		rest = skipComma(rest[len(value):])
	}
	return nil
}

// eachElement calls element for each element of an array; null has none.
func eachElement(array []byte, element func(value []byte) error) error {
	switch array[0] {
	case 'n':
		return nil
	case '[':
	default:
		return typeError(array, "an array")
	}
	for rest := skipSpace(array[1:]); rest[0] != ']'; {
		value := rest[:valueEnd(rest)]
		if err := element(value); err != nil {
			return err
		}
		rest = skipComma(rest[len(value):])
	}
	return nil
}

func skipSpace(data []byte) []byte {
	for len(data) > 0 && isSpace(data[0]) {
		data = data[1:]
	}
	return data
}

// isSpace reports whether b is a space between values: no smaller byte stands
// there.
func isSpace(b byte) bool { return b <= ' ' }

func skipComma(data []byte) []byte {
	data = skipSpace(data)
	if data[0] == ',' {
		return skipSpace(data[1:])
	}
	return data
}

// valueEnd is where the value ends that data begins with.
func valueEnd(data []byte) int {
	switch data[0] {
	case '"':
		return stringEnd(data)
	case '{', '[':
	default:
		end := 0
		for end < len(data) && data[end] != ',' && data[end] != ']' && data[end] != '}' && !isSpace(data[end]) {
			end++
		}
		return end
	}
	depth := 0
	for i := 0; ; i++ {
		switch data[i] {
		case '"':
			i += stringEnd(data[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

func stringEnd(data []byte) int {
	for i := 1; ; i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// memberName is the name in quotes as encoding/json compares it: without
// regard to case.
func memberName(quoted []byte) []byte {
	name := quoted[1 : len(quoted)-1]
	if !bytes.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && (r < '0' || r > '9') }) {
		return name
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return name
	}
	return []byte(strings.Map(foldedToLower, text))
}

// foldedToLower is the lower-case letter of ASCII that is r but for its case.
func foldedToLower(r rune) rune {
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if 'a' <= f && f <= 'z' {
			return f
		}
	}
	return r
}

// readList reads an array of objects.
func readList[T any](array []byte, into *[]T, member func(into *T, name, value []byte) error) error {
	*into = nil
	return eachElement(array, func(object []byte) error {
		*into = append(*into, *new(T))
		last := &(*into)[len(*into)-1]
		return eachMember(object, func(name, value []byte) error { return member(last, name, value) })
	})
}

// readPointer reads an object that may be missing.
func readPointer[T any](object []byte, into **T, member func(into *T, name, value []byte) error) error {
	if string(object) == "null" {
		*into = nil
		return nil
	}
	*into = new(T)
	return eachMember(object, func(name, value []byte) error { return member(*into, name, value) })
}

// readText reads a string; null leaves what there is.
func readText(value []byte, into *string) error {
	switch value[0] {
	case 'n':
		return nil
	case '"':
		return unquote(value, into)
	}
	return typeError(value, "a string")
}

// readRaw copies a value: what it lies in is read over. null is nil.
func readRaw(value []byte) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return bytes.Clone(value)
}

// typeError is a value of a JSON type that cannot be read.
func typeError(value []byte, want string) error {
	got := "a number"
	switch value[0] {
	case '"':
		got = "a string"
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case 't', 'f':
		got = "a boolean"
	}
	return fmt.Errorf("got %s, want %s", got, want)
}
