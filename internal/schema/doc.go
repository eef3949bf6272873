// Package schema describes a tool's arguments to a model, and tells the model what was wrong with
// the arguments that it sent.
//
// [ForArguments] infers a JSON schema from the type of a tool's arguments, and [Parse] accepts a
// schema that was written elsewhere. Both results have a method JSON, which returns the document to
// send to a model, and a method Validate, which checks the arguments from the model.
//
// An inferred schema reports all problems at once, so that the model can correct them. Each line
// shows where the problem is, what was found, and what is allowed:
//
//	citty: unknown field; want one of "city", "unit"
//	unit: got "kelvin", want one of "celsius", "fahrenheit"
//	city: required field is missing
//
// # Types
//
// Fields follow the rules of encoding/json for the json tag, omitempty,
// omitzero, the string option, unexported and embedded fields, and conflicts
// between names. In addition:
//
//   - A field is required unless it is a pointer, has omitempty or omitzero, or
//     is promoted through an embedded pointer.
//   - null is accepted by a pointer, and by a slice or map that is not required.
//   - A struct takes no fields other than its own. Names are case-sensitive, unlike in
//     encoding/json.
//   - An integer is written without a fraction or exponent and fits its type.
//   - An array has exactly the length of its type; []byte is a base64 string.
//   - [time.Time] is an RFC 3339 string, [time.Duration] is an integer of nanoseconds, and
//     [encoding/json.Number] is a number.
//   - any and [encoding/json.RawMessage] are any JSON value, and so is a type
//     with its own UnmarshalJSON. A type with its own UnmarshalText is a string.
//     These methods are called, so their errors are reported too.
//   - A type that contains itself is described with $ref.
//   - chan, func, complex numbers and unsafe pointers have no schema.
//
// # Tags
//
//	Unit string `json:"unit" jsonschema:"unit of the answer" enum:"celsius,fahrenheit"`
//
// The jsonschema tag is the description of the field. It must not begin with WORD=, which is
// reserved. The enum tag lists the allowed values of a string, integer or number, separated by
// commas. For a slice or array, it lists the allowed values of the items. A type can list its own
// values with a method
//
//	JSONSchemaEnum() []any
//
// which is called on a zero value; an enum tag takes precedence over it.
//
// # Documents
//
// Documents given to [Parse] are validated by github.com/google/jsonschema-go,
// which reports the first problem. Since schemas and arguments may be untrusted,
// [Parse] rejects schemas that would make the library loop forever, and
// [Document.Validate] rejects arguments that are too expensive to check.
package schema
