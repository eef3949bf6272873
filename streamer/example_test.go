package streamer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// A run is published to the handler, and a client in another program follows the run to its end.
func Example() {
	dash, err := streamer.New(nil, streamer.Options{})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/runs/", http.StripPrefix("/runs", dash))
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	tries := 0
	fetch := decorators.Tool("fetch", "fetches", func(context.Context, struct{}) (string, error) {
		if tries++; tries == 1 {
			return "", core.Retryable(errors.New("connection lost"))
		}
		return "done", nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	st := state.New(state.WithRunID("demo"), state.WithPublisher(dash))
	if _, err := fetch.Call(st.Context(ctx), struct{}{}); err != nil {
		panic(err)
	}
	if err := st.Close(); err != nil {
		panic(err)
	}

	client := streamer.Client{URL: server.URL + "/runs/", Run: "demo", UntilEnd: true}
	for event, err := range client.Events(ctx) {
		if err != nil {
			panic(err)
		}
		rec, err := event.Record()
		if err != nil {
			panic(err)
		}
		fmt.Println(rec.Seq, event.Name, rec.Name, rec.Err)
	}
	if err := dash.Close(ctx); err != nil {
		panic(err)
	}
	// Output:
	// 1 run_started  <nil>
	// 2 started fetch <nil>
	// 3 failed fetch connection lost
	// 4 retrying fetch connection lost
	// 5 started fetch connection lost
	// 6 completed fetch <nil>
	// 7 run_completed  <nil>
}

// What a model says is shown as it arrives, on the page and to clients that
// ask for it.
func ExampleHandler_PublishDelta() {
	dash, err := streamer.New(nil, streamer.Options{})
	if err != nil {
		panic(err)
	}
	site := httptest.NewServer(dash)
	defer site.Close()

	shown := make(chan struct{})
	model := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: "It is 4 °C"}) // as openai.New does for each piece of an answer
		<-shown
		return actors.Response{Message: actors.Assistant("It is 4 °C in Oslo.")}, nil
	})
	st := state.New(state.WithRunID("demo"), state.WithPublisher(dash))
	ended := make(chan error)
	go func() {
		_, err := model.Call(live.Watch(st.Context(context.Background()), dash.PublishDelta), actors.Request{})
		ended <- errors.Join(err, st.Close())
	}()

	client := streamer.Client{URL: site.URL, Run: "demo", Deltas: true, UntilEnd: true}
	for event, err := range client.Events(context.Background()) {
		if err != nil {
			panic(err)
		}
		delta, err := event.Delta()
		if err != nil { // the event has a record
			fmt.Println(event.Name)
			continue
		}
		if delta.Part == live.PartText {
			fmt.Println(delta.Address, "says:", delta.Text)
			close(shown)
		}
	}
	if err := errors.Join(<-ended, dash.Close(context.Background())); err != nil {
		panic(err)
	}
	// Output:
	// run_started
	// started
	// model says: It is 4 °C
	// completed
	// run_completed
}
