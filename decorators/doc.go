// Package decorators makes actors from plain Go functions. A function
//
//	func(ctx context.Context, in In) (Out, error)
//
// can be used as a tool or an agent without changes. The JSON schema of its arguments is inferred
// from In, by the rules of encoding/json: In must be a struct, a map with string keys, or a pointer
// to one of these. To use a schema written by hand, see [actors.ParseSchema].
//
//	type City struct {
//		Name string `json:"name" jsonschema:"the city to look up"`
//		Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
//	}
//
// A field is required unless it is a pointer or has omitempty or omitzero. The jsonschema tag
// describes the field, and the enum tag lists its values. The arguments of every call from a model
// are checked against the schema before the function is called; if they are wrong, the model
// receives an error that names each wrong field.
//
// Definitions are part of the program, so an invalid one panics. If a name comes from data, check
// it with [actors.CheckFunctionName] first.
package decorators
