package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/reprise-go/reprise/internal/schema"
)

func Example() {
	type Args struct {
		City string `json:"city" jsonschema:"the city to look up"`
		Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
		Days *int   `json:"days"`
	}
	s, err := schema.ForArguments(reflect.TypeFor[Args]())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(s.JSON()))

	fmt.Println(s.Validate(json.RawMessage(`{"city": "Oslo", "days": null}`)))
	fmt.Println(s.Validate(json.RawMessage(`{"citty": "Oslo", "unit": "kelvin", "days": 1.5}`)))
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"the city to look up"},"unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":["integer","null"]}},"required":["city"],"additionalProperties":false}
	// <nil>
	// citty: unknown field; want one of "city", "unit", "days"
	// unit: got "kelvin", want one of "celsius", "fahrenheit"
	// days: got 1.5, want an integer (no fraction or exponent) or null
	// city: required field is missing
}
