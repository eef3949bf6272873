package storekit

import (
	"crypto/sha256"
	"encoding/hex"
)

// Reference returns the reference to an artifact with the given data.
func Reference(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// IsReference reports whether ref consists of 64 lower-case hexadecimal digits. Only such
// a reference may be used in a path.
func IsReference(ref string) bool {
	for i := range len(ref) {
		if c := ref[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(ref) == 2*sha256.Size
}
