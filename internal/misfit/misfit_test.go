package misfit_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/misfit"
)

func TestErrorsAreInTermsOfJSON(t *testing.T) {
	type part struct {
		Name string `json:"name"`
	}
	type all struct {
		Text    *string             `json:"text"`
		Count   int                 `json:"count"`
		Small   uint8               `json:"small"`
		Ratio   float64             `json:"ratio"`
		On      bool                `json:"on"`
		Tags    []string            `json:"tags"`
		Parts   []part              `json:"parts"`
		Numbers []int               `json:"numbers"`
		Data    []byte              `json:"data"`
		Names   map[string]string   `json:"names"`
		Address netip.Addr          `json:"address"`
		Pair    [2]uint8            `json:"pair"`
		Read    interface{ Read() } `json:"read"`
	}
	for value, want := range map[string]string{
		`"a"`:                       "got a string, want an object",
		`[]`:                        "got an array, want an object",
		`{"text": 3}`:               "text: got a number, want a string",
		`{"text": {}}`:              "text: got an object, want a string",
		`{"count": "3"}`:            "count: got a string, want an integer of at most 64 bits",
		`{"count": 1.5}`:            "count: got the number 1.5, want an integer of at most 64 bits",
		`{"small": 300}`:            "small: got the number 300, want a non-negative integer of at most 8 bits",
		`{"ratio": true}`:           "ratio: got a boolean, want a number",
		`{"on": 1}`:                 "on: got a number, want true or false",
		`{"tags": "a"}`:             "tags: got a string, want an array of strings",
		`{"parts": {}}`:             "parts: got an object, want an array of objects",
		`{"parts": [{"name": []}]}`: "parts.name: got an array, want a string",
		`{"numbers": 3}`:            "numbers: got a number, want an array",
		`{"data": 3}`:               "data: got a number, want a string in base64",
		`{"names": []}`:             "names: got an array, want an object",
		`{"address": 3}`:            "address: got a number, want a string",
		`{"pair": "ab"}`:            "pair: got a string, want an array",
		`{"read": 3}`:               "read: got a number, want another value",
		`{`:                         "unexpected end of JSON input",
	} {
		var into all
		err := json.Unmarshal([]byte(value), &into)
		require.Error(t, err, value)
		assert.EqualError(t, misfit.Explain(err), want, value)
	}
}
