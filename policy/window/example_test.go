package window_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/policy/window"
	"github.com/reprise-go/reprise/state"
)

// The model has room for 200 tokens, so it receives only the end of the conversation.
func Example() {
	small := actors.NewLLM("small", func(_ context.Context, req actors.Request) (actors.Response, error) {
		for _, m := range req.Messages {
			fmt.Printf("%s: %.38s\n", m.Role, m.Text)
		}
		return actors.Response{Message: actors.Assistant("Good night.")}, nil
	})
	llm := window.New("model", window.Options{Tokens: 200}, small)
	conversation := []actors.Message{actors.System("Be brief.")}
	for _, hour := range []string{"Good morning", "Good day", "Good evening"} {
		conversation = append(conversation, actors.User(hour+"!"), actors.Assistant(strings.Repeat(hour+". ", 20)))
	}
	st := state.New()
	resp, err := llm.Call(st.Context(context.Background()), actors.Request{Messages: append(conversation, actors.User("Good night!"))})
	fmt.Println(resp.Message.Text, err, st.Close())
	// Output:
	// system: Be brief.
	// user: [Earlier turns of the conversation wer
	// assistant: Good evening. Good evening. Good eveni
	// user: Good night!
	// Good night. <nil> <nil>
}
