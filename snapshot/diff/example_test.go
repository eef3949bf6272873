package diff_test

import (
	"fmt"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/diff"
)

func Example() {
	fetch, err := record.ParseAddress("assistant/fetch")
	if err != nil {
		panic(err)
	}
	before := &snapshot.Snapshot{
		Info:    snapshot.Info{RunID: "run", Status: snapshot.StatusInterrupted},
		Records: []record.Record{{Seq: 1, Address: fetch, Kind: record.KindTool, Status: record.StatusStarted}},
	}
	after := &snapshot.Snapshot{
		Info:    snapshot.Info{RunID: "fork", Status: snapshot.StatusCompleted},
		Records: []record.Record{{Seq: 1, Address: fetch, Kind: record.KindTool, Status: record.StatusCompleted}},
	}
	fmt.Println(diff.Compare(before, after))
	// Output:
	// ~ status "interrupted" → "completed"
	// ~ tool_call assistant/fetch started → completed
}
