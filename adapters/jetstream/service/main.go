package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/internal/storeurl"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot"
)

// Main is like Main in package runner/service, but adds the flag -store.
func Main(register func(*runner.Runner) error) {
	service.MainWith(service.Options{OpenStore: Open}, register)
}

// Open opens the store that the given URL names, and the store's queue, for [service.Options]. It
// makes a separate connection. done closes the store, the queue and the connection. The URL lists
// the servers, separated by commas, and may have parameters:
//
//	nats://a:4222,nats://b:4222?store=support&replicas=3&lease=10s&creds=/etc/agents/nats.creds
//
// The parameters store, replicas, lease, domain and api_prefix set the fields of [jetstream.Options],
// and creds is the path of the file with a user's credentials. All processes that share a store must
// use the same values for store and lease.
func Open(ctx context.Context, storeURL string) (store snapshot.Store, queue runner.Queue, done func() error, err error) {
	servers, o, credentials, err := storeurl.Parse(storeURL)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the store: %w", err)
	}
	connect := []nats.Option{nats.Name("reprise"), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(reconnectWait)}
	if credentials != "" {
		connect = append(connect, nats.UserCredentials(credentials))
	}
	conn, err := nats.Connect(servers, connect...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the store: %w", err)
	}
	s, err := jetstream.Open(ctx, conn, o)
	if err != nil {
		conn.Close()
		return nil, nil, nil, err
	}
	done = func() error {
		defer conn.Close()
		return s.Close()
	}
	q, err := jetstream.OpenQueue(ctx, s)
	if err != nil {
		return nil, nil, nil, errors.Join(err, done())
	}
	return s, q, done, nil
}

// reconnectWait is short, so that after a brief restart of the server the connection is back before
// the lease expires.
const reconnectWait = 250 * time.Millisecond
