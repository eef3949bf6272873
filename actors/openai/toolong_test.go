package openai_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
)

// tooLong lists the messages that services use to report that a conversation is too long.
var tooLong = []struct {
	service string
	status  int
	body    string
}{
	{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`},
	{"OpenAI Responses", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error"}}`},
	{"OpenAI per minute", 429, `{"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}`},
	{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`},
	{"Anthropic with max_tokens", 400, "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens` and try again\"}}"},
	{"Anthropic in bytes", 413, `{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`},
	{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).","type":"BadRequestError","param":null,"code":400}`},
	{"vLLM 0.8", 400, `{"object":"error","message":"The prompt (total length 5000) is too long to fit into the model (context length 4096). Make sure that max_model_len is no smaller than the number of text tokens.","type":"BadRequestError","code":400}`},
	{"vLLM 0.10", 400, `{"error":{"message":"The decoder prompt (length 40000) is longer than the maximum model length of 32768.","type":"BadRequestError","code":400}}`},
	{"vLLM 0.15", 400, `{"error":{"message":"You passed 40001 input tokens and requested 0 output tokens. However, the model's context length is only 40000 tokens. Please reduce the length of the input prompt.","code":400}}`},
	{"Bedrock", 400, `{"message":"Input is too long for requested model."}`},
	{"Bedrock Nova", 400, `{"message":"The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."}`},
	{"SGLang", 400, `{"object":"error","message":"Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 tokens.","type":"BadRequestError","code":400}`},
	{"SGLang input", 400, `{"object":"error","message":"The input (40000 tokens) is longer than the model's context length (32768 tokens).","code":400}`},
	{"SGLang truncation", 400, `{"object":"error","message":"Input length (40000 tokens) exceeds the maximum allowed length (32762 tokens). Use a shorter input or enable --allow-auto-truncate.","code":400}`},
	{"xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 150000 tokens."}`},
	{"Together", 422, "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and 512 `max_new_tokens`\",\"type\":\"invalid_request_error\"}}"},
	{"TGI", 422, "{\"error\":\"Input validation error: `inputs` must have less than 1024 tokens. Given: 2000\",\"error_type\":\"validation\"}"},
	{"LM Studio", 400, `{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}`},
	{"LM Studio 0.3", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"}`},
	{"LM Studio in a reply", 400, `{"error":"Reached context length of 4096 tokens with model (arch: qwen2) that does not currently support mid-generation context overflow."}`},
	{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error"}}`},
	{"Kimi", 400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072","type":"invalid_request_error"}}`},
	{"Kimi input", 400, `{"error":{"message":"Input token length too long","type":"invalid_request_error"}}`},
	{"Qwen", 400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error","code":"invalid_parameter_error"}}`},
	{"Cohere", 400, `{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4200. Try using a shorter prompt, or enabling prompt truncating."}`},
	{"Gemini", 400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`},
	{"Mistral", 400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":3051}`},
	{"Groq", 413, "{\"error\":{\"message\":\"Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}"},
	{"Fireworks", 400, `{"error":{"message":"The prompt is too long: 9000, model maximum context length: 8191","code":"invalid_request_error"}}`},
	{"Copilot", 400, `{"error":{"message":"prompt token count of 70000 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}}`},
	{"GLM", 400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`},
	{"a gateway", 413, "<html><title>413 Request Entity Too Large</title></html>"},
}

func TestContextTooLongIsRecognizedForEachService(t *testing.T) {
	for _, tc := range tooLong {
		t.Run(tc.service, func(t *testing.T) {
			asked := 0
			model := openai.Model{Name: "m", BaseURL: "https://service.example/v1", HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				asked++
				return reply(r, tc.status, tc.body, "", ""), nil
			})}}
			_, err := model.LLM(atOnce).Call(t.Context(), question)
			require.ErrorIs(t, err, actors.ErrContextTooLong)
			require.ErrorIs(t, err, core.ErrPermanent)
			require.Equal(t, 1, asked)

			// The error means the same when it is read from a record.
			var failure *openai.Error
			require.ErrorAs(t, err, &failure)
			data, err := json.Marshal(failure)
			require.NoError(t, err)
			var recorded openai.Error
			require.NoError(t, json.Unmarshal(data, &recorded))
			require.ErrorIs(t, &recorded, actors.ErrContextTooLong)
		})
	}
}

func TestOtherLimitsAreNotTheContext(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
	}{
		"requests per minute":    {429, `{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","type":"tokens","code":"rate_limit_exceeded"}}`},
		"Bedrock throttles":      {429, `{"message":"Too many tokens, please wait before trying again."}`},
		"tokens of the answer":   {400, `{"error":{"message":"max_tokens is too large: 40000. This model supports at most 16384 completion tokens.","param":"max_tokens"}}`},
		"another mistake":        {400, `{"error":{"message":"Invalid value for temperature"}}`},
		"a server out of memory": {503, `{"error":{"message":"prompt is too long to be served now"}}`},
	} {
		_, err := once(t, openai.Chat, openaitest.Raw(tc.status, tc.body))
		require.Error(t, err, name)
		require.NotErrorIs(t, err, actors.ErrContextTooLong, name)
	}
}
