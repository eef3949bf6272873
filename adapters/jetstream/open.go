package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/internal/serverclock"
	"github.com/reprise-go/reprise/snapshot"
)

// minVersion is the oldest server version with all features that this package uses.
var minVersion = [2]int{2, 12}

// minPayload is the smallest value of the server's setting max_payload that lets a message hold a
// run's info and some records.
const minPayload = 32 << 10

// Open opens the store named in the options, on the server to which conn is connected, and creates
// the store if it does not exist. The connection belongs to the caller, who must close it after the
// store. It should reconnect forever (nats.MaxReconnects(-1)), even if a server refuses its user
// for a while (nats.IgnoreAuthErrorAbort()): once the connection is closed, the store can do
// nothing.
//
// If the server is too old or has no JetStream, or if streams with the store's names have other
// settings, Open returns an error that explains the problem, and creates nothing. If servers do not
// answer, as in a cluster that is electing a leader, Open tries again until ctx ends, or for 30
// seconds if ctx has no deadline; then the error is snapshot.ErrUnavailable. If the ends of the
// streams do not agree, as can happen after a power failure, Open repairs the store; see
// [Store.Repair].
func Open(ctx context.Context, conn *nats.Conn, o Options) (*Store, error) {
	if conn == nil {
		return nil, errors.New("jetstream: Open needs a connection, such as nats.Connect(url, nats.MaxReconnects(-1))")
	}
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	js, err := connect(ctx, conn, &o)
	if err != nil {
		return nil, err
	}
	own, stop := context.WithCancel(context.Background())
	s := &Store{
		conn: conn, js: js, api: o.api(), options: o, names: names{o.Name}, ctx: own, stop: stop,
		sightings: make(map[string]sighting), lagging: make(map[string]bool), looked: make(map[string]uint64), damaged: make(chan struct{}, 1),
	}
	s.now = serverclock.New(s.askTime)
	err = s.makeStreams(ctx)
	if err == nil {
		err = s.healOpened(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	s.run(s.healLoop)
	return s, nil
}

// connect checks the version and the settings of the server.
func connect(ctx context.Context, conn *nats.Conn, o *Options) (js jetstream.JetStream, err error) {
	version := conn.ConnectedServerVersion()
	if isTooOld(version) {
		return nil, fmt.Errorf("jetstream: the server at %s has version %s; want %d.%d or newer",
			conn.ConnectedUrlRedacted(), cmp.Or(version, "unknown"), minVersion[0], minVersion[1])
	}
	if most := conn.MaxPayload(); most < minPayload {
		return nil, fmt.Errorf("jetstream: the server at %s accepts messages of at most %d bytes; want a max_payload of %d or more", conn.ConnectedUrlRedacted(), most, minPayload)
	}
	switch {
	case o.Domain != "":
		js, err = jetstream.NewWithDomain(conn, o.Domain)
	case o.APIPrefix != "":
		js, err = jetstream.NewWithAPIPrefix(conn, o.APIPrefix)
	default:
		js, err = jetstream.New(conn)
	}
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	err = setUp(ctx, conn, func(ctx context.Context) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
	switch {
	case isWithoutJetStream(err) && o.Domain != "":
		return nil, fmt.Errorf("jetstream: there is no JetStream for the domain %q at %s; want the domain of that server, or of a server that it is connected to: %w",
			o.Domain, conn.ConnectedUrlRedacted(), err)
	case isWithoutJetStream(err) && o.APIPrefix != "":
		return nil, fmt.Errorf("jetstream: there is no JetStream at %s.> on %s; under that prefix, the account of this connection must import the service $JS.API.> from the account of the store: %w",
			o.APIPrefix, conn.ConnectedUrlRedacted(), err)
	case isWithoutJetStream(err):
		return nil, fmt.Errorf("jetstream: the server at %s has no JetStream for this account; start it with -js, or enable it in its configuration: %w",
			conn.ConnectedUrlRedacted(), err)
	case err != nil:
		return nil, fmt.Errorf("jetstream: the server at %s: %w: %w", conn.ConnectedUrlRedacted(), snapshot.ErrUnavailable, err)
	}
	return js, nil
}

func isWithoutJetStream(err error) bool {
	return errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

func isTooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 != nil || err2 != nil || slices.Compare([]int{major, minor}, minVersion[:]) < 0
}

// streams returns the configurations that the store's streams must have, except for the bucket.
func (s *Store) streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: s.names.records(), Subjects: []string{"rp." + s.names.store + ".>"}, Description: "Reprise: the records of runs",
			Discard: jetstream.DiscardNew, MaxBytes: cmp.Or(s.options.MaxBytes, -1), Replicas: s.options.Replicas,
			AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, DenyDelete: true,
		},
		{
			Name: s.names.index(), Subjects: []string{"rpi." + s.names.store + ".>"}, Description: "Reprise: the list of runs",
			Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, Replicas: s.options.Replicas, AllowDirect: true,
		},
	}
}

// bucketStream returns the configuration of the bucket's stream, as the object store client creates
// it.
func (s *Store) bucketStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.names.bucket(), Subjects: []string{s.names.objectData(">"), "$O." + s.names.artifacts() + ".M.>"},
		Discard: jetstream.DiscardNew, AllowDirect: true, AllowRollup: true,
	}
}

// makeStreams creates the streams that are missing. It first checks all existing streams.
func (s *Store) makeStreams(ctx context.Context) (err error) {
	found := make(map[string]jetstream.Stream)
	for _, want := range append(s.streams(), s.bucketStream()) {
		if found[want.Name], err = s.stream(ctx, &want); err != nil {
			return err
		}
	}
	for _, want := range s.streams() {
		if found[want.Name] == nil {
			if found[want.Name], err = s.makeStream(ctx, &want); err != nil {
				return err
			}
		}
	}
	s.records, s.index = found[s.names.records()], found[s.names.index()]
	if found[s.names.bucket()] == nil {
		err = s.makeBucket(ctx)
	}
	return err
}

// makeBucket creates the bucket for artifacts, as the object store client does.
func (s *Store) makeBucket(ctx context.Context) error {
	bucket := jetstream.ObjectStoreConfig{Bucket: s.names.artifacts(), Description: "Reprise: large outputs", Replicas: s.options.Replicas}
	err := setUp(ctx, s.conn, func(ctx context.Context) error {
		_, err := s.js.CreateObjectStore(ctx, bucket)
		if errors.Is(err, jetstream.ErrBucketExists) { // another process has created the bucket meanwhile
			return nil
		}
		return err
	})
	if err != nil {
		return createError("bucket "+bucket.Bucket, err)
	}
	return nil
}

// stream returns a stream and checks its configuration. It returns nil if the stream
// does not exist.
func (s *Store) stream(ctx context.Context, want *jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	err = setUp(ctx, s.conn, func(ctx context.Context) error {
		stream, err = s.js.Stream(ctx, want.Name)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("jetstream: stream %s: %w: %w", want.Name, snapshot.ErrUnavailable, err)
	}
	return stream, compare(want, &stream.CachedInfo().Config)
}

func (s *Store) makeStream(ctx context.Context, want *jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	err = setUp(ctx, s.conn, func(ctx context.Context) error {
		stream, err = s.js.CreateStream(ctx, *want)
		return err
	})
	if err != nil {
		return nil, createError("stream "+want.Name, err)
	}
	return stream, nil
}

// createError returns the error for a stream that cannot be created, usually because storage or
// servers are missing.
func createError(what string, err error) error {
	return fmt.Errorf("jetstream: %s cannot be created: %w", what, unavailable(err))
}

// compare returns an error if a stream's settings do not suit the store. The limits and the number
// of replicas may differ.
func compare(want, have *jetstream.StreamConfig) error {
	var wrong []string
	differs := func(name string, have, want any) {
		if have != want {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", name, have, want))
		}
	}
	differs("subjects", strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " "))
	differs("retention", have.Retention, want.Retention)
	differs("discard", have.Discard, want.Discard)
	differs("storage", have.Storage, want.Storage)
	differs("max_age", have.MaxAge, want.MaxAge)
	differs("max_msgs_per_subject", max(have.MaxMsgsPerSubject, 0), want.MaxMsgsPerSubject)
	if want.Discard == jetstream.DiscardOld { // a limit on the size would drop the oldest messages
		differs("max_bytes", max(have.MaxBytes, 0), int64(0))
	}
	differs("max_msgs", max(have.MaxMsgs, 0), max(want.MaxMsgs, 0))
	differs("allow_direct", have.AllowDirect, want.AllowDirect)
	differs("allow_rollup_hdrs", have.AllowRollup, want.AllowRollup)
	differs("allow_msg_ttl", have.AllowMsgTTL, want.AllowMsgTTL)
	differs("allow_msg_schedules", have.AllowMsgSchedules, want.AllowMsgSchedules)
	differs("deny_purge", have.DenyPurge, want.DenyPurge)
	differs("deny_delete", have.DenyDelete, want.DenyDelete)
	differs("max_msg_size", max(have.MaxMsgSize, 0), want.MaxMsgSize)
	differs("persist_mode", have.PersistMode, want.PersistMode)
	differs("sealed", have.Sealed, want.Sealed)
	differs("no_ack", have.NoAck, want.NoAck)
	if have.SubjectTransform != nil {
		wrong = append(wrong, "it transforms subjects")
	}
	if have.Mirror != nil || len(have.Sources) > 0 {
		wrong = append(wrong, "it copies another stream")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("jetstream: the stream %s exists, but its settings do not fit: %s; choose another Options.Name, or change the stream",
			want.Name, strings.Join(wrong, "; "))
	}
	return nil
}
