package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

// recordsToPrint returns the records that Print uses: calls in an agent that fail twice and then
// succeed.
func recordsToPrint() []record.Record {
	var records []record.Record
	for i := range 256 {
		r := failedAttempt(i + 2)
		r.RunID, r.MaxAttempts, r.Detail = runID, attempts, &record.Detail{}
		for r.Attempt = 0; r.Attempt < 2; {
			started := r
			started.Status, started.Err, started.WillRetry = record.StatusStarted, nil, false
			retrying := r
			retrying.Status, retrying.WillRetry, retrying.Duration, retrying.Detail = record.StatusRetrying, false, 0, nil
			retrying.Attempt++
			records = append(records, started, r, retrying)
			r.Attempt++
		}
		started, completed := r, r
		started.Status, started.Err, started.WillRetry = record.StatusStarted, nil, false
		completed.Status, completed.Err, completed.WillRetry = record.StatusCompleted, nil, false
		records = append(records, started, completed)
	}
	for i := range records {
		records[i].Seq = uint64(i + 1)
		records[i].Time = records[0].Time.Add(time.Duration(i) * time.Millisecond)
	}
	return records
}

// startPrinter prints one record after another to a file.
func startPrinter(options ...printer.Option) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		f, err := openOutput()
		if err != nil {
			return broken(err)
		}
		records, p := recordsToPrint(), printer.New(f, options...)
		return instance{
			call: func() (int, error) {
				p.Publish(records[w.calls%len(records)])
				w.calls++
				return answer, nil
			},
			stop: func() error { return errors.Join(p.Close(), f.Close()) },
		}
	}
}

// startFprintln writes the printer's plain text, one piece at a time.
func startFprintln(_ context.Context, w *work) instance {
	f, err := openOutput()
	if err != nil {
		return broken(err)
	}
	var out bytes.Buffer
	p := printer.New(&out)
	records := recordsToPrint()
	texts := make([]string, len(records))
	for i, r := range records {
		p.Publish(r)
		texts[i] = string(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
		out.Reset()
	}
	return instance{
		call: func() (int, error) {
			if text := texts[w.calls%len(texts)]; text != "" { // a wait is printed together with the failure
				if _, err := fmt.Fprintln(f, text); err != nil {
					return 0, err
				}
			}
			w.calls++
			return answer, nil
		},
		stop: f.Close,
	}
}

func openOutput() (io.WriteCloser, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, "output"))
}
