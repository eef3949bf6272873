package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Put implements [snapshot.ArtifactStore]. Artifacts are kept in an object store bucket, under
// their references. An existing artifact is not stored again. Instead, its time is renewed, so that
// [Store.GC] keeps the artifact until a record names it.
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
	if err := s.putArtifact(ctx, ref, data); err != nil {
		return "", s.artifactError(ctx, ref, err)
	}
	return ref, nil
}

// putArtifact stores the data first, and then the object that refers to the data. If two processes
// put the same artifact at the same time, one copy of the data remains until GC removes it.
func (s *Store) putArtifact(ctx context.Context, ref string, data []byte) error {
	o := object{ObjectInfo: jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: ref}, Bucket: s.names.artifacts(), NUID: nuid.Next(), Size: uint64(len(data)),
	}}
	hash := sha256.New()
	last := uint64(0)
	for part := range slices.Chunk(data, min(chunkSize, s.maxPayload())) {
		hash.Write(part)
		msg := nats.NewMsg(s.names.objectData(o.NUID))
		msg.Data = part
		msg.Header.Set(headerID, nuid.Next())
		var err error
		if last, err = s.publish(ctx, s.names.bucket(), msg, last); err != nil {
			return err
		}
		o.Chunks++
	}
	o.Digest = jetstream.GetObjectDigestValue(hash)
	about, err := json.Marshal(o.ObjectInfo)
	if err != nil {
		return err
	}
	for {
		was, err := s.get(ctx, s.names.bucket(), query{Last: s.names.object(ref)})
		if err == nil {
			o.seq = was.Seq
		} else if !errors.Is(err, errNotFound) {
			return err
		}
		if err = s.putObject(ctx, &o, about); !errors.Is(err, errConflict) {
			return err
		}
		if renewed, err := s.renew(ctx, ref); err != nil || renewed {
			return err
		}
	}
}

// chunkSize is the size of the messages that carry an artifact, unless the server accepts only
// smaller messages.
const chunkSize = 128 << 10

// Get implements [snapshot.ArtifactStore].
func (s *Store) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !storekit.IsReference(ref) {
		return nil, fmt.Errorf("%w: no artifact %.80q", snapshot.ErrNotFound, ref)
	}
	data, err := s.artifact(ctx, ref)
	if err == nil && storekit.Reference(data) != ref { // another process was just putting the same artifact
		data, err = s.artifact(ctx, ref)
	}
	switch {
	case errors.Is(err, errNotFound):
		return nil, fmt.Errorf("%w: no artifact %s", snapshot.ErrNotFound, ref)
	case errors.Is(err, snapshot.ErrCorrupt):
		return nil, err
	case err != nil:
		return nil, s.artifactError(ctx, ref, err)
	case storekit.Reference(data) != ref:
		return nil, fmt.Errorf("%w: the data of artifact %s differs from what was stored", snapshot.ErrCorrupt, ref)
	}
	return data, nil
}

// artifact reads an artifact's data from the bucket.
func (s *Store) artifact(ctx context.Context, ref string) (data []byte, err error) {
	m, err := s.get(ctx, s.names.bucket(), query{Last: s.names.object(ref)})
	if err != nil {
		return nil, err
	}
	o, err := objectOf(m)
	if err != nil {
		return nil, err
	} else if o.Deleted {
		return nil, errNotFound
	}
	subject := s.names.objectData(o.NUID)
	last, err := s.get(ctx, s.names.bucket(), query{Last: subject})
	if errors.Is(err, errNotFound) {
		return nil, nil // the artifact is empty, or its data is missing
	} else if err != nil {
		return nil, err
	}
	for msg, err := range s.read(ctx, s.names.bucket(), subject, 1, last.Seq) {
		if err != nil {
			return nil, err
		}
		data = append(data, msg.Data...)
	}
	return data, nil
}

func (s *Store) artifactError(ctx context.Context, ref string, err error) error {
	if context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("artifact %s: %w", ref, unavailable(err))
}
