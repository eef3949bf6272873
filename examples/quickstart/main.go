package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Exit codes. The code for an interrupt is the one that shells use for Ctrl-C.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

type flags struct {
	file     string
	question string
	model    string
	timeout  time.Duration
	plain    bool
	compact  bool
	ascii    bool
	previews bool
}

func parseFlags() flags {
	var f flags
	flag.StringVar(&f.file, "file", "", "the `file` with one city per line that the agent reads (default: three cities)")
	flag.StringVar(&f.question, "question", "Which of the cities in the file is the warmest right now?", "what to ask the agent")
	flag.StringVar(&f.model, "model", "gpt-4o-mini", "the model to use if OPENAI_API_KEY is set")
	flag.DurationVar(&f.timeout, "timeout", 0, "interrupt the run after this long, such as 30s (default: never)")
	flag.BoolVar(&f.plain, "plain", false, "print lines as events happen, even on a terminal (by default running calls are shown live there)")
	flag.BoolVar(&f.compact, "compact", false, "print each call when it ends, in short form if it succeeds")
	flag.BoolVar(&f.ascii, "ascii", false, "print plain ASCII instead of symbols")
	flag.BoolVar(&f.previews, "previews", false, "also print the inputs and outputs of calls")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Runs an agent whose tools fail and recover, and prints every attempt.\n\nUsage: quickstart [flags]\n\n")
		flag.PrintDefaults()
		fmt.Fprintf(flag.CommandLine.Output(), "\nEnvironment:\n  OPENAI_API_KEY   talk to a real model instead of the scripted one\n  OPENAI_BASE_URL  the base URL of its service (default: OpenAI's)\n")
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unexpected argument %q; only flags are accepted; see -help\n", flag.Arg(0))
		os.Exit(exitUsage)
	}
	if f.plain && f.compact {
		fmt.Fprintln(os.Stderr, "quickstart: -plain and -compact exclude each other; use at most one of them")
		os.Exit(exitUsage)
	}
	return f
}

func main() {
	f := parseFlags()
	err := run(f)
	switch {
	case err == nil:
	case errors.Is(err, core.ErrInterrupted):
		fmt.Fprintln(os.Stderr, "\nStopped before the end:", err)
		os.Exit(exitInterrupted)
	default:
		fmt.Fprintln(os.Stderr, "\nFailed:", err)
		os.Exit(exitFailed)
	}
}

// run sets up the services and the model, runs the agent and prints its answer.
func run(f flags) error {
	weather, err := startWeatherService()
	if err != nil {
		return err
	}
	defer weather.Close()
	files, err := openWorkspace(f.file)
	if err != nil {
		return err
	}
	defer files.Close()
	model, err := connectModel(f.model)
	if err != nil {
		return err
	}
	defer model.Close()

	assistant := actors.NewAgent("assistant", model.llm,
		actors.WithInstructions("Answer by using the tools. The cities are in the file "+files.name+"."),
		actors.WithTools(readFileTool(files), weatherTool(weather.URL)))

	console := printer.New(os.Stdout, printerOptions(f)...)
	defer console.Close()
	records := bus.New()
	records.Subscribe(console.Publish)
	st := state.New(stateOptions(f, records)...)
	defer interruptOnSignal(st)()
	if f.timeout != 0 {
		if err := st.SetTimeout(f.timeout); err != nil {
			return err
		}
	}
	answer, err := assistant.Call(st.Context(context.Background()), actors.Ask(f.question))
	closeErr := st.Close()
	records.Close() // so that all lines are written before the answer
	if err == nil {
		fmt.Fprintf(console, "\n%s\n\n", answer.Text)
	}
	console.PrintSummary()
	return errors.Join(err, closeErr, console.Err())
}

func printerOptions(f flags) []printer.Option {
	var options []printer.Option
	if f.plain {
		options = append(options, printer.WithPlain())
	}
	if f.compact {
		options = append(options, printer.WithCompact())
	}
	if f.ascii {
		options = append(options, printer.WithASCII())
	}
	if f.previews {
		options = append(options, printer.WithPreviews())
	}
	return options
}

func stateOptions(f flags, records *bus.Bus) []state.Option {
	options := []state.Option{
		state.WithPublisher(records),
		state.WithMetadata(snapshot.Metadata{Pipeline: "quickstart", Description: f.question}),
	}
	if f.previews {
		options = append(options, state.WithPayloads())
	}
	return options
}

// interruptOnSignal interrupts the run on Ctrl-C until stop is called.
func interruptOnSignal(st *state.ExecutionState) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-signals:
			st.Interrupt(snapshot.Stop{By: "terminal", Message: "Ctrl-C or a request to end (" + s.String() + ")"})
			signal.Reset() // a second signal ends the process
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}
