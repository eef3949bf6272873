package aisdk_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A service answers what useChat posts.
func Example() {
	assistant := actors.NewAgent("assistant", actors.NewLLM("script", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("Hello, Ann.")}, nil
	}))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, served := make(chan string), make(chan error)
	go func() {
		o := service.Options{Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}
		served <- service.Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, conversation.NewProgram(r.Store(), assistant))
			return nil
		})
	}()
	resp, err := http.Post(<-ready+"chat/assistant", "application/json", strings.NewReader(
		`{"id": "ann", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "I am Ann."}]}]}`))
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if lines.Text() != "" {
			fmt.Println(lines.Text())
		}
	}
	_ = resp.Body.Close()
	stop()
	fmt.Println(<-served)
	// Output:
	// data: {"type":"start","messageId":"ann-0001"}
	// data: {"type":"start-step"}
	// data: {"type":"text-start","id":"1"}
	// data: {"type":"text-delta","id":"1","delta":"Hello, Ann."}
	// data: {"type":"text-end","id":"1"}
	// data: {"type":"finish-step"}
	// data: {"type":"finish","finishReason":"stop"}
	// data: [DONE]
	// <nil>
}
