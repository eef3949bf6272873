package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Reference is the reference of an artifact with that data.
func Reference(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// IsReference reports whether ref is 64 lower-case hexadecimal digits: only
// that may become a path.
func IsReference(ref string) bool {
	for i := range len(ref) {
		if c := ref[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(ref) == 2*sha256.Size
}

// MemoryArtifacts is an [ArtifactStore] in memory. The zero MemoryArtifacts is
// ready for use, by many goroutines.
type MemoryArtifacts struct {
	mu        sync.Mutex
	artifacts map[string][]byte
}

// Put implements [ArtifactStore].
func (a *MemoryArtifacts) Put(ctx context.Context, data []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	ref := Reference(data)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.artifacts[ref]; !ok {
		if a.artifacts == nil {
			a.artifacts = make(map[string][]byte)
		}
		a.artifacts[ref] = append([]byte{}, data...)
	}
	return ref, nil
}

// Get implements [ArtifactStore].
func (a *MemoryArtifacts) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	data, ok := a.artifacts[ref]
	if !ok {
		return nil, &kindError{fmt.Sprintf("snapshot: no artifact %.80q", ref), ErrNotFound}
	}
	return bytes.Clone(data), nil
}
