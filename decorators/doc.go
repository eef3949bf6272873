// Package decorators makes actors of plain Go functions. A function
//
//	func(ctx context.Context, in In) (Out, error)
//
// becomes a tool or an agent unchanged. What a model is told about its
// arguments is inferred from In, by the rules of encoding/json: a struct, a
// map with string keys, or a pointer to one of these.
//
//	type City struct {
//		Name string `json:"name" jsonschema:"the city to look up"`
//		Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
//	}
//
// A field is required unless it is a pointer or has omitempty or omitzero. The
// jsonschema tag describes it, and the enum tag lists what it may be. Every
// call that comes from a model is checked against this before the function
// sees it, and the model is told which field is wrong.
//
// Definitions are a part of the program, so wrong ones panic. A name that
// comes from data can be checked before with [actors.CheckFunctionName].
package decorators
