package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/reprise-go/reprise/internal/codec"
)

// Encode returns v as msgpack, with struct fields under their json names. The
// error of a value that cannot be encoded names the path to it.
func Encode(v any) ([]byte, error) { return codec.Encode(v) }

// Decode decodes data, which [Encode] returned, into the pointer v. For a value
// of a redacted record, the error is [ErrRedacted].
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
// canonical encoding, in which equal values have equal bytes. The zero Hash
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
