package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func main() {
	dir := flag.String("dir", "chat-data", "the `directory` in which conversations are stored")
	id := flag.String("id", "chat", "the `name` of the conversation")
	model := flag.String("model", "gpt-4o-mini", "the model to use if OPENAI_API_KEY is set")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "chat: unexpected argument %q; only flags are accepted; see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *id, *model, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

// run reads questions line by line and answers them until the input or ctx ends.
func run(ctx context.Context, dir, id, model string, in io.Reader, out io.Writer) error {
	llm, err := connect(model)
	if err != nil {
		return err
	}
	defer llm.Close()
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	chat, err := conversation.Open(ctx, store, id, assistant(llm.actor), conversation.WithMaxMessages(40))
	if err != nil {
		return err
	}
	if n := chat.Turns(); n > 0 {
		fmt.Fprintf(out, "(earlier turns of this conversation: %d)\n", n)
	}
	if prompt, pending := chat.Pending(); pending {
		fmt.Fprintf(out, "> %s\n", prompt.Text)
		if err := show(ctx, out, chat.Continue); err != nil {
			return end(ctx, err)
		}
	}
	lines := make(chan string)
	go read(in, lines)
	for {
		fmt.Fprint(out, "> ")
		select {
		case <-ctx.Done():
			fmt.Fprintln(out)
			return nil
		case line, more := <-lines:
			if !more {
				fmt.Fprintln(out)
				return nil
			}
			if line == "" {
				continue
			}
			ask := func(ctx context.Context) (actors.Answer, error) { return chat.Ask(ctx, line) }
			if err := show(ctx, out, ask); err != nil {
				return end(ctx, err)
			}
		}
	}
}

// end returns the error with which the program ends. An interrupt is not an error.
func end(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, core.ErrInterrupted) {
		return nil
	}
	return err
}

// read sends the lines of in to the channel lines. It runs until the program ends.
func read(in io.Reader, lines chan<- string) {
	defer close(lines)
	for scanner := bufio.NewScanner(in); scanner.Scan(); {
		lines <- scanner.Text()
	}
}

// show executes a turn and writes the answer as it is generated. A retry starts a new
// line.
func show(ctx context.Context, out io.Writer, turn func(context.Context) (actors.Answer, error)) error {
	shown := false
	ctx = live.Watch(ctx, func(d live.Delta) {
		switch d.Part {
		case live.PartBegin:
			if d.Attempt > 0 {
				fmt.Fprintln(out)
			}
		case live.PartText:
			shown = true
			fmt.Fprint(out, d.Text)
		}
	})
	answer, err := turn(ctx)
	if err == nil && !shown {
		fmt.Fprint(out, answer.Text) // recalled from an earlier process
	}
	fmt.Fprintln(out)
	return err
}

type nothing struct{}

// assistant returns the agent. Its instructions are computed for each turn.
func assistant(llm actors.LLM) conversation.Agent {
	clock := decorators.Tool("clock", "The time of day.", func(context.Context, nothing) (string, error) {
		return time.Now().Format("15:04"), nil
	})
	return actors.NewAgent("assistant", llm, actors.WithTools(clock),
		actors.WithInstructionsFunc(func(context.Context, actors.Prompt) (string, error) {
			return "Answer in one sentence. Today is " + time.Now().Format("Monday, 2 January 2006") + ".", nil
		}))
}
