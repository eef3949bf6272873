package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/streamer"
)

// The runs of the benchmark: their number, the number of words in each answer, and wordEvery, the
// time between two words, which is typical of a fast model.
const (
	watchedRuns = 200
	words       = 100
	wordEvery   = 20 * time.Millisecond
)

// followRuns follows all runs of a service until they end, with or without deltas.
func followRuns(args ...string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: watchedRuns}}
	var following sync.WaitGroup
	for n := range watchedRuns {
		following.Go(func() {
			c := &streamer.Client{
				URL: args[0], HTTPClient: client, Run: fmt.Sprint("run-", n), Deltas: args[1] == "true", UntilEnd: true,
				Connected: func() { fmt.Println("connected") },
			}
			for range c.Events(context.Background()) {
			}
		})
	}
	following.Wait()
	return nil
}

// serveModels serves a model until its standard input ends. The model streams its answers if it is
// asked to.
func serveModels(...string) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/v1\n", listener.Addr())
	s := &http.Server{Handler: http.HandlerFunc(answerWords), ReadHeaderTimeout: time.Second}
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	_ = s.Serve(listener)
	return nil
}

func answerWords(w http.ResponseWriter, req *http.Request) {
	var in struct{ Stream bool }
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !in.Stream {
		w.Header().Set("Content-Type", "application/json")
	}
	text := ""
	every := time.NewTicker(wordEvery)
	defer every.Stop()
	for range words {
		<-every.C
		if text += "word "; in.Stream {
			fmt.Fprintf(w, "data: %s\n\n", `{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}`)
			_ = http.NewResponseController(w).Flush()
		}
	}
	if in.Stream {
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", `{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		return
	}
	fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
}
