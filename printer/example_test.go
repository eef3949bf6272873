package printer_test

import (
	"errors"
	"os"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
)

// A run publishes records like these to its publisher; here they are written
// by hand.
func Example() {
	p := printer.New(os.Stdout)

	address, err := core.ParseAddress("fetch_data")
	if err != nil {
		panic(err)
	}
	r := core.Record{
		RunID: "weather-42", Address: address, Name: "fetch_data",
		Kind: core.KindTool, Status: core.StatusStarted, MaxAttempts: 3,
	}
	p.Publish(r)

	failed := r
	failed.Status, failed.Err = core.StatusFailed, errors.New("Connection timeout")
	failed.WillRetry, failed.Delay = true, 2*time.Second
	failed.Duration = 500 * time.Millisecond
	p.Publish(failed)
	failed.Retry()
	p.Publish(failed)

	r.Attempt, r.Time = 1, failed.NextAttemptAt()
	p.Publish(r)
	r.Status, r.Elapsed = core.StatusCompleted, 3*time.Second
	p.Publish(r)

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
	// └─ Time waiting: 2.0s
	//
	// 📊 RETRY STATISTICS
	// ├─ Total events with retries: 1
	// ├─ Succeeded after retry: 1 (100%)
	// ├─ Failed after all retries: 0 (0%)
	// ├─ Total retry attempts: 1
	// └─ Avg retries per event: 1.0
}
