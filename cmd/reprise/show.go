package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot"
)

func (a *app) showCommand() *cobra.Command {
	var previews, ascii bool
	var redact redaction
	cmd := &cobra.Command{
		Use:     "show RUN",
		GroupID: groupLook,
		Short:   "Show a run as it happened",
		Long: "Show a run as the printer shows it while it runs, with every attempt, followed by a\n" +
			"summary. With --json: the info of the run and its records. Texts are shown as they\n" +
			"were recorded, even if the program redacts them when it shows them\n" +
			"(state.WithRedaction); use --redact for that.",
		Example: "  reprise show weather-42\n" +
			"  reprise show weather-42 --previews\n" +
			"  reprise show weather-42 --redact 'tok_[a-z0-9]+'\n" +
			"  reprise show weather-42 --json",
		Args: exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, found, err := a.load(cmd.Context(), args[0])
			if err != nil {
				return err
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
			return a.show(cmd.Context(), found, printer.New(a.out, options...))
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	cmd.Flags().BoolVar(&previews, "previews", false, "show inputs and outputs, if they were kept")
	cmd.Flags().BoolVar(&ascii, "ascii", false, "plain ASCII instead of symbols")
	redact.flag(cmd)
	return cmd
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
	if found.Status == snapshot.StatusFailed && found.Program != "" {
		a.printf("to try again what failed: %s retry %s\n", a.command, printable(found.RunID))
	}
	return nil
}
