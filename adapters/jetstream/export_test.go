package jetstream

import (
	"context"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Fence opens a run although its owner is alive, and leaves it open.
func Fence(ctx context.Context, s *Store, runID string) error {
	own, err := s.session(ctx)
	if err != nil {
		return err
	}
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	h.info = storekit.CrashedInfo(h.info)
	h.info.Open = false
	_, err = s.tryOpen(ctx, own, h, runID, &snapshot.OpenOptions{})
	return err
}

// DeleteOnly deletes a run but leaves the run's messages.
func DeleteOnly(ctx context.Context, s *Store, runID string) error {
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	_, err = s.append(ctx, runID, &message{kind: kindDeleted, generation: h.generation, last: h.last, born: h.born}, &h.info, h.seq)
	return err
}

// RemoveArtifacts removes all artifacts as [Store.GC] does. It calls f after it has listed them and
// before it removes them.
func RemoveArtifacts(ctx context.Context, s *Store, f func()) error {
	bucket, err := s.js.Stream(ctx, s.names.bucket())
	if err != nil {
		return err
	}
	objects, err := s.objects(ctx)
	f()
	for _, o := range objects {
		if err == nil && !o.Deleted {
			_, err = s.removeArtifact(ctx, bucket, &o)
		}
	}
	return err
}

// RemoveHalf removes all artifacts as [Store.GC] does but leaves their data, as if the process had
// been killed halfway through.
func RemoveHalf(ctx context.Context, s *Store) error {
	objects, err := s.objects(ctx)
	for _, o := range objects {
		if err == nil {
			_, err = s.markRemoved(ctx, &o)
		}
	}
	return err
}

// PutHalf stores the data of an artifact without the object that names the data, as if the process
// had been killed halfway through.
func PutHalf(ctx context.Context, s *Store, data []byte) error {
	_, err := s.js.Publish(ctx, s.names.objectData("half"), data)
	return err
}

// Bucket returns the number of messages in the artifact bucket.
func Bucket(ctx context.Context, s *Store) (uint64, error) {
	stream, err := s.js.Stream(ctx, s.names.bucket())
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// NoteWritten notes that a message with the given sequence and ID was stored while the process was
// connected to the given server.
func NoteWritten(ctx context.Context, s *Store, seq uint64, id, server string) {
	s.noteWritten(ctx, stamp{seq, id}, server)
}
