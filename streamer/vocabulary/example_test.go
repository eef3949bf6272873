package vocabulary_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/vocabulary"
)

func Example() {
	words := vocabulary.Vocabulary(vocabulary.NoETL).With(func(r record.Record, events []vocabulary.Event) []vocabulary.Event {
		if r.Kind == record.KindRun && r.Status == record.StatusCompleted {
			return append(events, vocabulary.Event{Name: "execution_completed"})
		}
		return events
	})
	b := bus.New()
	b.Subscribe(words.Subscriber(func(e vocabulary.Event) { fmt.Println(e.Name) }))

	st := state.New(state.WithPublisher(b), state.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	attempts := 0
	fetch := decorators.Tool("fetch_data", "Fetch data.", func(context.Context, struct{}) (string, error) {
		if attempts++; attempts < 2 {
			return "", &httperror.Error{Code: 503}
		}
		return "data", nil
	})
	if _, err := fetch.Call(st.Context(context.Background()), struct{}{}); err != nil {
		fmt.Println(err)
	}
	_ = st.Close()
	b.Close()
	// Output:
	// action_started
	// action_error
	// step_retry
	// action_started
	// action_completed
	// step_completed
	// execution_completed
}
