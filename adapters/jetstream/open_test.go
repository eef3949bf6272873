package jetstream_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestServerThatIsTooOldIsRefused(t *testing.T) {
	for _, version := range []string{"2.11.9", "1.4.1", "x"} {
		_, err := jetstream.Open(t.Context(), jstest.Connect(t, oldServer(t, version)), jetstream.Options{})
		require.ErrorContains(t, err, "has version "+version+"; want 2.12 or newer")
	}
}

// oldServer starts a server that does nothing but report its version.
func oldServer(t *testing.T, version string) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "INFO {\"version\":%q,\"max_payload\":1048576,\"headers\":true}\r\n", version)
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "PING") {
						fmt.Fprint(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	return "nats://" + listener.Addr().String()
}

func TestServerWithoutJetStreamIsRefused(t *testing.T) {
	conn := jstest.Start(t, jstest.WithoutJetStream()).Connect()
	_, err := jetstream.Open(t.Context(), conn, jetstream.Options{})
	require.ErrorContains(t, err, "has no JetStream for this account; start it with -js")
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	conn := jstest.Start(t).Connect()
	for want, o := range map[string]jetstream.Options{
		`Name is "a.b"; want 1 to 32 letters`:     {Name: "a.b"},
		"Lease is 1ms; want 1s or more":           {Lease: time.Millisecond},
		"Replicas is 7; want 1 to 5":              {Replicas: 7},
		"MaxBytes is -1; want 0 or more":          {MaxBytes: -1},
		"stream RP_reprise cannot be created: sn": {Replicas: 3}, // there is only one server
	} {
		_, err := jetstream.Open(t.Context(), conn, o)
		require.ErrorContains(t, err, want)
	}
	_, err := jetstream.Open(t.Context(), nil, jetstream.Options{})
	require.ErrorContains(t, err, "Open needs a connection")
}

// TestForeignStreamIsRefused also checks that no other stream is created.
func TestForeignStreamIsRefused(t *testing.T) {
	for name, config := range map[string]njs.StreamConfig{
		"subjects is orders.>, want rpi.reprise.>": {Name: "RPI_reprise", Subjects: []string{"orders.>"}},
		"max_msgs_per_subject is 0, want 1":        {Name: "RPI_reprise", Subjects: []string{"rpi.reprise.>"}},
		"max_age is 1h0m0s, want 0s":               {Name: "RP_reprise", Subjects: []string{"rp.reprise.>"}, MaxAge: time.Hour},
		"max_msg_size is 1024, want 0": {
			Name: "RPI_reprise", Subjects: []string{"rpi.reprise.>"}, MaxMsgsPerSubject: 1, Discard: njs.DiscardNew, AllowDirect: true, MaxMsgSize: 1024,
		},
		"deny_delete is true, want false": {
			Name: "RPI_reprise", Subjects: []string{"rpi.reprise.>"}, MaxMsgsPerSubject: 1, Discard: njs.DiscardNew, AllowDirect: true, DenyDelete: true,
		},
		"it transforms subjects": {
			Name: "RPI_reprise", Subjects: []string{"rpi.reprise.>"}, MaxMsgsPerSubject: 1, Discard: njs.DiscardNew, AllowDirect: true,
			SubjectTransform: &njs.SubjectTransformConfig{Source: "rpi.reprise.a.>", Destination: "rpi.reprise.b.>"},
		},
		"allow_rollup_hdrs is false, want true": {Name: "RP_reprise", Subjects: []string{"rp.reprise.>"}},
		"max_age is 24h0m0s, want 0s": { // artifacts would expire
			Name: "OBJ_RPA_reprise", Subjects: []string{"$O.RPA_reprise.C.>", "$O.RPA_reprise.M.>"}, MaxAge: 24 * time.Hour,
			Discard: njs.DiscardNew, AllowRollup: true, AllowDirect: true,
		},
	} {
		conn := jstest.Start(t).Connect()
		js, err := njs.New(conn)
		require.NoError(t, err)
		_, err = js.CreateStream(t.Context(), config)
		require.NoError(t, err)
		_, err = jetstream.Open(t.Context(), conn, jetstream.Options{})
		require.ErrorContains(t, err, "the stream "+config.Name+" exists, but its settings do not fit")
		require.ErrorContains(t, err, name)
		var names []string
		for name := range js.StreamNames(t.Context()).Name() {
			names = append(names, name)
		}
		assert.Equal(t, []string{config.Name}, names, "no stream was created")
	}
}

// TestLimitsOfAnAccountAreNamed checks that the errors also say what to do.
func TestLimitsOfAnAccountAreNamed(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string][]string{
		"max_streams: 3":           {"cannot be created", "maximum number of streams reached; raise max_streams for the account"},
		"max_consumers: 1":         {"maximum consumers limit reached; raise max_consumers for the account"},
		"max_file: 20K":            {"insufficient storage resources available; raise the server's max_file_store and the account's max_file"},
		"max_bytes_required: true": {"account requires a stream config to have max bytes set; create the stream with"},
		"disk_max_stream_bytes: 1000, max_file: 1000000": {"max bytes exceeds account limit max stream bytes; raise max_stream_bytes for the account, or lower Options.MaxBytes"},
	} {
		t.Run(limits, func(t *testing.T) {
			t.Parallel()
			s := jstest.Start(t, withConfig(t, "accounts: {A: {jetstream: {"+limits+"}, users: [{user: a, password: secret}]}}"))
			err := useStore(t, s.Connect(nats.UserInfo("a", "secret")), jetstream.Options{Lease: lease, MaxBytes: 500_000})
			require.ErrorIs(t, err, snapshot.ErrUnavailable)
			for _, text := range want {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

// useStore opens a store and its queue, takes a job and writes records.
func useStore(t *testing.T, conn *nats.Conn, o jetstream.Options) error {
	s, err := jetstream.Open(t.Context(), conn, o)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := jetstream.OpenQueue(t.Context(), s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range 2 {
		if _, err := q.Add(ctx, runner.QueueEntry{RunID: fmt.Sprint("r", i), Program: echoID, Priority: i}); err != nil {
			return err
		}
	}
	for range 2 {
		taken, err := q.Take(ctx, []runner.ProgramID{echoID}, 1)
		if err != nil {
			return err
		}
		taken[0].Abandon()
	}
	return fill(t, s, "filler")
}

func TestServerThatAcceptsOnlySmallMessagesIsRefused(t *testing.T) {
	t.Parallel()
	_, err := jetstream.Open(t.Context(), jstest.Start(t, jstest.WithMaxPayload(8<<10)).Connect(), jetstream.Options{})
	require.ErrorContains(t, err, "accepts messages of at most 8192 bytes; want a max_payload of 32768 or more")
}

// TestForeignQueueIsRefused uses a foreign queue that would drop old jobs when it is full.
func TestForeignQueueIsRefused(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	js, err := njs.New(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), njs.StreamConfig{
		Name: "RQ_reprise", Subjects: []string{"rq.reprise.>"}, MaxMsgsPerSubject: 1, Retention: njs.WorkQueuePolicy,
		AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true, AllowDirect: true, MaxBytes: 1 << 20,
	})
	require.NoError(t, err)
	_, err = jetstream.OpenQueue(t.Context(), s)
	require.ErrorContains(t, err, "the stream RQ_reprise exists, but its settings do not fit: max_bytes is 1048576, want 0")
}

// TestEachDeletedStreamIsNamedAndRecreated checks that the list and the queue are rebuilt from the
// records.
func TestEachDeletedStreamIsNamedAndRecreated(t *testing.T) {
	t.Parallel()
	for stream, use := range map[string]func(*jetstream.Store, *jetstream.Queue) error{
		"RPI_reprise": func(s *jetstream.Store, _ *jetstream.Queue) error {
			_, err := s.List(t.Context(), snapshot.Filter{})
			return err
		},
		"RQ_reprise": func(_ *jetstream.Store, q *jetstream.Queue) error {
			_, err := q.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
			return err
		},
		"OBJ_RPA_reprise": func(s *jetstream.Store, _ *jetstream.Queue) error {
			_, err := s.Put(t.Context(), []byte("new"))
			return err
		},
	} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			conn := jstest.Start(t).Connect()
			s := open(t, conn, jetstream.Options{Lease: longLease})
			q, err := jetstream.OpenQueue(t.Context(), s)
			require.NoError(t, err)
			create(t, s, "before", snapshot.StatusQueued, time.Time{})
			js, err := njs.New(conn)
			require.NoError(t, err)
			require.NoError(t, js.DeleteStream(t.Context(), stream))
			err = use(s, q)
			require.ErrorIs(t, err, snapshot.ErrUnavailable)
			require.ErrorContains(t, err, "stream not found; it was deleted: to create it again, open the store again")
			again := open(t, conn, jetstream.Options{Lease: longLease})
			queue, err := jetstream.OpenQueue(t.Context(), again)
			require.NoError(t, err)
			require.NoError(t, use(again, queue))
			require.NoError(t, use(s, q), "also for processes that had the store open")
			page, err := s.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			assert.Equal(t, []string{"before"}, ids(page))
		})
	}
}

// TestStoreWithoutStorageFailsClearly checks that what was stored remains, and that the run
// continues when there is storage again.
func TestStoreWithoutStorageFailsClearly(t *testing.T) {
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{Lease: lease, MaxBytes: 64 << 10})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	var err error
	stored := uint64(0)
	for seq := uint64(1); err == nil && seq < 10_000; seq++ {
		if err = j.Append(storetest.Records(seq, 1)...); err == nil {
			err = j.Sync(t.Context(), seq)
		}
		if err == nil {
			stored = seq
		}
	}
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "maximum bytes exceeded")
	assert.Positive(t, stored)
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.EqualValues(t, stored, run.Len())
	_, err = s.Open(t.Context(), "other", snapshot.OpenOptions{Create: true})
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	_, err = s.Info(t.Context(), "other")
	require.ErrorIs(t, err, snapshot.ErrNotFound, "no run is incomplete")
}

func TestServerThatIsGoneIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	s := open(t, server.Connect(nats.RetryOnFailedConnect(true)), jetstream.Options{Lease: lease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	server.Stop()
	_, err := s.Load(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.Error(t, err)
	server.Restart()
	_, err = s.Load(t.Context(), "run")
	require.NoError(t, err)
}
