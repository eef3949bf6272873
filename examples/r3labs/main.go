package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/r3labs/sse/v2"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/r3labs"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintf(os.Stderr, "r3labs: unexpected argument %q; want none\n", os.Args[1])
		os.Exit(2)
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "r3labs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// The existing server of the program, with its own stream.
	server := sse.New()
	defer server.Close()
	server.AutoReplay = false // otherwise the server would store all runs forever
	var connected sync.WaitGroup
	connected.Add(2)
	server.OnSubscribe = func(string, *sse.Subscriber) { connected.Done() }
	server.CreateStream("orders")

	// Add the runs. The guard must serve the requests: without it, a client that stops reading
	// would block all other clients of a stream.
	guard := r3labs.Guard(server, 10*time.Second)
	pub, err := r3labs.New(server, r3labs.Options{Guard: guard})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	site := &http.Server{Handler: guard, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- site.Serve(listener) }()
	url := "http://" + listener.Addr().String() + "/sse"
	fmt.Printf("Runs are at %s?stream=runs, one of them at %s?stream=prices-oslo.\n", url, url)

	watching, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	ended := make(chan string, 2)
	for _, stream := range []string{"orders", "runs"} {
		clients.Go(func() { watch(watching, url, stream, ended) })
	}
	connected.Wait()

	server.Publish("orders", &sse.Event{Event: []byte("order"), Data: []byte(`{"order":"4711"}`)})
	var runs sync.WaitGroup
	for _, city := range []string{"oslo", "riga"} {
		runs.Go(func() { fetchPrice(ctx, pub, city) })
	}
	runs.Wait()
	for range 2 {
		fmt.Printf("%s has ended.\n", <-ended)
	}
	stop()
	clients.Wait()
	err = pub.Close(ctx)
	return errors.Join(err, site.Close(), ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// watch prints the events of a stream, using the library's client.
func watch(ctx context.Context, url, stream string, ended chan<- string) {
	err := sse.NewClient(url).SubscribeWithContext(ctx, stream, func(e *sse.Event) {
		var rec struct {
			RunID string  `json:"run_id"`
			Name  string  `json:"name"`
			Error string  `json:"original_error"`
			Delay float64 `json:"retry_delay"`
		}
		if err := json.Unmarshal(e.Data, &rec); err != nil {
			fmt.Fprintln(os.Stderr, "r3labs:", stream, err)
			return
		}
		switch event := string(e.Event); event {
		case "retrying":
			fmt.Printf("%s: %s failed with %q and will be retried in %.1f s\n", rec.RunID, rec.Name, rec.Error, rec.Delay)
		case "completed":
			fmt.Printf("%s: %s is done\n", rec.RunID, rec.Name)
		case "order":
			fmt.Printf("an order of the program: %s\n", e.Data)
		case "run_completed", "run_failed":
			ended <- rec.RunID
		}
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "r3labs:", err)
	}
}

// City is the input of the tool.
type City struct {
	Name string `json:"name"`
}

// fetchPrice executes a run whose tool fails twice.
func fetchPrice(ctx context.Context, pub *r3labs.Publisher, city string) {
	attempts := 0
	fetch := decorators.Tool("fetch_price", "Fetches the price of a city.", func(context.Context, City) (int, error) {
		if attempts++; attempts < 3 {
			return 0, core.Retryable(errors.New("the price service is down"))
		}
		return 42, nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: 300 * time.Millisecond}))
	st := state.New(state.WithRunID("prices-"+city), state.WithPublisher(pub))
	if _, err := fetch.Call(st.Context(ctx), City{city}); err != nil {
		fmt.Fprintln(os.Stderr, "r3labs:", err)
	}
	if err := st.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "r3labs:", err)
	}
}
