package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/internal/payload"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func (a *app) showCommand() *cobra.Command {
	var previews, ascii bool
	var input, output string
	var redact redaction
	cmd := &cobra.Command{
		Use:     "show RUN",
		GroupID: groupInspect,
		Short:   "Show the events of a run",
		Long: "Show a run in the form in which the printer shows it while it runs, with every attempt,\n" +
			"followed by a summary, and the status of a run that has not ended. With --json: the info\n" +
			"of the run and its records. The store keeps unredacted text, even if the program redacts\n" +
			"it for display (state.WithRedaction); use --redact to redact the output.",
		Example: "  reprise show weather-42\n" +
			"  reprise show weather-42 --previews\n" +
			"  reprise show weather-42 --redact 'tok_[a-z0-9]+'\n" +
			"  reprise show weather-42 --output assistant/get_weather\n" +
			"  reprise show weather-42 --json",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, found, err := a.load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("input") || cmd.Flags().Changed("output") {
				text, err := payloadOf(cmd.Context(), store, found, input, output, redact.function())
				if err != nil {
					return err
				}
				a.printf("%s\n", text)
				return nil
			}
			redact.apply(found)
			if a.json {
				return a.writeJSON(documentOf(found))
			}
			options := []printer.Option{printer.WithCommand(a.command)}
			if previews {
				options = append(options, printer.WithPreviews())
			}
			if ascii {
				options = append(options, printer.WithASCII())
			}
			if err := a.show(cmd.Context(), found, printer.New(a.out, options...)); err != nil {
				return err
			}
			return a.printStopping(cmd.Context(), store, &found.Info, &redact)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	cmd.Flags().BoolVar(&previews, "previews", false, "show inputs and outputs, if they were recorded")
	cmd.Flags().BoolVar(&ascii, "ascii", false, "use plain ASCII instead of symbols")
	cmd.Flags().StringVar(&input, "input", "", "show the complete input of the call at this `address` as JSON")
	cmd.Flags().StringVar(&output, "output", "", "show the complete output of the call at this `address` as JSON")
	cmd.MarkFlagsMutuallyExclusive("input", "output")
	redact.flag(cmd)
	return cmd
}

// payloadOf returns the input or output of a call as JSON. Exactly one of input and output is set,
// to the call's address.
func payloadOf(ctx context.Context, artifacts snapshot.ArtifactStore, found *snapshot.Snapshot, input, output string, redact func(string) string) (string, error) {
	text := cmp.Or(input, output)
	if text == "" {
		return "", usageErrorf("the address is empty; want the address of a call, such as assistant/get_weather#2")
	}
	address, err := record.ParseAddress(text)
	if err != nil {
		return "", usageErrorf("%v; want the address of a call, such as assistant/get_weather#2", err)
	}
	records := func(yield func(record.Record, error) bool) {
		for i := range found.Records {
			if !yield(found.Records[i], nil) {
				return
			}
		}
	}
	parts, ok, err := payload.Of(records, address)
	if err != nil {
		return "", err
	} else if !ok {
		return "", fmt.Errorf("run %s has no call %s", found.RunID, address)
	}
	encoded := parts.Input
	if output != "" {
		encoded = parts.Output
		if parts.Artifact != "" {
			if encoded, err = artifacts.Get(ctx, parts.Artifact); err != nil {
				return "", err
			}
		}
	}
	switch {
	case encoded == nil && output != "":
		return "", noOutputError(found, address, redact)
	case encoded == nil:
		return "", fmt.Errorf("the input of call %s of run %s was not recorded; state.WithPayloads records inputs", address, found.RunID)
	}
	text, err = record.JSON(encoded, redact)
	return escaped(text), err
}

// noOutputError returns an error saying that a call has no recorded output and, if the call failed,
// why.
func noOutputError(found *snapshot.Snapshot, address record.Address, redact func(string) string) error {
	for _, r := range slices.Backward(found.Records) {
		if !r.Kind.IsCall() || r.Address != address {
			continue
		}
		if r.IsOutcome() && r.Err != nil {
			return fmt.Errorf("call %s of run %s has no output because it failed: %w", address, found.RunID, r.Redacted(redact).Err)
		}
		break
	}
	return fmt.Errorf("call %s of run %s has no recorded output", address, found.RunID)
}

// escaped returns JSON in which control characters and invisible characters are escaped.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func (a *app) show(ctx context.Context, found *snapshot.Snapshot, p *printer.Printer) error {
	for i := range found.Records {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		p.Publish(found.Records[i])
		if err := p.Err(); err != nil {
			return &outputError{err}
		}
	}
	p.PrintSummary()
	if err := p.Err(); err != nil {
		return &outputError{err}
	}
	switch found.Status {
	case snapshot.StatusCompleted, snapshot.StatusCancelled: // the last record says so
	case snapshot.StatusFailed:
		a.printf("to retry the failed calls: %s retry %s\n", a.command, printable(found.RunID))
	default:
		a.printf("%s\n", printable(statusLine(found)))
		if hint := a.howToContinue(&found.Info); hint != "" {
			a.printf("%s\n", printable(hint))
		}
	}
	return nil
}

// printStopping prints who has asked an open run to stop.
func (a *app) printStopping(ctx context.Context, store snapshot.Inbox, info *snapshot.Info, r *redaction) error {
	asked, err := state.Stopping(ctx, store, info)
	if err != nil || asked == nil {
		return err
	}
	verb := "interrupt"
	if asked.Reason == record.InterruptCancel {
		verb = "cancel"
	}
	line := fmt.Sprintf("%s has asked to %s it", cmp.Or(asked.By, "somebody"), verb)
	if asked.Message != "" {
		line += ": " + r.text(asked.Message)
	}
	a.printf("%s\n", printable(line))
	return nil
}

// howToContinue describes how an interrupted run continues, or what ends a cancelled run. It
// returns "" for other runs, and also if the reason why the run stopped already says this.
func (a *app) howToContinue(info *snapshot.Info) string {
	switch {
	case info.Stop.Reason == record.InterruptCancel && info.Status != snapshot.StatusCancelled:
		return whoCompensates(info)
	case info.Status != snapshot.StatusInterrupted, info.Stop.Reason == record.InterruptRetry:
		return ""
	case info.Program == "":
		return "to continue it: open it again with its program"
	case info.Stop.Reason == record.InterruptCrash:
		return "to continue it: start a runner with program " + info.Program
	case info.Stop.Reason == record.InterruptDiverge:
		return fmt.Sprintf("to continue it: run a program that makes the recorded calls, and then %s resume %s; the same program would stop again", a.command, info.RunID)
	}
	return fmt.Sprintf("to continue it: %s resume %s", a.command, info.RunID)
}

// statusLine returns a line with the status of a run that has not ended, and the reason for that
// status. The records alone do not show that a process has crashed, or that somebody has changed a
// closed run.
func statusLine(found *snapshot.Snapshot) string {
	line := fmt.Sprintf("run %s is %s", found.RunID, found.Status)
	if found.Stop != (snapshot.Stop{}) {
		line += " (" + found.Stop.String() + ")"
	}
	at := found.Updated // if the run has crashed or is running, the time when it was opened
	if n := len(found.Records); n > 0 && found.Records[n-1].Time.After(at) {
		at = found.Records[n-1].Time
	}
	return line + ", as of " + timeText(at)
}
