package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// chatDocuments lists replies and events that services send, and some stranger ones.
var chatDocuments = []string{
	`{"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"word "},"finish_reason":null}]}`,
	`{"id":7,"model":null,"choices":[{"index":"0","delta":{"content":null,"reasoning_content":"Hm.","refusal":null}}],"usage":null}`,
	`{"choices":[{"index":0.0,"delta":{"tool_calls":[{"index":1,"id":"c","type":"function","function":{"name":"f","arguments":"{\"n\":"}}]},"finish_reason":"tool_calls"}]}`,
	`{"choices":[{"message":{"tool_calls":[{"index":null,"function":{"name":"f","arguments":{ "n" : [1, {"a":"}]"}] }},"extra_content":{"google":{"thought_signature":"s"}}}]}}]}`,
	`{"choices":[{"message":{"tool_calls":[{"custom":{"name":"f","input":"x"}},null,{"function":null,"custom":null}],"function_call":{"name":"g","arguments":null}}}]}`,
	`{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[{"text":"b"}]},{"refusal":"c"}],"reasoning":[{"text":"d"}],"reasoning_details":[{"type":"reasoning.text","text":"e"}]}}]}`,
	`{"choices":[],"usage":{"prompt_tokens":1e1,"completion_tokens":"5","prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":null},"completion_tokens_details":{"reasoning_tokens":2.0},"prompt_cache_hit_tokens":4,"cached_tokens":1,"cost":0.25}}`,
	`{"error":{"message":"overloaded","code":529}}`,
	`{"object":"error","message":"oh no","detail":null}`, `{"object":null,"message":null,"detail":[{"msg":"x"}]}`, `{"object":7}`,
	`{"choices":[{"finish_reason":"error","error":"broken","usage":{"cost":null}}]}`,
	" \t\r\n{ \"id\" : \"\\u00e4\\n\" , \"choices\" : [ { \"delta\" : { } } , { } ] } \n",
	`{"id":"\"\\\/\b\f\n\r\t","model":"\\u0041\u0041\ud83d\ude00\ud83d","choices":[{"delta":{"content":"\\"}}]}`,
	"{\"ID\":\"a\",\"choiceſ\":[{\"Delta\":{\"\\u0063ontent\":\"b\xff\"}}]}",
	`{"choices":[[]]}`, `{"choices":{}}`, `{"choices":[{"delta":"x"}]}`, `{"usage":[]}`, `{"usage":{"prompt_tokens":"many"}}`,
	`{"choices":[{"message":{"reasoning_content":1}}]}`, `{"choices":[{"message":{"content":{}}}]}`, `{"choices":[{"message":{"tool_calls":[{"custom":{"name":1}}]}}]}`,
	`{"usage":{"cost":1e999}}`, `{"usage":{"cost":"1"}}`, `{"choices":[{"index":true}]}`,
	`null`, ` null `, `[]`, `"x"`, `1`, `true`, ``, ` `, `{`, `{"a":}`, `{}x`, `[1,]`,
}

// responsesDocuments lists events of the Responses API.
var responsesDocuments = []string{
	`{"type":"response.output_text.delta","delta":"word ","output_index":0,"sequence_number":4,"obfuscation":"xyz"}`,
	`{"type":"response.function_call_arguments.delta","delta":{"n":1},"output_index":"2"}`,
	`{"type":"response.output_item.done","item":{"type":"message","content":[]}}`,
	`{"type":"response.completed","response":{"status":"completed","output":[]}}`,
	`{"type":"error","code":429,"message":"slow","error":null}`, `{"type":null,"error":{"message":"x"}}`,
	`{"type":1}`, `{"type":"x","delta":null,"output_index":null}`, `{"type":"x","output_index":{}}`, `{"\u0054ype":"x"}`,
}

func TestRepliesAreReadAsEncodingJSONDoes(t *testing.T) {
	for _, document := range chatDocuments {
		t.Run(document, func(t *testing.T) { sameReply(t, []byte(document)) })
	}
	for _, document := range responsesDocuments {
		t.Run(document, func(t *testing.T) { sameEvent(t, []byte(document)) })
	}
}

func FuzzChatReply(f *testing.F) {
	for _, document := range chatDocuments {
		f.Add([]byte(document))
	}
	f.Fuzz(sameReply)
}

func FuzzResponsesEvent(f *testing.F) {
	for _, document := range responsesDocuments {
		f.Add([]byte(document))
	}
	f.Fuzz(sameEvent)
}

func sameReply(t *testing.T, data []byte) {
	var got, want chatReply
	same(t, &got, &want, readJSON(data, &got), json.Unmarshal(data, &want))
}

func sameEvent(t *testing.T, data []byte) {
	var got, want responsesEvent
	same(t, &got, &want, readJSON(data, &got), json.Unmarshal(data, &want))
}

func same(t *testing.T, got, want any, gotErr, wantErr error) {
	t.Helper()
	require.Equal(t, wantErr == nil, gotErr == nil, "got %v, want %v", gotErr, wantErr)
	if gotErr != nil {
		_ = gotErr.Error() // must not panic
		return
	}
	require.Equal(t, want, got)
}
