package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
)

// FromJSON decodes a single JSON value to nil, bool, string, int64, uint64, float64, []any and
// map[string]any. Whole numbers stay whole: a whole number with more than 64 bits, which would have
// to be rounded, is an error.
func FromJSON(data []byte) (any, error) { return readJSON(data, number) }

// fromJSON is like FromJSON, but for a value encoded as JSON: a whole number with more than 64 bits
// is rounded, as in encoding/json.
func fromJSON(data []byte) (any, error) {
	return readJSON(data, func(text string) (any, error) {
		if n, err := number(text); err == nil {
			return n, nil
		}
		return strconv.ParseFloat(text, 64)
	})
}

func readJSON(data []byte, number func(text string) (any, error)) (any, error) {
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	return withNumbers(v, number)
}

// parseJSON decodes one JSON value, with a json.Number for each number.
func parseJSON(data []byte) (v any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&v); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("it ends in the middle")
	} else if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the value")
	}
	return v, nil
}

// withNumbers replaces each json.Number in v with the result of number.
func withNumbers(v any, number func(text string) (any, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i], number); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = withNumbers(v[key], number); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is too large", text)
	}
	if n, isWhole := new(big.Int).SetString(text, 10); isWhole {
		if near, _ := big.NewFloat(f).Int(nil); near.Cmp(n) != 0 {
			return nil, fmt.Errorf("the number %s is too large: want a whole number of at most 64 bits, or one with an exponent, which is rounded", text)
		}
	}
	return f, nil
}
