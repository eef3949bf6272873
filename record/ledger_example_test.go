package record_test

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A program that displays records gets the state of the calls from a ledger.
func ExampleLedger() {
	address, err := record.ParseAddress("agent/pay")
	if err != nil {
		fmt.Println(err)
		return
	}
	began := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var ledger record.Ledger
	for i, r := range []record.Record{
		{Kind: record.KindRun, Status: record.StatusStarted},
		{Kind: record.KindTool, Address: address, Status: record.StatusStarted},
		{Kind: record.KindTool, Address: address, Status: record.StatusFailed, Stage: record.StageHandler, WillRetry: true, Delay: time.Minute},
		{Kind: record.KindTool, Address: address, Status: record.StatusRetrying, Attempt: 1, Delay: time.Minute},
	} {
		r.Seq, r.Generation, r.Time = uint64(i)+1, 1, began.Add(time.Duration(i)*time.Second)
		change := ledger.Add(&r)
		if change.Call != nil {
			fmt.Println(change.Call.Address, change.Call.State)
		}
	}
	counts := ledger.Counts()
	fmt.Println("waiting:", counts.All().Waiting, "attempts:", counts.Attempts)
	// Output:
	// agent/pay running
	// agent/pay waiting
	// agent/pay waiting
	// waiting: 1 attempts: 1
}
