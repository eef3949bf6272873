package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// roleVariable is the environment variable that contains a process's role in the cluster. A process
// without a role starts the others.
const roleVariable = "REPRISE_CLUSTER_ROLE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv(roleVariable), os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, role string, args []string, out io.Writer) error {
	var c cluster
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.StringVar(&c.dir, "dir", filepath.Join(os.TempDir(), "reprise-cluster"), "the `directory` where the server keeps runs")
	flags.StringVar(&c.addr, "addr", "127.0.0.1:8080", "the `address` of the dashboard")
	flags.IntVar(&c.port, "port", 0, "the `port` of the server on 127.0.0.1; 0 for any")
	flags.StringVar(&c.name, "name", "", "the `name` of a worker")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; only flags are accepted; see -help", flags.Arg(0))
	}
	switch role {
	case "server":
		return c.serveNATS(ctx)
	case "worker":
		return c.work(ctx)
	case "dashboard":
		return c.serveDashboard(ctx)
	case "":
		return c.start(ctx, out)
	}
	return fmt.Errorf("%s is %q; want server, worker, dashboard or nothing", roleVariable, role)
}

// A cluster holds the settings that are passed to its processes.
type cluster struct {
	dir, addr, name string
	port            int
}

func (c *cluster) url() string { return fmt.Sprint("nats://127.0.0.1:", c.port) }

// start starts all processes and restarts each one that ends, until ctx ends.
func (c *cluster) start(ctx context.Context, out io.Writer) (err error) {
	if c.port == 0 {
		if c.port, err = freePort(ctx); err != nil {
			return err
		}
	}
	if _, port, err := net.SplitHostPort(c.addr); err != nil {
		return fmt.Errorf("the address is %q; want a host and a port", c.addr)
	} else if port == "0" {
		free, err := freePort(ctx)
		if err != nil {
			return err
		}
		c.addr = fmt.Sprint("127.0.0.1:", free)
	}
	fmt.Fprint(out, c.welcome())
	lines := &printer{out: out}
	var running sync.WaitGroup
	for _, name := range []string{"server", "worker 1", "worker 2", "worker 3", "dashboard"} {
		running.Go(func() { c.keep(ctx, name, lines) })
	}
	running.Wait()
	return nil
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// restartDelay is how long to wait before a process is restarted. The delay is long for workers, so
// that you can see other workers continue their runs.
func restartDelay(name string) time.Duration {
	if name == "server" || name == "dashboard" {
		return 500 * time.Millisecond
	}
	return 10 * time.Second
}

// keep runs one process and restarts it whenever it ends.
func (c *cluster) keep(ctx context.Context, name string, out *printer) {
	role := name
	if len(name) > len("worker") && name[:len("worker")] == "worker" {
		role = "worker"
	}
	for ctx.Err() == nil {
		self, err := os.Executable()
		if err != nil {
			out.printf("%v\n", err)
			return
		}
		cmd := exec.CommandContext(ctx, self, "-dir", c.dir, "-addr", c.addr, "-port", strconv.Itoa(c.port), "-name", name)
		cmd.Env = append(os.Environ(), roleVariable+"="+role)
		cmd.Stderr = os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 20 * time.Second
		if err := cmd.Start(); err != nil {
			out.printf("%v\n", err)
			return
		}
		out.printf("%-9s  kill -9 %d\n", name, cmd.Process.Pid)
		err = cmd.Wait()
		if ctx.Err() != nil {
			return
		}
		out.printf("%-9s  ended (%v) and will be restarted in %v\n", name, err, restartDelay(name))
		select {
		case <-time.After(restartDelay(name)):
		case <-ctx.Done():
		}
	}
}

// printer prints lines from many goroutines.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}

func (c *cluster) welcome() string {
	return fmt.Sprintf(`All runs are on http://%[1]s/ and in %[2]s.

Start some runs of 20 seconds each, and see which process took each step:
  for i in 1 2 3 4 5 6; do curl -s http://%[1]s/api/runs -H 'Content-Type: application/json' -d '{"program": "count", "run_id": "count-'$i'", "input": {"to": 20}}'; done
  curl -s http://%[1]s/api/runs/count-1/result

Kill any of these, or stop one with kill -STOP for longer than %[3]v and continue it with kill -CONT:
`, c.addr, c.dir, lease)
}
