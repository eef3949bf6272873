package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/streamer"
)

// watchOptions holds the arguments and flags of watch.
type watchOptions struct {
	client  streamer.Client
	headers []string
	ascii   bool
}

func (a *app) watchCommand() *cobra.Command {
	var w watchOptions
	cmd := &cobra.Command{
		Use:     "watch URL [RUN]",
		GroupID: groupInspect,
		Short:   "Show the runs of a server, live",
		Long: "Show the runs of a server on the console, in the form in which a printer shows them\n" +
			"where they run. The server is \"reprise serve\" or a program that serves a\n" +
			"streamer.Handler. RUN is shown from its first record until it has completed or failed.\n" +
			"Without RUN, all runs are shown from now on, until Ctrl-C. If the connection is lost or\n" +
			"the server restarts, the command reconnects and continues. On a terminal, the output of\n" +
			"a model is shown as it is generated, if the run is in the process of the server. With\n" +
			"--json, each record is one line.",
		Example: "  reprise watch http://localhost:8080/\n" +
			"  reprise watch http://localhost:8080/ refund-7\n" +
			"  reprise watch https://ops.example.com/runs/ --header 'Authorization: Bearer ...'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs("URL")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w.client.URL = args[0]
			if len(args) == 2 && args[1] == "" {
				return usageErrorf("RUN is empty; leave it out to watch all runs")
			}
			if len(args) == 2 {
				w.client.Run, w.client.UntilEnd = args[1], true
				w.client.Deltas = !a.json
			}
			return a.watch(cmd.Context(), w)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&w.headers, "header", nil, "a `header` of every request, \"Name: value\"; may be repeated")
	flags.BoolVar(&w.ascii, "ascii", false, "use plain ASCII instead of symbols")
	return cmd
}

// watch shows the events that a client receives until the stream ends.
func (a *app) watch(ctx context.Context, w watchOptions) error {
	client := &w.client
	client.Header = make(http.Header)
	for _, h := range w.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			return usageErrorf("--header is %q: want a name and a value, such as \"Authorization: Bearer ...\"", printable(h))
		}
		client.Header.Add(name, strings.TrimSpace(value))
	}
	lost := false
	client.Disconnected = func(err error, wait time.Duration) {
		lost = true
		fmt.Fprintf(a.stderr, "reprise: not connected: %s; next try in %v\n", printable(err.Error()), wait.Round(100*time.Millisecond))
	}
	client.Connected = func() {
		if lost {
			fmt.Fprintln(a.stderr, "reprise: connected again")
		}
		lost = false
	}
	show := a.printRecords(w)
	if a.json {
		show = a.writeRecords()
	}
	defer func() { _ = show.close() }() // an earlier error takes precedence
	if err := checkRun(ctx, client); err != nil {
		return a.explainWatch(ctx, client, err)
	}
	for e, err := range client.Events(ctx) {
		if err != nil {
			return a.explainWatch(ctx, client, err)
		}
		if err := show.event(e); err != nil {
			return err
		}
	}
	return show.close()
}

// checkRun returns streamer.ErrNotFound if the client's run does not exist. Without this check,
// the event stream would wait for the run to begin. checkRun ignores other errors, because
// the event stream retries after them.
func checkRun(ctx context.Context, client *streamer.Client) error {
	if client.Run == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, _, err := client.State(ctx, client.Run); errors.Is(err, streamer.ErrNotFound) {
		return err
	}
	return nil
}

// explainWatch returns err with a hint. If ctx has ended because of Ctrl-C, that is not an error.
func (a *app) explainWatch(ctx context.Context, client *streamer.Client, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, streamer.ErrNotFound) && client.Run != "":
		return fmt.Errorf("there is no run %s at %s", printable(client.Run), printable(client.URL))
	case errors.Is(err, streamer.ErrUnauthenticated):
		return fmt.Errorf("%w; authenticate with --header 'Authorization: ...'", err)
	}
	return err
}

// An eventSink receives events.
type eventSink struct {
	event func(streamer.Event) error
	close func() error
}

// writeRecords returns a sink that writes the data of each event as one line.
func (a *app) writeRecords() eventSink {
	return eventSink{
		event: func(e streamer.Event) error {
			if _, err := fmt.Fprintf(a.stdout, "%s\n", e.Data); err != nil {
				return &outputError{err}
			}
			return nil
		},
		close: func() error { return nil },
	}
}

// printRecords returns a sink that prints records with a printer, and writes notices about missed
// events to stderr.
func (a *app) printRecords(w watchOptions) eventSink {
	options := []printer.Option{printer.WithCommand("")} // no hints, because their commands would have to run on the store's machine
	if w.ascii {
		options = append(options, printer.WithASCII())
	}
	p := printer.New(a.stdout, options...)
	closed := func() error {
		if err := p.Close(); err != nil {
			return &outputError{err}
		}
		return nil
	}
	return eventSink{
		event: func(e streamer.Event) error {
			isOver := e.Name == "deleted" && w.client.Run != "" // another run may follow
			switch {
			case isOver, e.Name == "gap", e.Name == "reset", e.Name == "unreadable":
				if err := closed(); err != nil {
					return err
				}
				p = printer.New(a.stdout, options...) // a new printer, without the earlier state
			case e.Name == "delta":
				d, err := e.Delta()
				p.PublishDelta(d.Delta)
				return err
			}
			if !e.IsRecord() {
				fmt.Fprintf(a.stderr, "reprise: %s\n", notice(e))
				return nil
			}
			rec, err := e.Record()
			if err != nil {
				return err
			}
			p.Publish(rec)
			if err := p.Err(); err != nil {
				return &outputError{err}
			}
			return nil
		},
		close: closed,
	}
}

// notice returns the message to show for an event that has no record.
func notice(e streamer.Event) string {
	var body struct {
		Missed          uint64
		Reason, Message string
		RunID           string `json:"run_id"`
		Stopping        streamer.Stop
	}
	_ = e.Decode(&body) // missing fields stay empty
	switch e.Name {
	case "gap":
		return fmt.Sprintf("%d events are no longer kept by the server", body.Missed)
	case "reset":
		return "showing the run from the beginning: " + printable(body.Reason)
	case "deleted":
		return "the run " + printable(body.RunID) + " was deleted"
	case "stopping":
		text := "the run " + printable(body.RunID) + " was asked to stop"
		if body.Stopping.By != "" {
			text += " by " + printable(body.Stopping.By)
		}
		if body.Stopping.Message != "" {
			text += ": " + printable(body.Stopping.Message)
		}
		return text
	}
	return printable(body.Message)
}
