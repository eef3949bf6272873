package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
)

// assistant is the agent of the chat. Its model is a script that emits one word at a
// time; replace it with openai.New.
var assistant = actors.NewAgent("assistant", actors.NewLLM("script", func(ctx context.Context, req actors.Request) (actors.Response, error) {
	asked := req.Messages[len(req.Messages)-1].Text
	answer := fmt.Sprintf("You have sent %d messages so far. The last one was %q. I am a script and cannot say more about it.", countUserMessages(req.Messages), asked)
	for _, word := range strings.SplitAfter(answer, " ") {
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		select {
		case <-time.After(wordTime):
		case <-ctx.Done():
			return actors.Response{}, context.Cause(ctx)
		}
	}
	return actors.Response{Message: actors.Assistant(answer)}, nil
}))

// wordTime is the time the script takes for a word.
const wordTime = 100 * time.Millisecond

// countUserMessages returns the number of messages from the user.
func countUserMessages(messages []actors.Message) (n int) {
	for _, m := range messages {
		if m.Role == actors.RoleUser {
			n++
		}
	}
	return n
}

//go:embed chat.html
var chatPage []byte

// serveChat serves the chat page, which uses the public HTTP API.
func serveChat(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(chatPage)
}
