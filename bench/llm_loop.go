package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	goopenai "github.com/sashabaranov/go-openai"
)

// agentGoOpenAI returns a function that runs a hand-written agent loop.
func agentGoOpenAI(url string, client *http.Client) func() error {
	c := goOpenAIClient(url, client)
	tools := []goopenai.Tool{{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{
		Name: "add", Description: "Adds a number.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`),
	}}}
	return func() error {
		messages := goOpenAIQuestion.Messages[:len(goOpenAIQuestion.Messages):len(goOpenAIQuestion.Messages)]
		for range agentTurns {
			reply, err := c.CreateChatCompletion(context.Background(), goopenai.ChatCompletionRequest{Model: "m", Messages: messages, Tools: tools})
			if err != nil {
				return err
			}
			message := reply.Choices[0].Message
			if len(message.ToolCalls) == 0 {
				return checkText(message.Content)
			}
			messages = append(messages, message)
			for _, call := range message.ToolCalls {
				var in addend
				if err := json.Unmarshal([]byte(call.Function.Arguments), &in); err != nil {
					return err
				}
				messages = append(messages, goopenai.ChatCompletionMessage{Role: "tool", ToolCallID: call.ID, Content: fmt.Sprint(in.N + 1)})
			}
		}
		return errOtherText
	}
}
