package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/reprise-go/reprise/internal/codec"
)

// Encode returns v as msgpack, with struct fields under their json names. The
// error of a value that cannot be encoded names the path to it.
func Encode(v any) ([]byte, error) { return codec.Encode(v) }

// Decode reads what [Encode] wrote into v, a pointer. A value of a record that
// was redacted is [ErrRedacted].
func Decode(data []byte, v any) error {
	err := codec.Decode(data, v)
	if err != nil {
		if _, ok := redacted(data); ok {
			return ErrRedacted
		}
	}
	return err
}

// DecodeAll is [Decode], and returns the parts of data that the type of v has no
// fields for, as lines such as "items[2].price: 12". What is zero is not lost.
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

// Hash identifies an input: the first 16 bytes of the SHA-256 of its
// canonical encoding, in which equal values are equal bytes. The zero Hash
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

// HashOfEncoded returns the hash of the value that [Encode] wrote as data. It
// may reorder the maps in data.
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

// String is h in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// PreviewLimit is the length of a preview in characters.
const PreviewLimit = 500

// Preview renders an encoded value as JSON, cut at [PreviewLimit] characters
// on a rune boundary with "…" where something was cut. Bytes are shown as what
// they are, JSON or text, and in base64 if they are neither. Nothing encoded is "".
// Bytes that are not msgpack are "(unreadable)".
func Preview(encoded []byte) string {
	if len(encoded) == 0 {
		return ""
	}
	return Truncate(previewText(encoded), PreviewLimit)
}

// previewText is a preview before it is cut.
func previewText(encoded []byte) string {
	if preview, ok := redacted(encoded); ok {
		return preview
	}
	// Four bytes a character at the most, and the quotes of the deepest string.
	text, err := codec.AppendReadable(nil, encoded, 4*PreviewLimit+64)
	if err != nil {
		return "(unreadable)"
	}
	return string(text)
}

// Truncate cuts s to at most limit characters, the last of them "…" if
// something was cut.
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
