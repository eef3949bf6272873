package openaitest_test

import (
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

func TestTextArrivesWithItsUsage(t *testing.T) {
	srv := openaitest.New(t, openaitest.Text("Hi").WithUsage(12, 5))
	got, err := ask(t, srv)
	require.NoError(t, err)
	require.Equal(t, "Hi", got.Choices[0].Message.Content)
	require.Equal(t, "assistant", got.Choices[0].Message.Role)
	require.Equal(t, openai.FinishReasonStop, got.Choices[0].FinishReason)
	require.Equal(t, "gpt-4o", got.Model)
	require.Equal(t, 12, got.Usage.PromptTokens)
	require.Equal(t, 5, got.Usage.CompletionTokens)
	require.Equal(t, 17, got.Usage.TotalTokens)
}

func TestEmptyTextIsNotNull(t *testing.T) {
	srv := openaitest.New(t, openaitest.Text(""))
	_, _, body := answer(t, srv, hello)
	require.Contains(t, body, `"content":""`)
}

func TestToolCallsAreNumberedAcrossTheWholeServer(t *testing.T) {
	srv := openaitest.New(t,
		openaitest.ToolCalls(
			openaitest.Call("get_weather", `{"city":"Oslo"}`),
			openaitest.Call("get_time", struct {
				Zone string `json:"zone"`
			}{"CET"})),
		openaitest.Repeat(2, openaitest.ToolCalls(openaitest.Call("get_weather", nil))),
		openaitest.ToolCalls(openaitest.ToolCall{ID: "mine", Name: "get_time", Arguments: "{}"}),
	)
	var ids, args []string
	for range 4 {
		got, err := ask(t, srv)
		require.NoError(t, err)
		require.Equal(t, openai.FinishReasonToolCalls, got.Choices[0].FinishReason)
		for _, call := range got.Choices[0].Message.ToolCalls {
			ids = append(ids, call.ID)
			args = append(args, call.Function.Arguments)
		}
	}
	require.Equal(t, []string{"call_1", "call_2", "call_3", "call_4", "mine"}, ids)
	require.Equal(t, []string{`{"city":"Oslo"}`, `{"zone":"CET"}`, "{}", "{}", "{}"}, args)
}

func TestToolCallsWithoutTextHaveNullContent(t *testing.T) {
	call := openaitest.ToolCalls(openaitest.Call("get_weather", nil))
	srv := openaitest.New(t, call, call.WithText("Let me see."))
	_, _, body := answer(t, srv, hello)
	require.Contains(t, body, `"content":null`)
	_, _, body = answer(t, srv, hello)
	require.Contains(t, body, `"content":"Let me see."`)
	require.Contains(t, body, `"name":"get_weather"`)
}

func TestModelCanGetArgumentsWrong(t *testing.T) {
	srv := openaitest.New(t, openaitest.ToolCalls(openaitest.Call("get_weather", `{"city":`)))
	got, err := ask(t, srv)
	require.NoError(t, err)
	require.Equal(t, `{"city":`, got.Choices[0].Message.ToolCalls[0].Function.Arguments)
}

func TestFinishReasonCanBeSet(t *testing.T) {
	srv := openaitest.New(t, openaitest.Text("It is").WithFinishReason("length"))
	got, err := ask(t, srv)
	require.NoError(t, err)
	require.Equal(t, openai.FinishReasonLength, got.Choices[0].FinishReason)
}

func TestWithMethodsLeaveTheirStepAsItWas(t *testing.T) {
	plain := openaitest.Text("Hi")
	_ = plain.WithUsage(1, 2).WithText("Ho").WithHeader("X-A", "b").Expect(openaitest.HasModel("other"))
	srv := openaitest.New(t, plain)
	_, header, body := answer(t, srv, hello)
	require.Contains(t, body, `"content":"Hi"`)
	require.Contains(t, body, `"total_tokens":0`)
	require.Empty(t, header.Get("X-A"))
}

func TestMistakesInAScriptPanic(t *testing.T) {
	for name, mistake := range map[string]func(){
		"usage of a failure":            func() { openaitest.Reset().WithUsage(1, 1) },
		"error code of a text":          func() { openaitest.Text("Hi").WithErrorCode("x") },
		"no calls":                      func() { openaitest.ToolCalls() },
		"arguments without JSON":        func() { openaitest.Call("f", make(chan int)) },
		"failure with a success status": func() { openaitest.Failure(200, "fine") },
		"raw status":                    func() { openaitest.Raw(99, "") },
		"repeat zero times":             func() { openaitest.Repeat(0, openaitest.Text("Hi")) },
		"respond without fn":            func() { openaitest.Respond(nil) },
		"step after forever": func() {
			_, _ = openaitest.Start(openaitest.Forever(openaitest.Text("Hi")), openaitest.Text("Ho"))
		},
	} {
		t.Run(name, func(t *testing.T) { require.Panics(t, mistake) })
	}
}
