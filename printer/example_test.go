package printer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// fetching returns the records of a call that fails and then succeeds, as a run would
// publish them.
func fetching() []record.Record {
	address, err := record.ParseAddress("fetch_data")
	if err != nil {
		panic(err)
	}
	started := record.Record{
		RunID: "weather-42", Address: address, Name: "fetch_data",
		Kind: record.KindTool, Status: record.StatusStarted, MaxAttempts: 3,
	}
	failed := started
	failed.Status, failed.Err = record.StatusFailed, errors.New("Connection timeout")
	failed.WillRetry, failed.Delay = true, 2*time.Second
	failed.Duration = 500 * time.Millisecond
	retrying := failed
	retrying.Status, retrying.WillRetry, retrying.Duration, retrying.Detail = record.StatusRetrying, false, 0, nil
	retrying.Attempt++
	again := started
	again.Attempt, again.Time = 1, retrying.NextAttemptAt()
	completed := again
	completed.Status, completed.Elapsed = record.StatusCompleted, 3*time.Second
	return []record.Record{started, failed, retrying, again, completed}
}

// Lines are written as soon as their events happen.
func Example() {
	p := printer.New(os.Stdout)
	for _, r := range fetching() {
		p.Publish(r)
	}
	p.PrintSummary()
	// Output:
	// 🔧 fetch_data [STARTED]
	// ✖ fetch_data [FAILED] (0.5s) - Connection timeout
	//   ↻ Retrying (attempt 2/3) in 2.0s...
	// 🔧 fetch_data [STARTED] (retry 2/3)
	// ✔ fetch_data [COMPLETED after 2 attempts] (3.0s total)
	//   ↻ Recovered after 1 retry
	// 📊 SUMMARY
	// ├─ Calls: 1 (tools 1)
	// ├─ Completed: 1 (tools 1)
	// ├─ Failed: 0
	// ├─ Attempts: 2
	// └─ Time waiting: 2.0s (added up over calls)
	//
	// 📊 RETRY STATISTICS
	// ├─ Total events with retries: 1
	// ├─ Succeeded after retry: 1 (100%)
	// ├─ Failed after all retries: 0 (0%)
	// ├─ Total retry attempts: 1
	// └─ Avg retries per event: 1.0
}

// If a call recovers, only its first and last lines are written.
func ExampleWithCompact() {
	p := printer.New(os.Stdout, printer.WithCompact())
	for _, r := range fetching() {
		p.Publish(r)
	}
	// Output:
	// 🔧 fetch_data [STARTED]
	// ✔ fetch_data [COMPLETED after 2 attempts] (3.0s total)
	//   ↻ Recovered after 1 retry
}

func ExampleWithASCII() {
	p := printer.New(os.Stdout, printer.WithASCII())
	for _, r := range fetching() {
		p.Publish(r)
	}
	// Output:
	// * fetch_data [STARTED]
	// x fetch_data [FAILED] (0.5s) - Connection timeout
	//   ~ Retrying (attempt 2/3) in 2.0s...
	// * fetch_data [STARTED] (retry 2/3)
	// + fetch_data [COMPLETED after 2 attempts] (3.0s total)
	//   ~ Recovered after 1 retry
}

// The writer is a remote shell session, which is not a file. Control sequences are left out of the
// output below.
func ExampleWithTerminal() {
	var session strings.Builder
	p := printer.New(&session, printer.WithASCII(),
		printer.WithTerminal(func() (columns, rows int) { return 80, 24 }))
	defer p.Close()
	for _, r := range fetching() {
		p.Publish(r)
	}
	fmt.Println(strings.ReplaceAll(withoutSequences(session.String()), "\r", ""))
	// Output:
	// * fetch_data [STARTED]
	// + fetch_data [COMPLETED after 2 attempts] (3.0s total)
	//   ~ Recovered after 1 retry
}

// The program prints through the printer, so its output appears above live lines and
// between other lines.
func ExamplePrinter_Write() {
	p := printer.New(os.Stdout)
	defer p.Close()
	records := fetching()
	p.Publish(records[0])
	fmt.Fprintln(p, "the program prints this")
	for _, r := range records[1:] {
		p.Publish(r)
	}
	// Output:
	// 🔧 fetch_data [STARTED]
	// the program prints this
	// ✖ fetch_data [FAILED] (0.5s) - Connection timeout
	//   ↻ Retrying (attempt 2/3) in 2.0s...
	// 🔧 fetch_data [STARTED] (retry 2/3)
	// ✔ fetch_data [COMPLETED after 2 attempts] (3.0s total)
	//   ↻ Recovered after 1 retry
}

// A run publishes its records to the printer, which shows live lines if standard error
// is a terminal.
func Example_run() {
	p := printer.New(os.Stderr)
	defer p.Close()
	st := state.New(state.WithPublisher(p))
	defer st.Close()
	greet := decorators.Agent("greet", "Greets.", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	fmt.Println(greet.Call(st.Context(context.Background()), "Ada"))
	fmt.Println(p.Summary().Agents.Completed)
	// Output:
	// Hello, Ada <nil>
	// 1
}

// A model's answer is shown as it is generated, below the live line of its call.
func ExamplePrinter_PublishDelta() {
	p := printer.New(os.Stderr)
	defer p.Close()
	st := state.New(state.WithPublisher(p))
	defer st.Close()
	model := decorators.LLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		for _, word := range []string{"It ", "is ", "warm."} {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: "It is warm."}}, nil
	})
	ctx := live.Watch(st.Context(context.Background()), p.PublishDelta)
	answer, err := model.Call(ctx, actors.Request{})
	fmt.Println(answer.Message.Text, err)
	// Output:
	// It is warm. <nil>
}

// Records are written to a logger, here without times and without debug records.
func ExampleNewLog() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	l := printer.NewLog(slog.New(handler))
	for _, r := range fetching() {
		l.Publish(r)
	}
	// Output:
	// level=WARN msg="tool call failed" run_id=weather-42 address=fetch_data name=fetch_data event_type=tool_call execution_status=failed retry_attempt=0 will_retry=true execution_time=0.5 original_error="Connection timeout"
}

func ExampleHowToAnswer() {
	words, commands := printer.HowToAnswer("refund-7", core.Question{
		ID:     "agent/refund?1",
		Schema: []byte(`{"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}`),
	})
	fmt.Println(words)
	fmt.Println("reprise", commands[0])
	// Output:
	// an object with approved (true or false)
	// reprise answer refund-7 'agent/refund?1' '{"approved": true}'
}
