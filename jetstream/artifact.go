package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Put implements [snapshot.ArtifactStore]. Artifacts are in an object store
// bucket, by their references. What is there already is not stored again, but made
// young, so that [Store.GC] leaves it until a record names it.
func (s *Store) Put(ctx context.Context, data []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	ref := storekit.Reference(data)
	renewed, err := s.renew(ctx, ref)
	if err != nil {
		return "", s.artifactError(ctx, ref, err)
	} else if renewed {
		return ref, nil
	}
	meta := jetstream.ObjectMeta{Name: ref, Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(min(chunkSize, s.room()))}}
	if _, err := s.bucket.Put(ctx, meta, bytes.NewReader(data)); err != nil {
		return "", s.artifactError(ctx, ref, err)
	}
	return ref, nil
}

// chunkSize is the size of the messages with the data of an artifact, where the server
// takes messages of that size.
const chunkSize = 128 << 10

// Get implements [snapshot.ArtifactStore].
func (s *Store) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !storekit.IsReference(ref) {
		return nil, fmt.Errorf("%w: no artifact %.80q", snapshot.ErrNotFound, ref)
	}
	data, err := s.bucket.GetBytes(ctx, ref)
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) && ctx.Err() == nil {
		data, err = s.bucket.GetBytes(ctx, ref) // another process was just putting the same
	}
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, fmt.Errorf("%w: no artifact %s", snapshot.ErrNotFound, ref)
	case errors.Is(err, nats.ErrDigestMismatch), errors.Is(err, jetstream.ErrDigestMismatch), err == nil && storekit.Reference(data) != ref:
		return nil, fmt.Errorf("%w: the data of artifact %s is not what was put", snapshot.ErrCorrupt, ref)
	case err != nil:
		return nil, s.artifactError(ctx, ref, err)
	}
	return data, nil
}

func (s *Store) artifactError(ctx context.Context, ref string, err error) error {
	if context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: artifact %s: %w", snapshot.ErrUnavailable, ref, err)
}
