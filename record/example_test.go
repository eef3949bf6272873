package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// A publisher reads the records of a run as they are appended.
func Example() {
	fetch, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "fetch"},
		func(_ context.Context, key string) (string, error) {
			return "", errors.New("not allowed: " + key)
		})
	if err != nil {
		panic(err)
	}
	st := state.New(state.WithPublisher(outcomes{}))
	defer st.Close()
	_, _ = fetch.Event().Execute(st.Context(context.Background()), "sk-123")
	// Output:
	// fetch failed: permanent, unknown, not allowed: [secret]
}

// outcomes prints how calls end.
type outcomes struct{}

func (outcomes) Publish(r record.Record) {
	if !r.IsOutcome() {
		return
	}
	r = r.Redacted(func(text string) string { return strings.ReplaceAll(text, "sk-123", "[secret]") })
	fmt.Printf("%v %v: %v, %v, %v\n", r.Address, r.Status, r.Reason, r.Class, r.Err)
}

// A record can be restored from its JSON.
func ExampleRecord_MarshalJSON() {
	data, err := json.Marshal(record.Record{RunID: "r", Seq: 1, Kind: record.KindTool, Status: record.StatusStarted, Name: "fetch"})
	if err != nil {
		panic(err)
	}
	var r record.Record
	err = json.Unmarshal(data, &r)
	fmt.Println(r.Kind, r.Name, r.Status, err)
	// Output: tool_call fetch started <nil>
}
