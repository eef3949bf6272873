package mcp

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// Path is where [Main] serves MCP over HTTP.
const Path = "/programs/mcp"

// Main is to be called by a program's main function. Like service.Main, it serves the programs that
// register registers, and it also serves them to MCP clients at [Path]. With the flag -mcp, it
// instead serves one client over standard input and output, and keeps runs in the directory given
// by -dir; this is how MCP clients start the program. Unfinished runs continue when the program is
// started again, whether over HTTP or for another client.
func Main(register func(*runner.Runner) error) {
	MainWith(service.Options{}, ServerOptions{}, register)
}

// MainWith is like Main, but with options. With -mcp, only the Dir and Runner fields of the service's
// options are used. A service that other machines can reach needs ServerOptions.Authorize.
func MainWith(o service.Options, so ServerOptions, register func(*runner.Runner) error) {
	isMCP := func(arg string) bool { return arg == "-mcp" || arg == "--mcp" }
	if !slices.ContainsFunc(os.Args[1:], isMCP) {
		mounted := new(lateHandler)
		if o.Routes == nil {
			o.Routes = make(map[string]http.Handler)
		}
		o.Routes[Path] = mounted
		service.MainWith(o, func(r *runner.Runner) error {
			mounted.handler = NewHandler(r, so)
			return register(r)
		})
		return
	}
	args := slices.DeleteFunc(slices.Clone(os.Args), isMCP)
	if err := serveClient(args, &o, so, register); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// clientGrace is how long runs may continue after the client has disconnected. It is short because
// clients kill a server that does not exit soon.
const clientGrace = time.Second

// lateHandler forwards requests to a handler that may not exist yet when the lateHandler is
// registered.
type lateHandler struct{ handler http.Handler }

// ServeHTTP implements http.Handler.
func (m *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// serveClient serves a client over standard input and output.
func serveClient(args []string, o *service.Options, so ServerOptions, register func(*runner.Runner) error) error {
	out := os.Stdout
	os.Stdout = os.Stderr // before the program can write anything to it
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := cmp.Or(os.Getenv("REPRISE_DIR"), o.Dir, "reprise-data")
	flags.StringVar(&dir, "dir", dir, "the `directory` where runs are kept")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("mcp: unexpected argument %q; with -mcp, only the flag -dir is allowed", flags.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	if o.Runner.Grace == 0 {
		o.Runner.Grace = clientGrace
	}
	r, err := runner.New(store, o.Runner)
	if err == nil {
		err = register(r)
	}
	if err == nil {
		err = serveWhile(ctx, r, out, so)
	}
	return errors.Join(err, store.Close())
}

// serveWhile runs the runner while a client is served over standard input and output.
func serveWhile(ctx context.Context, r *runner.Runner, out io.WriteCloser, so ServerOptions) error {
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer end() // without a runner, there is nothing to serve
		served <- r.Serve(serving)
	}()
	err := ServeIO(serving, r, os.Stdin, out, so)
	end()
	return errors.Join(err, <-served)
}
