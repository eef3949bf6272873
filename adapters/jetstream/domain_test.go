package jetstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// worksThrough lets a client on one connection start and answer a run, and a worker on the other
// connection execute it. The run has an output that is an artifact, and a wait.
func worksThrough(t *testing.T, client, own *nats.Conn, o jetstream.Options, ownOptions jetstream.Options) {
	t.Helper()
	of := func(conn *nats.Conn, o jetstream.Options) worker {
		s := open(t, conn, o)
		q, err := jetstream.OpenQueue(t.Context(), s)
		require.NoError(t, err)
		return worker{s, q}
	}
	register := func(r *runner.Runner) {
		runner.Register(r, decorators.Agent("ask", "", func(ctx context.Context, in word) ([]byte, error) {
			_, err := core.Await[string](ctx, "who?")
			if err == nil {
				err = core.Sleep(ctx, 20*time.Millisecond)
			}
			return make([]byte, 300_000), err
		}))
	}
	_, stop := of(own, ownOptions).serving(t, register)
	defer stop()
	there := of(client, o)
	r, err := runner.New(there.store, runner.Options{Queue: there.queue})
	require.NoError(t, err)
	register(r)
	_, err = r.Start(t.Context(), "ask", "r", word{"x"}, runner.StartOptions{Priority: 3})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		questions, err := r.Questions(t.Context(), "r")
		return err == nil && len(questions) == 1
	}, patience, 10*time.Millisecond)
	require.NoError(t, r.Answer(t.Context(), "r", "ask?1", "", "you"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, err := r.Wait(ctx, "r")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
	out, err := r.Result(t.Context(), "r")
	require.NoError(t, err)
	assert.Len(t, out, 300_000)
	page, err := there.store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 1)
}

// TestStoreOfADomainWorksThroughALeaf uses a leaf that has its own JetStream.
func TestStoreOfADomainWorksThroughALeaf(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)[0]
	hub := jstest.Start(t, withConfig(t, fmt.Sprintf("jetstream: {domain: hub}\nleafnodes: {host: 127.0.0.1, port: %d}", port)))
	leaf := jstest.Start(t, withConfig(t, fmt.Sprintf("jetstream: {domain: leaf}\nleafnodes: {remotes: [{url: \"nats://127.0.0.1:%d\"}]}", port)))
	conn := leaf.Connect()
	require.Eventually(t, func() bool {
		_, err := conn.Request("$JS.hub.API.INFO", nil, time.Second)
		return err == nil
	}, patience, 10*time.Millisecond)
	worksThrough(t, conn, hub.Connect(), jetstream.Options{Lease: longLease, Domain: "hub"}, jetstream.Options{Lease: longLease})

	_, err := hub.Connect().Request("$JS.API.STREAM.INFO.RP_reprise", nil, patience)
	require.NoError(t, err)
	answer, err := conn.Request("$JS.leaf.API.STREAM.INFO.RP_reprise", nil, patience)
	require.NoError(t, err)
	assert.Contains(t, string(answer.Data), "stream not found", "the leaf must not store anything")
}

// TestStoreOfAnotherAccountWorksThroughAPrefix uses a client whose account has no JetStream.
func TestStoreOfAnotherAccountWorksThroughAPrefix(t *testing.T) {
	t.Parallel()
	s := jstest.Start(t, withConfig(t, `
accounts: {
  OWNER: {
    jetstream: enabled
    users: [{user: owner, password: secret}]
    exports: [
      {service: "$JS.API.>", response_type: stream}
      {service: "$JS.ACK.>"}
      {service: "rp.reprise.>"}
      {service: "rpi.reprise.>"}
      {service: "rq.reprise.>"}
      {service: "$O.RPA_reprise.>"}
    ]
  }
  CLIENT: {
    users: [{user: client, password: secret}]
    imports: [
      {service: {account: OWNER, subject: "$JS.API.>"}, to: "JS.OWNER.API.>"}
      {service: {account: OWNER, subject: "$JS.ACK.>"}}
      {service: {account: OWNER, subject: "rp.reprise.>"}}
      {service: {account: OWNER, subject: "rpi.reprise.>"}}
      {service: {account: OWNER, subject: "rq.reprise.>"}}
      {service: {account: OWNER, subject: "$O.RPA_reprise.>"}}
    ]
  }
}`))
	owner, client := s.Connect(nats.UserInfo("owner", "secret")), s.Connect(nats.UserInfo("client", "secret"))
	worksThrough(t, owner, client, jetstream.Options{Lease: longLease}, jetstream.Options{Lease: longLease, APIPrefix: "JS.OWNER.API"})

	_, err := jetstream.Open(t.Context(), client, jetstream.Options{})
	require.ErrorContains(t, err, "has no JetStream for this account")
}

// TestWrongDomainAndPrefixAreNamed checks that the errors also say what to do.
func TestWrongDomainAndPrefixAreNamed(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	for want, o := range map[string]jetstream.Options{
		`Domain is "a" and APIPrefix is "b"; want only one of them`:       {Domain: "a", APIPrefix: "b"},
		`Domain is "a.b"; want a name without dots`:                       {Domain: "a.b"},
		`APIPrefix is "a.>"; want a subject without blanks and wildcards`: {APIPrefix: "a.>"},
		`APIPrefix is "a."; want a subject without blanks and wildcards`:  {APIPrefix: "a."},
		`no JetStream for the domain "nowhere" at nats://127.0.0.1`:       {Domain: "nowhere"},
		`no JetStream at JS.nowhere.API.> on nats://127.0.0.1`:            {APIPrefix: "JS.nowhere.API"},
		`must import the service $JS.API.> from the account of the store`: {APIPrefix: "JS.nowhere.API"},
	} {
		_, err := jetstream.Open(t.Context(), conn, o)
		require.ErrorContains(t, err, want)
	}
}
