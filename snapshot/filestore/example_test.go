package filestore_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	store, err := filestore.New(dir)
	if err != nil {
		panic(err)
	}
	j, err := store.Open(ctx, "weather-42", snapshot.OpenOptions{Create: true})
	if err != nil {
		panic(err)
	}
	_, err = store.Open(ctx, "weather-42", snapshot.OpenOptions{})
	fmt.Println(err != nil, "the run is open already")

	started := record.Record{Seq: 1, Time: time.Now().UTC(), Name: "get_weather", Kind: record.KindTool}
	if err := j.Append(started); err != nil {
		panic(err)
	}
	if err := j.Sync(ctx, 1); err != nil { // from now on, the record survives a power cut
		panic(err)
	}
	if err := j.Close(ctx, snapshot.End{Status: snapshot.StatusPaused}); err != nil {
		panic(err)
	}

	page, err := store.List(ctx, snapshot.Filter{Status: []snapshot.Status{snapshot.StatusPaused}})
	if err != nil {
		panic(err)
	}
	for _, run := range page.Runs {
		fmt.Println(run.RunID, run.Status, run.LastSeq)
	}
	// Output:
	// true the run is open already
	// weather-42 paused 1
}
