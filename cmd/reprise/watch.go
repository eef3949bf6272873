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

// watching is what is watched, and how it is shown.
type watching struct {
	client  streamer.Client
	headers []string
	ascii   bool
}

func (a *app) watchCommand() *cobra.Command {
	var w watching
	cmd := &cobra.Command{
		Use:     "watch URL [RUN]",
		GroupID: groupLook,
		Short:   "Show the runs of a server, live",
		Long: "Show the runs of a server on the console, as the printer does where they run. The\n" +
			"server is \"reprise serve\", or a program that serves a streamer.Handler. A run is\n" +
			"shown from its first record until it has completed or failed; without RUN, all runs\n" +
			"are shown from now on, until Ctrl-C. If the connection is lost or the server is\n" +
			"restarted, the command reconnects and continues. On a terminal, the output of a\n" +
			"model is shown as it arrives, if the program of the server runs it. With --json,\n" +
			"each record is a line.",
		Example: "  reprise watch http://localhost:8080/\n" +
			"  reprise watch http://localhost:8080/ refund-7\n" +
			"  reprise watch https://ops.example.com/runs/ --header 'Authorization: Bearer ...'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactly("URL")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w.client.URL = args[0]
			if len(args) == 2 && args[1] == "" {
				return usagef("RUN is empty; leave it out to watch all runs")
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
	flags.BoolVar(&w.ascii, "ascii", false, "plain ASCII instead of symbols")
	return cmd
}

// watch shows the events of a client until they end.
func (a *app) watch(ctx context.Context, w watching) error {
	client := &w.client
	client.Header = make(http.Header)
	for _, h := range w.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			return usagef("--header is %q: want a name and a value, such as \"Authorization: Bearer ...\"", printable(h))
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
	defer func() { _ = show.close() }() // its error counts where nothing else went wrong
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

// checkRun returns streamer.ErrNotFound if the run of the client does not exist, since its
// events would wait for it. Whatever else is wrong the events tell, which try again.
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

// explainWatch is err in words for people. Ctrl-C is how watching ends well.
func (a *app) explainWatch(ctx context.Context, client *streamer.Client, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, streamer.ErrNotFound) && client.Run != "":
		return fmt.Errorf("there is no run %s at %s", printable(client.Run), printable(client.URL))
	case errors.Is(err, streamer.ErrUnauthenticated):
		return fmt.Errorf("%w; --header 'Authorization: ...' says who you are", err)
	}
	return err
}

// shown is where events go.
type shown struct {
	event func(streamer.Event) error
	close func() error
}

// writeRecords writes the data of each event on a line.
func (a *app) writeRecords() shown {
	return shown{
		event: func(e streamer.Event) error {
			if _, err := fmt.Fprintf(a.stdout, "%s\n", e.Data); err != nil {
				return &outputError{err}
			}
			return nil
		},
		close: func() error { return nil },
	}
}

// printRecords prints what a printer does, and on stderr what was missed.
func (a *app) printRecords(w watching) shown {
	options := []printer.Option{printer.WithCommand("")} // which runs on the machine of the store
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
	return shown{
		event: func(e streamer.Event) error {
			switch e.Name {
			case "gap", "reset", "unreadable":
				if err := closed(); err != nil {
					return err
				}
				p = printer.New(a.stdout, options...) // which knows nothing of what was before
				fmt.Fprintf(a.stderr, "reprise: %s\n", notice(e))
				return nil
			case "delta":
				d, err := e.Delta()
				p.Delta(d.Delta)
				return err
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

// notice is what an event says that has no record.
func notice(e streamer.Event) string {
	var body struct {
		Missed          uint64
		Reason, Message string
	}
	_ = e.Decode(&body) // what it does not have is not said
	switch e.Name {
	case "gap":
		return fmt.Sprintf("%d events are no longer kept by the server", body.Missed)
	case "reset":
		return "shown anew: " + printable(body.Reason)
	}
	return printable(body.Message)
}
