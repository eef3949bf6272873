package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
)

func main() {
	var o service.Options
	flag.StringVar(&o.Dir, "dir", filepath.Join(os.TempDir(), "reprise-service"), "the `directory` where runs are kept")
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:8080", "the `address` where HTTP is served")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "service: unexpected argument %q; it takes flags only, see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Ready = func(url string) { fmt.Print(welcome(url, o.Dir)) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := service.Serve(ctx, o, register); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// register makes the agents known.
func register(r *runner.Runner) error {
	runner.Register(r, report)
	runner.Register(r, refund)
	runner.Register(r, reminder)
	return nil
}

// welcome has the lines that start runs.
func welcome(url, dir string) string {
	post := func(path, body string) string {
		return fmt.Sprintf("  curl -s %s%s -H 'Content-Type: application/json' -d '%s'\n", url, path, body)
	}
	get := func(path string) string { return fmt.Sprintf("  curl -s %s%s\n", url, path) }
	var b strings.Builder
	fmt.Fprintf(&b, "The runs are in %s and on %s\n\n", dir, url)
	b.WriteString("A report takes 10 seconds; kill the service meanwhile, and start it again:\n")
	b.WriteString(post("api/runs", `{"program": "report", "run_id": "report-1", "input": {"topic": "tides", "sections": 5}}`))
	b.WriteString(get("api/runs/report-1/result"))
	b.WriteString("\nA refund asks first:\n")
	b.WriteString(post("api/runs", `{"program": "refund", "run_id": "refund-1", "input": {"order": "A-17", "euros": 40}}`))
	b.WriteString(post("api/runs/refund-1/answer", `{"question": "refund?1", "value": true}`))
	b.WriteString(get("api/runs/refund-1/result"))
	b.WriteString("\nA reminder sleeps on disk:\n")
	b.WriteString(post("api/runs", `{"program": "reminder", "run_id": "reminder-1", "input": {"text": "tea", "seconds": 90}}`))
	b.WriteString(get("api/runs/reminder-1/result"))
	b.WriteString("\nAll runs, an end for one, and the numbers of the service:\n")
	b.WriteString(get("api/runs"))
	b.WriteString(post("api/runs/reminder-1/cancel", `{"by": "you", "message": "no more tea"}`))
	b.WriteString(get("debug/vars"))
	return b.String() + "\n"
}
