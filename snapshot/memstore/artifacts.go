package memstore

import (
	"bytes"
	"context"
	"sync"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Artifacts is a [snapshot.ArtifactStore] in memory. The zero value is ready
// to use. It is safe for concurrent use.
type Artifacts struct {
	mu        sync.Mutex
	artifacts map[string][]byte
}

// Put implements [snapshot.ArtifactStore].
func (a *Artifacts) Put(ctx context.Context, data []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	ref := storekit.Reference(data)
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

// Get implements [snapshot.ArtifactStore].
func (a *Artifacts) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	data, ok := a.artifacts[ref]
	if !ok {
		return nil, errkind.New(snapshot.ErrNotFound, "snapshot: no artifact %.80q", ref)
	}
	return bytes.Clone(data), nil
}
