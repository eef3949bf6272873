package record

import (
	"encoding/hex"

	"github.com/reprise-go/reprise/internal/codec"
)

// Encode returns v as msgpack. If a value in v cannot be encoded, the error contains the path to
// that value.
//
// If a type has one of the following pairs of methods, its values are encoded with the first such
// pair: EncodeMsgpack and DecodeMsgpack, MarshalMsgpack and UnmarshalMsgpack, MarshalBinary and
// UnmarshalBinary, MarshalText and UnmarshalText, MarshalJSON and UnmarshalJSON. Any other value is
// encoded by its kind: a struct by its exported fields, under their json names. Byte slices are
// encoded as they are, even if they have JSON methods.
//
// The value that [Decode] restores is equal to v, except that
//   - unexported fields, and those tagged json:"-", are zero;
//   - pointers are new, and equal pointers become distinct;
//   - a value in an interface has the type of its encoding: int64, uint64, float64, bool, string
//     (for bytes, too), time.Time, []any, or map[string]any. A value that is encoded with its
//     JSON methods has the type of the decoded JSON;
//   - a value that is left out because of omitempty, such as an empty slice, is zero;
//   - a time keeps its offset from UTC, but loses the zone name, the daylight saving rules and the
//     monotonic clock reading. An offset of 0 is UTC.
//
// A struct with only unexported fields, and a value whose type is an interface with methods, would be
// empty after decoding: actors that return such types are refused.
func Encode(v any) ([]byte, error) { return codec.Encode(v) }

// Decode decodes data, which [Encode] returned, into the value that v points to. If the type of
// that value cannot hold a part of data, for example because a number is too large or because data
// contains a string instead of an integer, the error names the field. Fields that the type does not
// have are ignored. If data comes from a redacted record, the error is [ErrRedacted].
func Decode(data []byte, v any) error {
	err := codec.Decode(data, v)
	if err != nil {
		if _, ok := redactedPreview(data); ok {
			return ErrRedacted
		}
	}
	return err
}

// DecodeAll is like [Decode], but also returns the parts of data for which v's type has no fields,
// as lines such as "items[2].price: 12". Zero values are not returned.
func DecodeAll(data []byte, v any) (lost []string, err error) {
	err = codec.DecodeKnown(data, v)
	if err == nil {
		return nil, nil
	}
	if err := Decode(data, v); err != nil {
		return nil, err
	}
	parts, err := codec.LostBy(data, v)
	for _, part := range parts {
		lost = append(lost, Truncate(part.String(), 80))
	}
	return lost, err
}

// Hash identifies an input: it is the first 16 bytes of the SHA-256 of the input's canonical
// encoding. In that encoding, equal values have equal bytes. The order of map keys and of members
// in JSON does not matter, and times are equal if they denote the same instant. The zero Hash
// identifies no input.
type Hash [16]byte

// HashOf returns the hash of v.
func HashOf(v any) (Hash, error) {
	data, err := codec.Encode(v)
	if err != nil {
		return Hash{}, err
	}
	return codec.Hash(data)
}

// IsZero reports whether h is the zero Hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns h in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// previewLimit is the maximum length of a preview in characters.
const previewLimit = 500

// Preview returns an encoded value as JSON, cut to 500 characters with "…" at the end if something
// was cut. Bytes are shown as JSON or text if they are valid JSON or text, and otherwise in
// base64. The preview of an empty value is empty. The preview of bytes that are not msgpack is
// "(unreadable)".
func Preview(encoded []byte) string {
	if len(encoded) == 0 {
		return ""
	}
	return Truncate(previewText(encoded), previewLimit)
}

// previewText returns the preview before it is cut to its maximum length.
func previewText(encoded []byte) string {
	if preview, ok := redactedPreview(encoded); ok {
		return preview
	}
	// A character takes at most four bytes. The other 64 bytes are for the quotes of the deepest
	// string.
	text, err := codec.AppendReadable(nil, encoded, 4*previewLimit+64)
	if err != nil {
		return "(unreadable)"
	}
	return string(text)
}

// Truncate returns s, truncated to at most limit characters. The last character of a truncated
// string is "…".
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	count, cut := 0, 0
	for i := range s {
		if count == limit-1 {
			cut = i
		}
		if count++; count > limit {
			return s[:cut] + "…"
		}
	}
	return s
}
