package agui_test

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

// A service answers a RunAgentInput.
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
	resp, err := http.Post(<-ready+"agui/assistant", "application/json", strings.NewReader(
		`{"threadId": "ann", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "I am Ann."}]}`))
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
	// data: {"type":"RUN_STARTED","threadId":"ann","runId":"r1","protocolVersion":"1.0"}
	// data: {"type":"TEXT_MESSAGE_START","messageId":"ann-0001/1.1","role":"assistant"}
	// data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"ann-0001/1.1","delta":"Hello, Ann."}
	// data: {"type":"TEXT_MESSAGE_END","messageId":"ann-0001/1.1"}
	// data: {"type":"RUN_FINISHED","threadId":"ann","runId":"r1","outcome":{"type":"success"}}
	// <nil>
}
