package openaitest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

const streamed = `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"Hello"}]}`

// Clients other than this package can also read the streams.
func TestAStreamIsReadByGoOpenAI(t *testing.T) {
	srv := openaitest.New(t,
		openaitest.Text("It is 4 °C.").WithChunks("It is", " 4 °C", ".").WithReasoning("Hm, hm.").WithUsage(3, 4),
		openaitest.ToolCalls(openaitest.Call("f", `{"city":"Tromsø"}`), openaitest.Call("g", nil)),
	)
	read := func() (text, reasoning, arguments string, usage *openai.Usage, finish openai.FinishReason) {
		stream, err := goOpenAI(t, srv).CreateChatCompletionStream(t.Context(), openai.ChatCompletionRequest{
			Model: "gpt-4o", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Hello"}},
		})
		require.NoError(t, err)
		defer stream.Close()
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return text, reasoning, arguments, usage, finish
			}
			require.NoError(t, err)
			if chunk.Usage != nil {
				usage = chunk.Usage
			}
			for _, choice := range chunk.Choices {
				text += choice.Delta.Content
				reasoning += choice.Delta.ReasoningContent
				for _, call := range choice.Delta.ToolCalls {
					arguments += call.Function.Name + call.Function.Arguments
				}
				if choice.FinishReason != "" {
					finish = choice.FinishReason
				}
			}
		}
	}
	text, reasoning, _, usage, finish := read()
	require.Equal(t, []any{"It is 4 °C.", "Hm, hm.", 7, openai.FinishReasonStop}, []any{text, reasoning, usage.TotalTokens, finish})
	_, _, arguments, _, finish := read()
	require.Equal(t, `f{"city":"Tromsø"}g{}`, arguments)
	require.Equal(t, openai.FinishReasonToolCalls, finish)
}

func TestTheResponsesAPIIsReadByGoOpenAI(t *testing.T) {
	srv := openaitest.New(t, openaitest.Repeat(2, openaitest.Text("It is 4 °C.").WithUsage(3, 4)))
	reply, err := goOpenAI(t, srv).CreateResponse(t.Context(), openai.CreateResponseRequest{Model: "gpt-4o", Input: "Hello"})
	require.NoError(t, err)
	require.Equal(t, openai.ResponseStatusCompleted, reply.Status)
	stream, err := goOpenAI(t, srv).CreateResponseStream(t.Context(), openai.CreateResponseRequest{Model: "gpt-4o", Input: "Hello"})
	require.NoError(t, err)
	defer stream.Close()
	text, last := "", openai.ResponseStreamEvent{}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text += event.Delta
		last = event
	}
	require.Equal(t, "It is 4 °C.", text)
	require.Equal(t, openai.ResponseStreamEventCompleted, last.Type)
	require.Equal(t, 7, last.Response.Usage.TotalTokens)
	require.Equal(t, "/v1/responses", srv.Requests()[1].Path)
}

func TestLocalServerAnswersInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := openaitest.NewLocal(t,
			openaitest.Text("late").After(time.Hour),
			openaitest.Text("one two three").WithPace(time.Minute),
			openaitest.Text("one two three").CutAfter(2),
			openaitest.Reset(), openaitest.HangUp(), openaitest.Text("Hi").CutAfter(1),
			openaitest.Failure(503, "busy"),
		)
		send := func(body string) (int, string, error) {
			res, err := post(t.Context(), srv.Client(), srv, body)
			if err != nil {
				return 0, "", err
			}
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			return res.StatusCode, string(data), err
		}
		begin := time.Now()
		_, body, err := send(hello)
		require.NoError(t, err)
		require.Contains(t, body, "late")
		require.Equal(t, time.Hour, time.Since(begin))

		_, body, err = send(streamed)
		require.NoError(t, err)
		require.Contains(t, body, "[DONE]")
		require.Equal(t, time.Hour+4*time.Minute, time.Since(begin), "three words and their end")

		_, body, err = send(streamed)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 1, strings.Count(body, "two"))
		require.NotContains(t, body, "three")

		_, _, err = send(hello)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, _, err = send(hello)
		require.ErrorIs(t, err, io.EOF)
		_, _, err = send(hello)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		status, _, err := send(hello)
		require.NoError(t, err)
		require.Equal(t, 503, status)
		require.NoError(t, srv.Close())
		_, _, err = send(hello)
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestAClientThatStopsReadingHoldsUpNoLocalServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := openaitest.NewLocal(t, openaitest.Text("one two three"))
		res, err := post(t.Context(), srv.Client(), srv, streamed)
		require.NoError(t, err)
		require.NoError(t, srv.Close())
		_, err = io.ReadAll(res.Body)
		require.Error(t, err)
		require.NoError(t, res.Body.Close())
	})
}

func TestAStreamBreaksWhereTheScriptSays(t *testing.T) {
	for path, body := range map[string]string{
		"/chat/completions": streamed,
		"/responses":        `{"model":"gpt-4o","stream":true,"input":"Hello"}`,
	} {
		srv := openaitest.New(t,
			openaitest.Text("one two three").CutAfter(1), openaitest.Text("one two three").FailAfter(2, "server_error", "oh no"),
		)
		send := func() (string, error) {
			res, err := http.Post(srv.URL()+path, "application/json", strings.NewReader(body))
			require.NoError(t, err)
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			return string(data), err
		}
		got, err := send()
		require.Error(t, err)
		require.Contains(t, got, "one")
		require.NotContains(t, got, "two")
		got, _ = send()
		require.Contains(t, got, "two")
		require.Contains(t, got, "oh no")
		require.NotContains(t, got, "three")
	}
}
