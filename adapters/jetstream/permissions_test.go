package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// withConfig makes a server use the users, accounts, domain and leaf nodes of a configuration.
func withConfig(t *testing.T, text string) jstest.Option {
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	read, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	return func(o *server.Options) {
		o.Users, o.Accounts, o.JetStreamDomain, o.LeafNode = read.Users, read.Accounts, read.JetStreamDomain, read.LeafNode
		if read.SystemAccount != "" {
			o.SystemAccount = read.SystemAccount
		}
	}
}

// user returns a user for the configuration of a server. The user has all permissions of a role
// except the given one, or all of them if that is "".
func user(t *testing.T, name string, role jetstream.Role, without string) string {
	text, err := jetstream.PermissionsConfig(jetstream.Options{}, role)
	require.NoError(t, err)
	if without != "" {
		require.Contains(t, text, without)
		text = strings.ReplaceAll(text, "\""+without+"\"", "nothing")
	}
	return fmt.Sprintf("{user: %s, password: secret, %s}\n", name, text)
}

func authorization(users ...string) string {
	return "authorization: { users: [\n{user: root, password: secret}\n" + strings.Join(users, "") + "] }\n"
}

// violations collects the permission violations that servers have reported to
// connections.
type violations struct {
	mu  sync.Mutex
	all []string
}

func (v *violations) connect(t *testing.T, s *jstest.Server, name string) *nats.Conn {
	return s.Connect(nats.UserInfo(name, "secret"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.all = append(v.all, name+": "+err.Error())
	}))
}

// TestEachRoleDoesItsWorkWithItsPermissions checks all roles: an admin creates the streams; a
// client starts, answers, interrupts and cancels runs; a worker executes them, with artifacts,
// waits and priorities, and removes them; a dashboard reads everything but cannot change anything.
func TestEachRoleDoesItsWorkWithItsPermissions(t *testing.T) {
	t.Parallel()
	s := jstest.Start(t, withConfig(t, authorization(user(t, "admin", jetstream.RoleAdmin, ""), user(t, "worker", jetstream.RoleWorker, ""),
		user(t, "client", jetstream.RoleClient, ""), user(t, "dashboard", jetstream.RoleDashboard, ""))))
	var said violations
	o := jetstream.Options{Lease: longLease}
	admin := open(t, said.connect(t, s, "admin"), o)
	_, err := jetstream.OpenQueue(t.Context(), admin)
	require.NoError(t, err)

	large := strings.Repeat("x", 300_000)
	register := func(r *runner.Runner) {
		runner.Register(r, decorators.Agent("ask", "", func(ctx context.Context, in word) (string, error) {
			answer, err := core.Await[string](ctx, "who?")
			if err == nil {
				err = core.Sleep(ctx, 50*time.Millisecond)
			}
			return in.Text + answer + large, err
		}))
	}
	of := func(name string) worker {
		store := open(t, said.connect(t, s, name), o)
		q, err := jetstream.OpenQueue(t.Context(), store)
		require.NoError(t, err)
		return worker{store, q}
	}
	w := of("worker")
	_, stop := w.serving(t, register)
	client, err := runner.New(of("client").store, runner.Options{Queue: of("client").queue})
	require.NoError(t, err)
	register(client)
	shown := open(t, said.connect(t, s, "dashboard"), o)

	_, err = client.Start(t.Context(), "ask", "r", word{large}, runner.StartOptions{Priority: 5})
	require.NoError(t, err)
	_, err = client.Start(t.Context(), "ask", "stopped", word{"x"}, runner.StartOptions{At: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.NoError(t, client.Cancel(t.Context(), "stopped", snapshot.Stop{Message: "enough"}))
	require.Eventually(t, func() bool {
		questions, err := client.Questions(t.Context(), "r")
		return err == nil && len(questions) == 1
	}, patience, 10*time.Millisecond)
	require.NoError(t, client.Answer(t.Context(), "r", "ask?1", "", "you"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, err := client.Wait(ctx, "r")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
	_, err = client.Result(t.Context(), "r")
	require.NoError(t, err)

	page, err := shown.List(t.Context(), snapshot.Filter{Status: []snapshot.Status{snapshot.StatusCompleted}, Count: true})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	run, err := shown.Load(t.Context(), "r")
	require.NoError(t, err)
	last := uint64(0)
	for rec, err := range shown.Follow(ctx, "r", snapshot.Cursor{}) {
		require.NoError(t, err)
		if last = rec.Seq; last == uint64(run.Len()) {
			break
		}
	}
	for e, err := range shown.Watch(ctx, snapshot.WatchOptions{RunID: "r"}) {
		require.NoError(t, err)
		assert.Equal(t, "r", e.Info.RunID)
		break
	}
	sn, err := run.Snapshot()
	require.NoError(t, err)
	require.NotEmpty(t, sn.Artifacts())
	_, err = shown.Get(t.Context(), sn.Artifacts()[0])
	require.NoError(t, err)

	require.NoError(t, w.store.Delete(t.Context(), "r"))
	stop()
	_, err = admin.GC(t.Context(), 0)
	require.NoError(t, err)
	said.mu.Lock()
	assert.Empty(t, said.all)
	said.mu.Unlock()

	_, err = shown.Update(t.Context(), "stopped", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.ErrorIs(t, err, nats.ErrPermissionViolation)
	require.ErrorContains(t, err, `the user of this connection may not publish to "rp.reprise.f.stopped"`)
	require.ErrorContains(t, err, "reprise-jetstream permissions")
}

// TestMissingPermissionIsNamed lets users work without one of the permissions of their role.
func TestMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	record := func(s *jetstream.Store) error {
		j, err := s.Open(t.Context(), "new", snapshot.OpenOptions{Create: true})
		if err != nil {
			return err
		}
		return errors.Join(j.Append(storetest.Records(1, 1)...), j.Sync(t.Context(), 1), j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	}
	take := func(s *jetstream.Store) error {
		q, err := jetstream.OpenQueue(t.Context(), s)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		taken, err := q.Take(ctx, []runner.ProgramID{echoID}, 1)
		if err != nil {
			return err
		}
		return taken[0].Done(ctx)
	}
	put := func(s *jetstream.Store) error {
		_, err := s.Put(t.Context(), []byte("new"))
		return err
	}
	watch := func(s *jetstream.Store) error {
		for _, err := range s.Watch(t.Context(), snapshot.WatchOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	list := func(s *jetstream.Store) error {
		_, err := s.List(t.Context(), snapshot.Filter{})
		return err
	}
	opens := func(*jetstream.Store) error { return nil }
	for _, test := range []struct {
		without string
		role    jetstream.Role
		do      func(*jetstream.Store) error
	}{
		{"$JS.API.INFO", jetstream.RoleDashboard, opens},
		{"$JS.API.STREAM.INFO.RPI_reprise", jetstream.RoleDashboard, opens},
		{"$JS.API.STREAM.MSG.GET.RP_reprise", jetstream.RoleDashboard, opens},
		{"$JS.API.DIRECT.GET.RPI_reprise", jetstream.RoleDashboard, list},
		{"$JS.API.CONSUMER.CREATE.RP_reprise.>", jetstream.RoleDashboard, watch},
		{"$JS.API.CONSUMER.MSG.NEXT.RP_reprise.*", jetstream.RoleDashboard, watch},
		{"rp.reprise.r.>", jetstream.RoleWorker, record},
		{"$O.RPA_reprise.>", jetstream.RoleClient, put},
		{"rp.reprise.s.>", jetstream.RoleWorker, record},
		{"$JS.API.CONSUMER.LIST.RQ_reprise", jetstream.RoleWorker, take},
		{"$JS.API.CONSUMER.CREATE.RQ_reprise.>", jetstream.RoleWorker, take},
		{"$JS.API.CONSUMER.MSG.NEXT.RQ_reprise.*", jetstream.RoleWorker, take},
		{"$JS.ACK.RQ_reprise.>", jetstream.RoleWorker, take},
		{"_INBOX.>", jetstream.RoleDashboard, opens},
	} {
		t.Run(test.without, func(t *testing.T) {
			t.Parallel()
			s := jstest.Start(t, withConfig(t, authorization(user(t, "some", test.role, test.without))))
			root := open(t, s.Connect(nats.UserInfo("root", "secret")), jetstream.Options{Lease: lease})
			q, err := jetstream.OpenQueue(t.Context(), root)
			require.NoError(t, err)
			_, err = q.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
			require.NoError(t, err)
			begin(t, root, snapshot.OpenOptions{Create: true})
			conn := s.Connect(nats.UserInfo("some", "secret"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			store, err := jetstream.Open(t.Context(), conn, jetstream.Options{Lease: lease})
			if err == nil {
				defer store.Close()
				err = test.do(store)
			}
			require.ErrorIs(t, err, nats.ErrPermissionViolation)
			named := strings.TrimSuffix(strings.TrimSuffix(test.without, ">"), "*")
			require.ErrorContains(t, err, named)
			require.ErrorContains(t, err, "the user of this connection may not")
		})
	}
}
