package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

const runID = "research"

func main() {
	var f flags
	flag.StringVar(&f.dir, "dir", "research-data", "the `directory` of the run and the report")
	flag.StringVar(&f.answer, "answer", "", "the answer to the question whether to publish: y, n, a reason or JSON (default: ask on the terminal)")
	flag.StringVar(&f.subject, "subject", "the history of tea", "what to write about")
	flag.StringVar(&f.model, "model", "gpt-4o-mini", "the model to use if OPENAI_API_KEY is set")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "research: unexpected argument %q; only flags are accepted; see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(context.Background(), f, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(1)
	}
}

type flags struct{ dir, answer, subject, model string }

// run starts or continues writing the report, and then prints it.
func run(ctx context.Context, f flags, in io.Reader, out, progress io.Writer) error {
	model, err := connect(f.model)
	if err != nil {
		return err
	}
	defer model.Close()
	store, err := filestore.New(f.dir)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	researcher := newResearcher(model.llm, f.dir)
	input := bufio.NewReader(in)
	for {
		console := printer.New(progress, printer.WithCommand("reprise --dir "+f.dir))
		report, err := attempt(ctx, store, researcher, Topic{f.subject}, console)
		var waiting *core.InterruptedError
		if errors.As(err, &waiting) && waiting.Question != "" {
			if err := decide(ctx, store, waiting, f.answer, input, progress); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		return write(out, report)
	}
}

// attempt starts or resumes the run.
func attempt(ctx context.Context, store snapshot.Store, researcher actors.Agent[Topic, Report], topic Topic, console *printer.Printer) (Report, error) {
	st, err := state.Open(ctx, store, runID, state.WithPublisher(console))
	if err != nil {
		return Report{}, err
	}
	report, err := researcher.Call(st.Context(ctx), topic)
	return report, errors.Join(err, st.Close(), console.Close())
}

// decide answers the question that the run waits for.
func decide(ctx context.Context, store snapshot.Store, waiting *core.InterruptedError, answer string, in *bufio.Reader, out io.Writer) error {
	if answer == "" {
		fmt.Fprintf(out, "\n%s\n[y, n, a reason, or other arguments as JSON] ", waiting.Message)
		line, err := in.ReadString('\n')
		if answer = strings.TrimSpace(line); answer == "" {
			if err == nil {
				return nil // ask again
			}
			return fmt.Errorf("%q was not answered: run the program again and answer, or use -answer", waiting.Question)
		}
	}
	err := state.Answer(ctx, store, runID, waiting.Question, "", approval(answer))
	if errors.Is(err, state.ErrAnswered) {
		return nil // a process answered it, and was killed before it could continue
	}
	return err
}

// approval converts the user's text to an answer.
func approval(answer string) actors.Approval {
	switch {
	case answer == "y" || answer == "yes":
		return actors.Approve()
	case answer == "n" || answer == "no":
		return actors.Disapprove("")
	case json.Valid([]byte(answer)):
		return actors.Approval{Approved: true, Arguments: json.RawMessage(answer)}
	}
	return actors.Disapprove(answer)
}

func write(out io.Writer, r Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.Title)
	for _, finding := range r.Findings {
		fmt.Fprintf(&b, "- %s (%s)\n", finding.Text, finding.Source)
	}
	if r.Published != "" {
		fmt.Fprintf(&b, "\nPublished as %s.\n", r.Published)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
