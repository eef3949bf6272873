// Package codec encodes values as msgpack and decodes them. It defines the only
// encoding in the module, and it is the only importer of a msgpack library. The
// library encodes and decodes values of users; records, frames and JSON use
// [Reader] and [Writer].
//
// Structs are encoded as maps with the names that encoding/json would use, so
// that a type has the same field names wherever it is shown. [Canonical] makes
// equal values have equal bytes, which hashes need. [AppendJSON] renders encoded
// bytes as JSON for people and for JSON protocols, without knowing the type.
package codec
