// Package codec encodes values as msgpack and decodes them. It defines the only encoding in the
// module, and no other package imports a msgpack library. The library is used only for types that
// have msgpack methods of their own. [Encode] and [Decode] are for users' values; records and
// frames are written and read with [Writer] and [Reader].
//
// Structs are encoded as maps with the names that encoding/json would use, so that a type has the
// same field names wherever it is shown. [Canonical] makes equal values have equal bytes, as
// hashing requires. [AppendJSON] renders encoded bytes as JSON for people and for JSON protocols,
// without knowing the type of the value.
package codec
