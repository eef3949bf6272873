package storekit_test

import (
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The life of a run in a store.
func Example() {
	info := storekit.NewInfo("weather-42", &snapshot.OpenOptions{Create: true})

	_, info, _ = storekit.OpenedInfo(info, &snapshot.OpenOptions{Owner: "host-1"})
	fmt.Println(info.Status, info.Generation, info.Open)

	info = storekit.CrashedInfo(info) // its process has ended
	fmt.Println(info.Status, info.Stop)

	restored, info, _ := storekit.OpenedInfo(info, &snapshot.OpenOptions{Owner: "host-2"})
	fmt.Println(restored.Status, info.Status, info.Generation)

	info = storekit.ClosedInfo(info, snapshot.End{Status: snapshot.StatusCompleted})
	fmt.Println(info.Status, info.Generation, info.Open)

	page, err := storekit.Page(snapshot.Filter{Limit: 10}, []snapshot.Info{info})
	fmt.Println(len(page.Runs), page.Next == "", err)
	// Output:
	// running 1 true
	// interrupted crash
	// interrupted running 2
	// completed 2 false
	// 1 true <nil>
}
