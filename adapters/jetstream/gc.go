package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// GC removes the artifacts that no run refers to and that were last put more than grace ago. It
// returns the number of artifacts it removed. Runs may continue in the meantime, on any machine. If
// a run cannot be read, GC removes nothing, since the run may refer to any artifact.
//
// GC reads all messages of all runs, and one message for each artifact; see [Store.GCCost].
//
// grace must be longer than the time from the beginning of Put until a record that names the
// artifact is stored; an hour is plenty. Times are those of the server's clock. Put renews the time
// of an existing artifact, and GC removes an artifact only if the artifact has not changed since GC
// examined it. If both happen at the same time, the later operation starts over. A fork names
// artifacts without putting them, so it must not begin while its original is being deleted.
func (s *Store) GC(ctx context.Context, grace time.Duration) (removed int, err error) {
	g, err := s.garbage(ctx, grace)
	if err != nil {
		return 0, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	for i := range g.artifacts {
		gone, err := s.removeArtifact(ctx, g.bucket, &g.artifacts[i])
		if err != nil {
			return removed, fmt.Errorf("snapshot: artifact %s: %w", g.artifacts[i].Name, err)
		}
		if gone {
			removed++
		}
	}
	for i := range g.removed {
		if err := s.purgeArtifact(ctx, g.bucket, &g.removed[i]); err != nil {
			return removed, fmt.Errorf("snapshot: artifact %s: %w", g.removed[i].Name, err)
		}
	}
	for _, subject := range g.data {
		if err := s.purge(ctx, g.bucket, subject, 0); err != nil {
			return removed, fmt.Errorf("snapshot: artifacts: %w", err)
		}
	}
	return removed, nil
}

// A GCCost describes how much data [Store.GC] reads.
type GCCost struct {
	Messages  uint64 // the number of messages in all runs together
	Bytes     uint64 // size of these messages
	Artifacts uint64 // number of artifacts in the bucket; reading each entry takes one request
}

func (c GCCost) String() string {
	return fmt.Sprintf("%d messages of runs, %d bytes, and the entries of %d artifacts", c.Messages, c.Bytes, c.Artifacts)
}

// GCCost returns the amount of data that [Store.GC] and [Store.Garbage] would read now. GCCost itself
// reads no messages.
func (s *Store) GCCost(ctx context.Context) (c GCCost, err error) {
	records, err := s.streamInfo(ctx)
	if err != nil {
		return c, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	c.Messages, c.Bytes = records.State.Msgs, records.State.Bytes
	bucket, err := s.js.Stream(ctx, s.names.bucket())
	if err != nil {
		return c, fmt.Errorf("snapshot: artifacts: %w", unavailable(err))
	}
	objects, err := bucket.Info(ctx, jetstream.WithSubjectFilter(s.names.object("*")))
	if err != nil {
		return c, fmt.Errorf("snapshot: artifacts: %w", unavailable(err))
	}
	c.Artifacts = uint64(len(objects.State.Subjects))
	return c, nil
}

// Garbage returns the references to the artifacts that [Store.GC] would remove now with the same
// grace.
func (s *Store) Garbage(ctx context.Context, grace time.Duration) (references []string, err error) {
	g, err := s.garbage(ctx, grace)
	if err != nil {
		return nil, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	for i := range g.artifacts {
		references = append(references, g.artifacts[i].Name)
	}
	return references, nil
}

// garbage lists the artifacts and data that no run refers to.
type garbage struct {
	bucket    jetstream.Stream
	artifacts []object
	removed   []object // artifacts whose removal was not completed
	data      []string // subjects that hold the data from an unfinished Put
}

// An object is an artifact's entry in the bucket.
type object struct {
	jetstream.ObjectInfo
	seq uint64    // sequence of the message with the entry, which is the last one on its subject
	put time.Time // when that message was stored
}

func (s *Store) garbage(ctx context.Context, grace time.Duration) (*garbage, error) {
	if grace < 0 {
		return nil, fmt.Errorf("the grace is %v; want 0 or more", grace)
	}
	bucket, err := s.js.Stream(ctx, s.names.bucket())
	if err != nil {
		return nil, err
	}
	// List the data first. If an object that names the data is stored after that, the list of
	// objects below contains it.
	data, err := bucket.Info(ctx, jetstream.WithSubjectFilter(s.names.objectData("*")))
	if err != nil {
		return nil, err
	}
	before := data.TimeStamp.Add(-grace)
	objects, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	named, err := s.references(ctx)
	if err != nil {
		return nil, err
	}
	g := &garbage{bucket: bucket}
	for _, o := range objects {
		delete(data.State.Subjects, s.names.objectData(o.NUID))
		switch {
		case !o.put.Before(before):
		case o.Deleted:
			g.removed = append(g.removed, o)
		case !named[o.Name]:
			g.artifacts = append(g.artifacts, o)
		}
	}
	for subject := range data.State.Subjects {
		last, err := s.get(ctx, s.names.bucket(), query{Last: subject})
		if err == nil && last.Time.Before(before) {
			g.data = append(g.data, subject)
		} else if err != nil && !errors.Is(err, errNotFound) {
			return nil, err
		}
	}
	return g, nil
}

// objects returns the objects in the bucket, keyed by subject. The stream is read in order, and a
// renewed object moves to its end, so no object is missed.
func (s *Store) objects(ctx context.Context) (map[string]object, error) {
	found := make(map[string]object)
	for at := uint64(1); ; {
		m, err := s.get(ctx, s.names.bucket(), query{Next: s.names.object("*"), Seq: at})
		if errors.Is(err, errNotFound) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if found[m.Subject], err = objectOf(m); err != nil {
			return nil, err
		}
		at = m.Seq + 1
	}
}

func objectOf(m *storedMessage) (object, error) {
	o := object{seq: m.Seq, put: m.Time}
	if err := json.Unmarshal(m.Data, &o.ObjectInfo); err != nil {
		return o, fmt.Errorf("%w: message %d on %s was not written by an object store: %w", snapshot.ErrCorrupt, m.Seq, m.Subject, err)
	}
	return o, nil
}

// references returns the artifacts that are in use: those that runs refer to, and those that
// contain records.
func (s *Store) references(ctx context.Context) (map[string]bool, error) {
	named := make(map[string]bool)
	list := func() (runIDs []string, err error) {
		info, err := s.records.Info(ctx, jetstream.WithSubjectFilter(s.names.all("r")))
		if err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			_, runID := parse(subject)
			runIDs = append(runIDs, runID)
		}
		return runIDs, nil
	}
	if err := storekit.ReadAll(list, func(runID string) error { return s.addReferences(ctx, named, runID) }); err != nil {
		return nil, fmt.Errorf("cannot determine which artifacts are in use: %w", err)
	}
	return named, nil
}

func (s *Store) addReferences(ctx context.Context, named map[string]bool, runID string) error {
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	last := uint64(0)
	for m, err := range s.messages(ctx, runID, 1, h.seq) {
		if err != nil {
			return err
		}
		if last = m.last; m.artifact != "" {
			named[m.artifact] = true
		}
		for rec, err := range s.decodeRecords(ctx, runID, m) {
			if err != nil {
				return err
			}
			for reference := range rec.Artifacts() {
				named[reference] = true
			}
		}
	}
	if last < h.last {
		return s.missingError(ctx, h, last)
	}
	return nil
}

// renew renews the time of an existing artifact. It returns false if the artifact does not exist.
func (s *Store) renew(ctx context.Context, ref string) (bool, error) {
	subject := s.names.object(ref)
	for {
		m, err := s.get(ctx, s.names.bucket(), query{Last: subject})
		if errors.Is(err, errNotFound) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		o, err := objectOf(m)
		if err != nil || o.Deleted {
			return false, err
		}
		if err := s.putObject(ctx, &o, m.Data); !errors.Is(err, errConflict) {
			return err == nil, err
		}
	}
}

// removeArtifact removes an artifact unless it was put again in the meantime. It reports whether
// the artifact was removed.
func (s *Store) removeArtifact(ctx context.Context, bucket jetstream.Stream, o *object) (bool, error) {
	removal, err := s.markRemoved(ctx, o)
	if errors.Is(err, errConflict) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, s.purgeArtifact(ctx, bucket, removal)
}

// markRemoved replaces an artifact's entry with one that marks the artifact as removed. If the
// process ends before it has purged the artifact, the next GC finds that entry. If the artifact was
// put again in the meantime, the error is errConflict.
func (s *Store) markRemoved(ctx context.Context, o *object) (*object, error) {
	info := o.ObjectInfo
	info.Deleted, info.Size, info.Chunks, info.Digest = true, 0, 0, "" // as the object store client does
	data, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	removal := *o
	return &removal, s.putObject(ctx, &removal, data)
}

// purgeArtifact purges the data and the entry of a removed artifact, but not an entry that was
// stored later.
func (s *Store) purgeArtifact(ctx context.Context, bucket jetstream.Stream, removal *object) error {
	return errors.Join(
		s.purge(ctx, bucket, s.names.objectData(removal.NUID), 0),
		s.purge(ctx, bucket, s.names.object(removal.Name), removal.seq+1),
	)
}

// putObject replaces an object's entry. If another process has replaced it in the meantime, the
// error is errConflict.
func (s *Store) putObject(ctx context.Context, o *object, data []byte) (err error) {
	msg := nats.NewMsg(s.names.object(o.Name))
	msg.Data = data
	msg.Header.Set(headerID, nuid.Next())
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	o.seq, err = s.publish(ctx, s.names.bucket(), msg, o.seq)
	return err
}
