package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// lease is short, so that a killed worker's runs continue soon.
const lease = 3 * time.Second

// A Count is the number to count to.
type Count struct {
	To int `json:"to"`
}

// A Number is the input of the tool "number".
type Number struct {
	Number int `json:"number"`
}

// register registers the agent. Each number takes a second. If a worker is killed while it counts a
// number, another worker counts the number again.
func register(r *runner.Runner, worker string) {
	number := decorators.Tool("number", "Waits for a second.", func(ctx context.Context, in Number) (string, error) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		return fmt.Sprintf("%d by %s (%d)", in.Number, worker, os.Getpid()), nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 5}))
	runner.Register(r, decorators.Agent("count", "Counts, one number a second.", func(ctx context.Context, in Count) (string, error) {
		var numbers []string
		for n := 1; n <= in.To; n++ {
			number, err := number.Call(ctx, Number{n})
			if err != nil {
				return "", err
			}
			numbers = append(numbers, number)
		}
		return strings.Join(numbers, ", "), nil
	}))
}

// serveNATS runs a server that syncs each message, since it may be killed.
func (c *cluster) serveNATS(ctx context.Context) error {
	s, err := server.NewServer(&server.Options{
		ServerName: "cluster", Host: "127.0.0.1", Port: c.port, NoLog: true, NoSigs: true, JetStream: true, SyncAlways: true, StoreDir: c.dir,
	})
	if err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// open connects to the store and waits for its server.
func (c *cluster) open(ctx context.Context) (*nats.Conn, *jetstream.Store, *jetstream.Queue, error) {
	conn, err := nats.Connect(c.url(), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, nil, err
	}
	for ctx.Err() == nil && !conn.IsConnected() {
		select {
		case <-conn.StatusChanged(nats.CONNECTED):
		case <-time.After(100 * time.Millisecond): // the connection may have been made just before the wait
		case <-ctx.Done():
		}
	}
	store, err := jetstream.Open(ctx, conn, jetstream.Options{Lease: lease})
	if err != nil {
		conn.Close()
		return nil, nil, nil, err
	}
	queue, err := jetstream.OpenQueue(ctx, store)
	if err != nil {
		conn.Close()
		return nil, nil, nil, errors.Join(err, store.Close())
	}
	return conn, store, queue, nil
}

// work executes runs from the queue.
func (c *cluster) work(ctx context.Context) error {
	conn, store, queue, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := runner.New(store, runner.Options{Queue: queue, Limit: 3, Grace: -1, SweepEvery: 10 * time.Second})
	if err != nil {
		return err
	}
	register(r, c.name)
	return errors.Join(r.Serve(ctx), store.Close())
}

// serveDashboard shows the runs of all workers and can start runs, but executes
// none itself.
func (c *cluster) serveDashboard(ctx context.Context) error {
	conn, store, queue, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := runner.New(store, runner.Options{Queue: queue})
	if err != nil {
		return err
	}
	register(r, c.name)
	control := service.NewControl(r)
	runs := stored.New(store)
	dashboard, err := streamer.New(runs, streamer.Options{Control: control, Starter: control, Continuer: control})
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: dashboard, ReadHeaderTimeout: 5 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { follow(ctx, runs, dashboard) })
	serving.Go(func() { _ = s.Serve(listener) })
	<-ctx.Done()
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	err = errors.Join(dashboard.Close(closing), s.Shutdown(closing))
	serving.Wait()
	return errors.Join(err, store.Close())
}

// follow publishes the records of all workers, and tries again if the server is
// unavailable.
func follow(ctx context.Context, runs *stored.Runs, dashboard *streamer.Handler) {
	for ctx.Err() == nil {
		if err := runs.Follow(ctx, dashboard); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}
