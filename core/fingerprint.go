package core

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"reflect"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// fingerprintKeySize is the number of random bytes at the beginning of a fingerprint.
const fingerprintKeySize = 8

// Fingerprint returns the fingerprint of an output that must not be kept, as [record.Detail]
// describes it. It reuses the key of before, an earlier fingerprint of the call, so that equal
// outputs have equal fingerprints. It returns nil if encoding and decoding would change the output,
// because such outputs cannot be compared.
func (t *typedCall[In, Out]) Fingerprint(before []byte) []byte {
	return fingerprint(reflect.TypeFor[Out](), t.out, before)
}

func fingerprint(outputs reflect.Type, out any, before []byte) (fingerprint []byte) {
	if codec.CheckType(outputs) != nil {
		return nil
	}
	defer func() {
		if recover() != nil { // a method of the output panicked
			fingerprint = nil
		}
	}()
	encoded, err := record.Encode(out)
	if err != nil {
		return nil
	}
	key := make([]byte, fingerprintKeySize, fingerprintKeySize+sha256.Size)
	if len(before) == fingerprintKeySize+1 {
		copy(key, before)
	} else {
		_, _ = rand.Read(key) // never fails
	}
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(encoded)
	return mac.Sum(key)[:fingerprintKeySize+1]
}
