package openaitest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

func Example() {
	srv, err := openaitest.Start(
		openaitest.RateLimited(2*time.Second),
		openaitest.ToolCalls(openaitest.Call("get_weather", `{"city":"Oslo"}`)),
		openaitest.Text("It is 4 degrees.").WithUsage(12, 5).
			Expect(openaitest.HasToolResult("get_weather", "4")),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	config := openai.DefaultConfig("key")
	config.BaseURL = srv.URL()
	client := openai.NewClientWithConfig(config)

	question := openai.ChatCompletionRequest{
		Model:    "gpt-4o",
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "How cold is it in Oslo?"}},
	}
	ask := func() openai.ChatCompletionMessage {
		answer, err := client.CreateChatCompletion(context.Background(), question)
		var failure *openai.APIError
		if errors.As(err, &failure) {
			fmt.Println(failure.HTTPStatusCode, failure.Message)
			return openai.ChatCompletionMessage{}
		}
		question.Messages = append(question.Messages, answer.Choices[0].Message)
		return answer.Choices[0].Message
	}

	ask()
	call := ask().ToolCalls[0]
	fmt.Println(call.ID, call.Function.Name, call.Function.Arguments)
	question.Messages = append(question.Messages,
		openai.ChatCompletionMessage{Role: "tool", ToolCallID: call.ID, Content: "4"})
	fmt.Println(ask().Content)

	fmt.Println(len(srv.Requests()), "requests, error:", srv.Close())
	// Output:
	// 429 Rate limit reached. Retry-After: 2.
	// call_1 get_weather {"city":"Oslo"}
	// It is 4 degrees.
	// 3 requests, error: <nil>
}

// One step serves all conversations: its reply depends on how far each conversation has progressed.
func ExampleRespond() {
	srv, err := openaitest.Start(openaitest.Forever(openaitest.Respond(func(r openaitest.Request) openaitest.Step {
		switch results := r.ToolResults(); len(results) {
		case 0:
			return openaitest.ToolCalls(openaitest.Call("get_weather", map[string]string{"city": r.LastMessage().Content}))
		case 1:
			return openaitest.Text("It is " + results[0].Content + " degrees.")
		default:
			return openaitest.Refuse("nobody asks for the weather twice")
		}
	})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	config := openai.DefaultConfig("key")
	config.BaseURL = srv.URL()
	config.HTTPClient = &http.Client{Timeout: time.Minute}
	client := openai.NewClientWithConfig(config)

	for _, city := range []string{"Oslo", "Rome"} {
		answer, err := client.CreateChatCompletion(context.Background(), openai.ChatCompletionRequest{
			Model:    "gpt-4o",
			Messages: []openai.ChatCompletionMessage{{Role: "user", Content: city}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Choices[0].Message.ToolCalls[0].Function.Arguments)
	}
	// Output:
	// {"city":"Oslo"}
	// {"city":"Rome"}
}
