package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

// These benchmarks use a language model on the loopback interface that answers at once. They
// measure a single call, a stream of 500 chunks, and an agent with ten turns, nine of which call a
// tool.

const (
	streamChunks = 500
	agentTurns   = 10
)

const chatReply = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Forty-two."},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}}`

const toolReply = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"add","arguments":"{\"n\":%d}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}}`

// llmServer answers requests. It reads no more of each request than necessary.
type llmServer struct {
	url  string
	http http.Server
	done chan struct{}
}

func startLLMServer() *llmServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &llmServer{url: "http://" + ln.Addr().String() + "/v1", done: make(chan struct{})}
	stream := []byte(chunks())
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text := string(body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(text, `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(stream)
		case strings.Contains(text, `"tools"`) && strings.Count(text, `"role":"tool"`) < agentTurns-1:
			n := strings.Count(text, `"role":"tool"`)
			_, _ = fmt.Fprintf(w, toolReply, n, n)
		default:
			_, _ = io.WriteString(w, chatReply)
		}
	})
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln)
	}()
	return s
}

func (s *llmServer) stop() error {
	err := s.http.Close()
	<-s.done
	return err
}

func chunks() string {
	var b strings.Builder
	for i := range streamChunks {
		fmt.Fprintf(&b, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"},\"finish_reason\":null}]}\n\n", i)
	}
	b.WriteString("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	return b.String()
}

var errOtherText = errors.New("got a different text")

// llmInstance returns a contestant with its own server.
func llmInstance(ask func(url string, client *http.Client) func() error) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		server := startLLMServer()
		transport := &http.Transport{}
		call := ask(server.url, &http.Client{Transport: transport})
		return instance{
			call: func() (int, error) {
				w.calls++
				return answer, call()
			},
			stop: func() error {
				transport.CloseIdleConnections()
				return server.stop()
			},
		}
	}
}

func repriseLLM(url string, client *http.Client) actors.LLM {
	return openai.New("m", openai.WithAPIKey("key"), openai.WithBaseURL(url), openai.WithHTTPClient(client))
}

func goOpenAIClient(url string, client *http.Client) *goopenai.Client {
	config := goopenai.DefaultConfig("key")
	config.BaseURL, config.HTTPClient = url, client
	return goopenai.NewClientWithConfig(config)
}

var llmQuestion = actors.Request{Messages: []actors.Message{actors.System("Be brief."), actors.User("What is the answer?")}}

var goOpenAIQuestion = goopenai.ChatCompletionRequest{Model: "m", Messages: []goopenai.ChatCompletionMessage{
	{Role: "system", Content: "Be brief."}, {Role: "user", Content: "What is the answer?"},
}}

func callReprise(url string, client *http.Client) func() error {
	llm := repriseLLM(url, client)
	return func() error {
		resp, err := llm.Call(context.Background(), llmQuestion)
		return errors.Join(err, checkText(resp.Message.Text))
	}
}

func callRepriseRun(url string, client *http.Client) func() error {
	llm := repriseLLM(url, client)
	st := state.New()
	ctx := st.Context(context.Background())
	return func() error {
		resp, err := llm.Call(ctx, llmQuestion)
		return errors.Join(err, checkText(resp.Message.Text))
	}
}

func callGoOpenAI(url string, client *http.Client) func() error {
	c := goOpenAIClient(url, client)
	return func() error {
		reply, err := c.CreateChatCompletion(context.Background(), goOpenAIQuestion)
		if err != nil {
			return err
		}
		return checkText(reply.Choices[0].Message.Content)
	}
}

func checkText(text string) error {
	if text != "Forty-two." {
		return errOtherText
	}
	return nil
}

func streamRepriseWatch(url string, client *http.Client) func() error {
	llm := repriseLLM(url, client)
	return func() error {
		seen := 0
		ctx := live.Watch(context.Background(), func(d live.Delta) {
			if d.Part == live.PartText {
				seen++
			}
		})
		if _, err := llm.Call(ctx, llmQuestion); err != nil {
			return err
		}
		return checkChunks(seen)
	}
}

func streamRepriseIterator(url string, client *http.Client) func() error {
	llm := repriseLLM(url, client)
	return func() error {
		var resp actors.Response
		seen := 0
		for d, err := range actors.Stream(context.Background(), llm, llmQuestion, &resp) {
			if err != nil {
				return err
			}
			if d.Part == live.PartText {
				seen += strings.Count(d.Text, " ") // adjacent chunks may be joined
			}
		}
		return checkChunks(seen)
	}
}

func streamGoOpenAI(url string, client *http.Client) func() error {
	c := goOpenAIClient(url, client)
	return func() error {
		stream, err := c.CreateChatCompletionStream(context.Background(), goOpenAIQuestion)
		if err != nil {
			return err
		}
		defer stream.Close()
		seen := 0
		var text strings.Builder // a program usually keeps the text that it shows
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return checkChunks(seen)
			}
			if err != nil {
				return err
			}
			if content := chunk.Choices[0].Delta.Content; content != "" {
				text.WriteString(content)
				seen++
			}
		}
	}
}

func checkChunks(seen int) error {
	if seen != streamChunks {
		return errOtherText
	}
	return nil
}

type addend struct {
	N int `json:"n"`
}

func agentReprise(url string, client *http.Client) func() error {
	add := decorators.Tool("add", "Adds a number.", func(_ context.Context, in addend) (int, error) { return in.N + 1, nil })
	agent := actors.NewAgent("assistant", repriseLLM(url, client), actors.WithTools(add), actors.WithInstructions("Be brief."))
	return func() error {
		st := state.New()
		defer st.Close()
		got, err := agent.Call(st.Context(context.Background()), actors.Ask("What is the answer?"))
		return errors.Join(err, checkText(got.Text))
	}
}
