package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/internal/durable"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Export formats.
const (
	formatLines    = "jsonl"
	formatDocument = "json"
	formatMsgpack  = "msgpack"
)

func (a *app) exportCommand() *cobra.Command {
	var format, file string
	var redact redaction
	cmd := &cobra.Command{
		Use:     "export RUN",
		GroupID: groupInspect,
		Short:   "Write a run for other programs",
		Long: "Write a run for other programs: its records as lines of JSON (jsonl), or the whole run\n" +
			"as one document (json, or msgpack, which import reads). In JSON, inputs and outputs are\n" +
			"previews of at most 500 characters; msgpack has them in full, except artifacts. The\n" +
			"store keeps unredacted text, even if the program redacts it for display; use --redact\n" +
			"to redact the output.",
		Example: "  reprise export weather-42 | jq 'select(.execution_status == \"failed\")'\n" +
			"  reprise export weather-42 --format json -o weather-42.json\n" +
			"  reprise export weather-42 --format msgpack -o weather-42.run",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch format {
			case formatLines, formatDocument, formatMsgpack:
			default:
				return usageErrorf("--format %q: want jsonl, json or msgpack", printable(format))
			}
			if format == formatMsgpack && redact.rules != nil {
				return usageErrorf("--format msgpack writes a complete run, and --redact would remove values from it: use one or the other")
			}
			_, run, found, err := a.loadRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			redact.apply(found)
			return a.export(file, func(w io.Writer) error { return writeRun(cmd.Context(), w, run, found, format) })
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	cmd.Flags().StringVar(&format, "format", formatLines, "the `format`: jsonl, json or msgpack")
	cmd.Flags().StringVarP(&file, "output", "o", "", "the `file` to write; only its owner can read a new one; - is stdout")
	redact.flag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{formatLines, formatDocument, formatMsgpack}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// export calls write to write a run to a file, or to stdout.
func (a *app) export(file string, write func(io.Writer) error) error {
	if file == "" || file == "-" {
		return write(a.out)
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return exportTo(file, write) // a pipe or a device
	}
	return durable.WriteFile(file, write) // the run may be deleted as soon as it is exported
}

func exportTo(file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	return errors.Join(err, f.Close())
}

// document is the JSON form of a run.
type document struct {
	snapshot.Info
	Records []record.Record `json:"records"`
}

func documentOf(found *snapshot.Snapshot) document {
	return document{found.Info, append([]record.Record{}, found.Records...)}
}

// writeRun writes a run in the given format. In msgpack, it writes the records as they are stored,
// since those of a newer version may have fields that this version does not know.
func writeRun(ctx context.Context, w io.Writer, run *snapshot.Run, found *snapshot.Snapshot, format string) error {
	if format == formatMsgpack {
		data, err := run.Encode()
		if err != nil {
			return err
		}
		return writeError(w.Write(data))
	}
	encoder := json.NewEncoder(w)
	if format == formatDocument {
		encoder.SetIndent("", "  ")
		data, err := json.Marshal(documentOf(found))
		if err != nil {
			return err
		}
		return writeError(0, encoder.Encode(json.RawMessage(data)))
	}
	for i := range found.Records {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		line, err := json.Marshal(found.Records[i])
		if err != nil {
			return err
		}
		if err := writeError(w.Write(append(line, '\n'))); err != nil {
			return err
		}
	}
	return nil
}

// writeError marks a write error as an output error.
func writeError(_ int, err error) error {
	if err != nil {
		return &outputError{err}
	}
	return nil
}
