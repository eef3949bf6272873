package streamer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// A run is published to the handler, and a client in another program follows
// it to its end.
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

	client := streamer.Client{URL: server.URL + "/runs/events?run=demo"}
	for event, err := range client.Events(ctx) {
		if err != nil {
			panic(err)
		}
		var call struct {
			Name  string `json:"name"`
			Error string `json:"original_error"`
		}
		if err := event.Decode(&call); err != nil {
			panic(err)
		}
		fmt.Printf("%s %q %q\n", event.Name, call.Name, call.Error)
		if event.Name == "run_completed" {
			break
		}
	}
	if err := dash.Close(ctx); err != nil {
		panic(err)
	}
	// Output:
	// run_started "" ""
	// started "fetch" ""
	// failed "fetch" "connection lost"
	// retrying "fetch" "connection lost"
	// started "fetch" ""
	// completed "fetch" ""
	// run_completed "" ""
}
