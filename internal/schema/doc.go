// Package schema describes to a model what arguments a tool takes, and what was
// wrong with the arguments that the model sent.
//
// [ForArguments] infers a JSON schema from the type of a tool's arguments, and
// [Parse] takes a schema that is already written. The JSON method of both
// returns the document to send to a model, and Validate checks what comes back.
//
// An inferred schema reports every problem at once, each on a line that says
// where it is, what was found and what is allowed, since its reader is the model
// that has to do better:
//
//	citty: unknown field; want one of "city", "unit"
//	unit: got "kelvin", want one of "celsius", "fahrenheit"
//	city: required field is missing
//
// # Types
//
// A field has the name that encoding/json gives it, and is left out where
// encoding/json leaves it out: the json tag, omitempty, omitzero, the string
// option, unexported and embedded fields and conflicts between names all mean
// here what they mean there. On top of that:
//
//   - A field is required unless it is a pointer, has omitempty or omitzero, or
//     is promoted through an embedded pointer.
//   - null is accepted by a pointer, and by a slice or map that is not required.
//   - A struct takes no fields other than its own. Names are matched with their
//     case, which encoding/json does not insist on.
//   - An integer is written without a fraction or exponent and fits its type.
//   - An array has exactly its length; []byte is a base64 string.
//   - [time.Time] is an RFC 3339 string, [time.Duration] an integer of
//     nanoseconds, [encoding/json.Number] a number.
//   - any and [encoding/json.RawMessage] are any JSON value, and so is a type
//     with its own UnmarshalJSON. A type with its own UnmarshalText is a string.
//     Both are tried on the type itself, so their errors are reported too.
//   - A type that contains itself is described with $ref.
//   - chan, func, complex numbers and unsafe pointers have no schema.
//
// # Tags
//
//	Unit string `json:"unit" jsonschema:"unit of the answer" enum:"celsius,fahrenheit"`
//
// The jsonschema tag is the description of the field. It must not begin with
// WORD=, which is reserved. The enum tag lists the allowed values of a string,
// integer or number, or those of the items of a slice or array, separated by
// commas. A type can list its own values with a method
//
//	JSONSchemaEnum() []any
//
// which is called on a zero value; an enum tag takes precedence over it.
//
// # Documents
//
// A written schema is validated by github.com/google/jsonschema-go, which
// reports the first problem. Documents come from other servers, so [Parse]
// refuses those that the library would follow without end, and
// [Document.Validate] those that would take it too much work.
package schema
