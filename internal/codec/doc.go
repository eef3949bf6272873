// Package codec turns values into msgpack and back, the one way Reprise does
// it everywhere. It is the only importer of a msgpack library.
//
// Structs are written as maps under the names encoding/json would use, so
// that a type has one set of field names wherever it is shown. [Canonical]
// makes equal values equal bytes, which hashes need; [AppendJSON] renders
// encoded bytes for people and for JSON wires, without knowing the type.
package codec
