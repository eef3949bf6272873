package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/adapters/jetstream"
)

// natsProcess runs a NATS server until standard input ends. It prints the URL of the
// server.
func natsProcess(dir string, syncAlways bool) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir, SyncAlways: syncAlways,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(waitTimeout) {
		return errors.New("the NATS server does not accept connections")
	}
	fmt.Println(s.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return err
}

// startNATS starts a NATS server in a separate process.
func startNATS(syncAlways bool) (url string, stop func() error, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	dir, err := tempDir()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(program, "-nats-server", dir, fmt.Sprintf("-nats-sync=%t", syncAlways))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return strings.TrimSpace(url), stop, nil
}

// openJetStream opens runners on a new NATS server. Each has its own connection.
func openJetStream(workers int, syncAlways bool) opener {
	return func(ctx context.Context, runs int, handled func()) (service, error) {
		url, stop, err := startNATS(syncAlways)
		if err != nil {
			return service{}, err
		}
		all := make([]worker, workers)
		for i := range all {
			if all[i], err = openJetStreamWorker(ctx, url); err != nil {
				return service{}, errors.Join(err, stop())
			}
		}
		last := &all[workers-1]
		closeLast := last.close
		last.close = func() error { return errors.Join(closeLast(), stop()) }
		return serve(ctx, runs, oneCall(handled), all...)
	}
}

func openJetStreamWorker(ctx context.Context, url string) (worker, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return worker{}, err
	}
	store, err := jetstream.Open(ctx, conn, jetstream.Options{})
	if err != nil {
		conn.Close()
		return worker{}, err
	}
	end := func() error {
		defer conn.Close()
		return store.Close()
	}
	queue, err := jetstream.OpenQueue(ctx, store)
	if err != nil {
		return worker{}, errors.Join(err, end())
	}
	return worker{store, queue, end}, nil
}
