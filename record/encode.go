package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/reprise-go/reprise/internal/codec"
)

// Encode returns v as msgpack. The error of a value that cannot be encoded names
// the path to it.
//
// A type is kept by its methods if it has a pair that encodes and decodes it:
// EncodeMsgpack and DecodeMsgpack or MarshalMsgpack and UnmarshalMsgpack,
// MarshalBinary and UnmarshalBinary, MarshalText and UnmarshalText, or else
// MarshalJSON and UnmarshalJSON. Anything else is kept by its kind: a struct by
// its exported fields, under their json names. Slices of bytes are kept as they
// are, even if they have methods for JSON.
//
// What [Decode] returns is then equal to v, except that
//   - unexported fields, and those tagged json:"-", are zero;
//   - a pointer is another one, and so are two that were the same;
//   - what was in an interface is what its encoding is: int64, uint64, float64,
//     bool, string (for bytes, too), time.Time, []any, or map[string]any. It is
//     what the JSON is of a value that is kept as its JSON;
//   - what is left out by omitempty is zero, such as a slice that is empty;
//   - a time has its offset from UTC, without the name of the zone, the rules of
//     daylight saving and the monotonic reading. An offset of 0 is UTC.
//
// Values of a struct with nothing but unexported fields, or in an interface with
// methods, would come back empty: actors that return such types are refused.
func Encode(v any) ([]byte, error) { return codec.Encode(v) }

// Decode decodes data, which [Encode] returned, into the pointer v. What the type
// cannot hold is an error that names the field: a string where an integer is
// wanted, or a number that is too large. Fields that the type does not have are
// passed over. For a value of a redacted record, the error is [ErrRedacted].
func Decode(data []byte, v any) error {
	err := codec.Decode(data, v)
	if err != nil {
		if _, ok := redacted(data); ok {
			return ErrRedacted
		}
	}
	return err
}

// DecodeAll is like [Decode], and returns the parts of data for which the type
// of v has no fields, as lines such as "items[2].price: 12". Zero values do not
// count as lost.
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

// Hash identifies an input: it is the first 16 bytes of the SHA-256 of its
// canonical encoding, in which equal values have equal bytes: maps in any order,
// times of one instant, and JSON with its members in any order. The zero Hash
// stands for none.
type Hash [16]byte

// HashOf returns the hash of v.
func HashOf(v any) (Hash, error) {
	data, err := codec.Encode(v)
	if err != nil {
		return Hash{}, err
	}
	return HashOfEncoded(data)
}

// HashOfEncoded returns the hash of a value encoded by [Encode]. It may reorder
// the maps in data.
func HashOfEncoded(data []byte) (Hash, error) {
	data, err := codec.Canonical(data)
	if err != nil {
		return Hash{}, err
	}
	sum := sha256.Sum256(data)
	return Hash(sum[:16]), nil
}

// IsZero reports whether h stands for none.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns h in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// PreviewLimit is the length of a preview in characters.
const PreviewLimit = 500

// Preview returns an encoded value as JSON, cut to [PreviewLimit] characters
// with "…" at the end if something was cut. Bytes are shown as JSON or text if
// they are that, and otherwise in base64. The preview of nothing is empty. The
// preview of bytes that are not msgpack is "(unreadable)".
func Preview(encoded []byte) string {
	if len(encoded) == 0 {
		return ""
	}
	return Truncate(previewText(encoded), PreviewLimit)
}

// previewText returns a preview before it is cut.
func previewText(encoded []byte) string {
	if preview, ok := redacted(encoded); ok {
		return preview
	}
	// At most four bytes for each character, and the quotes of the deepest string.
	text, err := codec.AppendReadable(nil, encoded, 4*PreviewLimit+64)
	if err != nil {
		return "(unreadable)"
	}
	return string(text)
}

// Truncate returns s cut to at most limit characters. The last of them is "…"
// if something was cut.
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
