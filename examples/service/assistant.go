package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/live"
)

// assistant is what one chats with. Its model is a script that speaks a word at a time: put
// openai.New in its place.
var assistant = actors.NewAgent("assistant", actors.NewLLM("script", "", func(ctx context.Context, req actors.Request) (actors.Response, error) {
	asked := req.Messages[len(req.Messages)-1].Text
	answer := fmt.Sprintf("You have said %d things so far. The last was %q, and that is all that a script can say about it.", spoken(req.Messages), asked)
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

// wordTime is how long the script takes for a word.
const wordTime = 100 * time.Millisecond

// spoken is how many messages are the user's.
func spoken(messages []actors.Message) (n int) {
	for _, m := range messages {
		if m.Role == actors.RoleUser {
			n++
		}
	}
	return n
}

//go:embed chat.html
var chatPage []byte

// serveChat serves the page of the chat. It uses the API as any other page.
func serveChat(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(chatPage)
}
