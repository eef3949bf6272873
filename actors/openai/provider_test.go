package openai_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func TestAttemptSaysWhereItWasSentAndWithWhichOptions(t *testing.T) {
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return reply(r, 200, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
	})}
	for base, want := range map[string]map[string]any{
		"https://api.openai.com/v1":                {"provider": "openai", "server_address": "api.openai.com", "server_port": int64(443)},
		"https://me.openai.azure.com/openai/v1":    {"provider": "azure.ai.openai", "server_address": "me.openai.azure.com", "server_port": int64(443)},
		"https://api.x.ai/v1":                      {"provider": "x_ai", "server_address": "api.x.ai", "server_port": int64(443)},
		"https://notapi.x.ai.example:8443/v1":      {"provider": "notapi.x.ai.example", "server_address": "notapi.x.ai.example", "server_port": int64(8443)},
		"http://localhost/v1":                      {"provider": "localhost", "server_address": "localhost", "server_port": int64(80)},
		"http://[::1]:11434/v1":                    {"provider": "::1", "server_address": "::1", "server_port": int64(11434)},
		"https://bedrock.us-west-2.amazonaws.com/": {"provider": "aws.bedrock", "server_address": "bedrock.us-west-2.amazonaws.com", "server_port": int64(443)},
	} {
		llm := openai.Model{
			Name: "m", BaseURL: base, APIKey: "k", HTTPClient: client,
			Options: actors.ModelOptions{Temperature: new(0.0), MaxTokens: 10, Stop: []string{"a", "b"}, ExtraBody: map[string]any{"top_k": 3, "n": "many"}},
		}.LLM()
		st := state.New()
		req := question
		req.Options = actors.ModelOptions{Model: "other", MaxTokens: 20, Seed: new(int64(0)), Effort: "low", Format: &actors.Format{Name: "f", Schema: []byte(`{"type":"object"}`)}}
		_, err := llm.Call(st.Context(t.Context()), req)
		require.NoError(t, err)
		attributes := records(t, st, record.StatusCompleted)[0].Detail.Metadata
		for key, value := range map[string]any{
			"request_model": "other", "max_tokens": int64(20), "temperature": 0.0, "seed": int64(0), "stop": `["a","b"]`,
			"effort": "low", "output_type": "json", "top_k": int64(3),
		} {
			want[key] = value
		}
		delete(attributes, "finish")
		require.Equal(t, want, attributes, base)
	}
}
