// Package schema tells a model what arguments a tool takes, and tells it what
// was wrong with the arguments it sent.
//
// [ForArguments] infers a JSON schema from the type of a tool's arguments,
// [For] from any type, and [Parse] takes a schema that is already written.
// [Schema.JSON] is the document to send to a model and [Schema.Validate] checks
// what comes back. Every problem is reported at once, each on a line that says
// where it is, what is wrong and what is allowed, since its reader is the model
// that has to do better:
//
//	citty: unknown field; want one of "city", "unit"
//	unit: "kelvin" is not allowed; want one of "celsius", "fahrenheit"
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
//     with its own JSON methods. A type with its own text methods is a string.
//     Both are tried on the type itself, so their errors are reported too.
//   - A type that contains itself is described with $ref.
//   - chan, func, complex numbers and unsafe pointers have no schema.
//
// # Tags
//
//	Unit string `json:"unit" jsonschema:"unit of the answer" enum:"celsius,fahrenheit"`
//
// The jsonschema tag is the description of the field, all of it. It must not
// begin with WORD=, which is reserved. The enum tag lists the allowed values of
// a string, integer or number, or those of the items of a slice or array,
// separated by commas. A type can list its own values with a method
//
//	JSONSchemaEnum() []any
//
// which is called on a zero value; an enum tag takes precedence over it.
package schema
