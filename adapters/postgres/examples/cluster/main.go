package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver"
	"github.com/reprise-go/reprise/adapters/postgres/service"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/runner"
)

// workerVariable is the environment variable that contains a worker's name. A process without this
// variable starts the workers.
const workerVariable = "REPRISE_WORKER"

func main() {
	if name := os.Getenv(workerVariable); name != "" {
		service.Main(func(r *runner.Runner) error { register(r, name); return nil })
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A Count is the number to count to.
type Count struct {
	To int `json:"to"`
}

// A Number is the input of the tool "number".
type Number struct {
	Number int `json:"number"`
}

// register registers the agent. Each number takes a second; if the worker is killed during that
// time, another worker counts the number again.
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

// run runs the workers and, if necessary, the server until ctx ends. It restarts any process
// that exits.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	dir := flags.String("dir", filepath.Join(os.TempDir(), "reprise-postgres-cluster"), "the `directory` of the server, if one is started")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := &cluster{url: os.Getenv("DATABASE_URL"), out: out}
	var running sync.WaitGroup
	defer running.Wait()
	if c.url == "" {
		free, err := ports.Free(1)
		if err != nil {
			return err
		}
		server, err := pgserver.Start(ctx, *dir, free[0])
		if err != nil {
			return err
		}
		c.url = server.URL
		running.Go(func() { c.keepServer(ctx, server, *dir, free[0]) })
	}
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return err
	}
	if err := errors.Join(postgres.Migrate(ctx, conn, ""), conn.Close(ctx)); err != nil {
		return err
	}
	free, err := ports.Free(3)
	if err != nil {
		return err
	}
	c.print(`Start runs of 20 seconds each, and see which process took each step:
  for i in 1 2 3 4 5 6; do curl -s http://127.0.0.1:%[1]d/api/runs -H 'Content-Type: application/json' -d '{"program": "count", "run_id": "count-'$i'", "input": {"to": 20}}'; done
  curl -s http://127.0.0.1:%[1]d/api/runs/count-1/result

Kill any of these; the dashboard of each worker has all runs:
`, free[0])
	for i, port := range free {
		running.Go(func() { c.keepWorker(ctx, fmt.Sprintf("worker %d", i+1), fmt.Sprintf("127.0.0.1:%d", port)) })
	}
	running.Wait()
	return nil
}

// A cluster holds the workers' database.
type cluster struct {
	url string
	mu  sync.Mutex
	out io.Writer
}

func (c *cluster) print(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format, args...)
}

// keepServer restarts the server whenever it is killed.
func (c *cluster) keepServer(ctx context.Context, server *pgserver.Server, dir string, port int) {
	for {
		c.print("server    kill -9 %d\n", server.PID())
		select {
		case <-server.Ended():
		case <-ctx.Done():
			_ = server.Stop()
			return
		}
		var err error
		if server, err = pgserver.Start(ctx, dir, port); err != nil {
			c.print("server    %v\n", err)
			return
		}
	}
}

// restartDelay is how long to wait before a killed worker is restarted. It is longer than the
// worker's lease, so that you can see other workers continue its runs.
const restartDelay = 15 * time.Second

func (c *cluster) keepWorker(ctx context.Context, name, addr string) {
	self, err := os.Executable()
	for ctx.Err() == nil && err == nil {
		cmd := exec.CommandContext(ctx, self, "-store", c.url, "-addr", addr, "-limit", "3", "-grace", "1ms")
		cmd.Env = append(os.Environ(), workerVariable+"="+name)
		cmd.Stderr = os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 20 * time.Second
		if err = cmd.Start(); err != nil {
			break
		}
		c.print("%s  kill -9 %d  http://%s/\n", name, cmd.Process.Pid, addr)
		ended := cmd.Wait()
		if ctx.Err() != nil {
			return
		}
		c.print("%s  ended (%v) and will be restarted in %v\n", name, ended, restartDelay)
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
		}
	}
	if err != nil {
		c.print("%s  %v\n", name, err)
	}
}
