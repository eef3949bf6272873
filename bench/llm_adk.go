package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"

	goopenai "github.com/sashabaranov/go-openai"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"
)

// agentADK returns a function that calls an ADK agent as ADK's examples do, with an in-memory
// session for each question.
func agentADK(url string, client *http.Client) func() error {
	add, err := functiontool.New(functiontool.Config{Name: "add", Description: "Adds a number."},
		func(_ agent.Context, in addend) (int, error) { return in.N + 1, nil })
	if err != nil {
		return func() error { return err }
	}
	assistant, err := llmagent.New(llmagent.Config{
		Name: "assistant", Instruction: "Be brief.", Model: adkModel{goOpenAIClient(url, client), map[any]json.RawMessage{}}, Tools: []tool.Tool{add},
	})
	if err != nil {
		return func() error { return err }
	}
	sessions := session.InMemoryService()
	run, err := runner.New(runner.Config{AppName: "bench", Agent: assistant, SessionService: sessions})
	if err != nil {
		return func() error { return err }
	}
	return func() error { return askADK(run, sessions) }
}

func askADK(run *runner.Runner, sessions session.Service) error {
	ctx := context.Background()
	created, err := sessions.Create(ctx, &session.CreateRequest{AppName: "bench", UserID: "user"})
	if err != nil {
		return err
	}
	id := created.Session.ID()
	text := ""
	for event, err := range run.Run(ctx, "user", id, genai.NewContentFromText("What is the answer?", genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return err
		}
		if event.IsFinalResponse() {
			text = textOf(event.Content)
		}
	}
	if err := sessions.Delete(ctx, &session.DeleteRequest{AppName: "bench", UserID: "user", SessionID: id}); err != nil {
		return err
	}
	return checkText(text)
}

// adkModel is a model for ADK based on go-openai. ADK's own models are for
// Gemini and for OpenAI's Responses API, which the server here does not
// support.
type adkModel struct {
	client  *goopenai.Client
	schemas map[any]json.RawMessage // schemas of tools, encoded once
}

func (adkModel) Name() string { return "m" }

func (m adkModel) GenerateContent(ctx context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) { yield(m.ask(ctx, req)) }
}

func (m adkModel) ask(ctx context.Context, req *model.LLMRequest) (*model.LLMResponse, error) {
	messages := []goopenai.ChatCompletionMessage{{Role: "system", Content: textOf(req.Config.SystemInstruction)}}
	for _, content := range req.Contents {
		more, err := toMessages(content)
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	tools, err := m.tools(req.Config.Tools)
	if err != nil {
		return nil, err
	}
	reply, err := m.client.CreateChatCompletion(ctx, goopenai.ChatCompletionRequest{Model: req.Model, Messages: messages, Tools: tools})
	if err != nil {
		return nil, err
	}
	content, err := toContent(reply.Choices[0].Message)
	if err != nil {
		return nil, err
	}
	return &model.LLMResponse{Content: content, UsageMetadata: &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount:     int32(reply.Usage.PromptTokens),
		CandidatesTokenCount: int32(reply.Usage.CompletionTokens),
		TotalTokenCount:      int32(reply.Usage.TotalTokens),
	}}, nil
}

func (m adkModel) tools(tools []*genai.Tool) (out []goopenai.Tool, err error) {
	for _, t := range tools {
		for _, f := range t.FunctionDeclarations {
			schema, known := m.schemas[f.ParametersJsonSchema]
			if !known {
				if schema, err = json.Marshal(f.ParametersJsonSchema); err != nil {
					return nil, fmt.Errorf("schema of %s: %w", f.Name, err)
				}
				m.schemas[f.ParametersJsonSchema] = schema
			}
			out = append(out, goopenai.Tool{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{
				Name: f.Name, Description: f.Description, Parameters: schema,
			}})
		}
	}
	return out, nil
}

// toMessages converts content to messages: one message for its text and calls, and one for each
// result.
func toMessages(content *genai.Content) ([]goopenai.ChatCompletionMessage, error) {
	message := goopenai.ChatCompletionMessage{Role: "user", Content: textOf(content)}
	if content.Role == genai.RoleModel {
		message.Role = "assistant"
	}
	var results []goopenai.ChatCompletionMessage
	for _, part := range content.Parts {
		if call := part.FunctionCall; call != nil {
			args, err := json.Marshal(call.Args)
			if err != nil {
				return nil, fmt.Errorf("arguments of %s: %w", call.Name, err)
			}
			message.ToolCalls = append(message.ToolCalls, goopenai.ToolCall{ID: call.ID, Type: goopenai.ToolTypeFunction, Function: goopenai.FunctionCall{Name: call.Name, Arguments: string(args)}})
		}
		if result := part.FunctionResponse; result != nil {
			text, err := json.Marshal(result.Response)
			if err != nil {
				return nil, fmt.Errorf("result of %s: %w", result.Name, err)
			}
			results = append(results, goopenai.ChatCompletionMessage{Role: "tool", ToolCallID: result.ID, Content: string(text)})
		}
	}
	if len(results) > 0 {
		return results, nil
	}
	return []goopenai.ChatCompletionMessage{message}, nil
}

func toContent(message goopenai.ChatCompletionMessage) (*genai.Content, error) {
	content := &genai.Content{Role: genai.RoleModel}
	if message.Content != "" {
		content.Parts = append(content.Parts, &genai.Part{Text: message.Content})
	}
	for _, call := range message.ToolCalls {
		var args map[string]any
		if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", call.Function.Name, err)
		}
		content.Parts = append(content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: call.ID, Name: call.Function.Name, Args: args}})
	}
	return content, nil
}

func textOf(content *genai.Content) (text string) {
	for _, part := range content.Parts {
		text += part.Text
	}
	return text
}
