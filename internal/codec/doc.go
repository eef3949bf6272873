// Package codec encodes values as msgpack and decodes them, in the one form that
// is used everywhere. It is the only importer of a msgpack library, which encodes
// and decodes the values of users; records, frames and JSON go through [Reader]
// and [Writer].
//
// Structs are written as maps under the names encoding/json would use, so
// that a type has one set of field names wherever it is shown. [Canonical]
// makes equal values equal bytes, which hashes need; [AppendJSON] renders
// encoded bytes for people and for JSON wires, without knowing the type.
package codec
