package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
)

var (
	png = append([]byte("\x89PNG\r\n\x1a\n"), "more"...)
	pdf = []byte("%PDF-1.7 and more")
	wav = append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), make([]byte, 16)...)
)

// sent makes a call and returns the body of its request.
func sent(t *testing.T, model openai.Model, req actors.Request) map[string]json.RawMessage {
	t.Helper()
	var body map[string]json.RawMessage
	model.Name = orString(model.Name, "m")
	model.APIKey = "k"
	model.BaseURL = orString(model.BaseURL, "https://service.example/v1")
	model.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		if strings.HasSuffix(r.URL.Path, "/responses") {
			return reply(r, 200, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine."}]}]}`, "", ""), nil
		}
		return reply(r, 200, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
	})}
	_, err := model.LLM().Call(t.Context(), req)
	require.NoError(t, err)
	return body
}

func orString(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func TestTheAPIIsChosenByWhatTheModelNeeds(t *testing.T) {
	for model, want := range map[string]openai.API{
		"gpt-4o": openai.Chat, "gpt-4.1-mini": openai.Chat, "o3": openai.Chat, "gpt-5-nano": openai.Chat, "llama3.2": openai.Chat,
		"openai/gpt-6-sol": openai.Chat, "gpt-oss:20b": openai.Chat,
		"gpt-6-astra": openai.Responses, "gpt-6.1-sol": openai.Responses, "gpt-10": openai.Responses, "o3-pro": openai.Responses,
		"gpt-5-codex": openai.Responses, "gpt-5.2-pro": openai.Responses, "o4-mini-deep-research": openai.Responses, "codex-mini-latest": openai.Responses,
	} {
		body := sent(t, openai.Model{Name: model}, question)
		require.Equal(t, want == openai.Responses, body["input"] != nil, model)
	}
	require.NotNil(t, sent(t, openai.Model{Name: "gpt-4o", API: openai.Responses}, question)["input"])
	require.NotNil(t, sent(t, openai.Model{Name: "gpt-6-luna", API: openai.Chat}, question)["messages"])
}

func TestAzureHasURLsOfItsOwn(t *testing.T) {
	for api, want := range map[openai.API]string{
		openai.Chat:      "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
		openai.Responses: "/openai/responses?api-version=2024-10-21",
	} {
		srv := openaitest.New(t, openaitest.Text("Fine."))
		var path string
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			path = r.URL.RequestURI()
			return srv.Client().Do(r)
		})}
		model := openai.Model{Name: "my-gpt", APIKey: secret, BaseURL: srv.AzureURL(), AzureAPIVersion: "2024-10-21", HTTPClient: client, API: api}
		got, err := model.LLM().Call(t.Context(), question)
		require.NoError(t, err)
		require.Equal(t, "Fine.", got.Message.Text)
		require.Equal(t, want, path)
		require.Equal(t, secret, srv.Requests()[0].Header.Get("Api-Key"))
		require.Equal(t, "my-gpt", srv.Requests()[0].Model)
		require.Empty(t, srv.Requests()[0].Header.Get("Authorization"))
	}
}

func TestHeadersOfTheModelAreSent(t *testing.T) {
	srv := openaitest.New(t, openaitest.Text("Fine."))
	model := modelAt(t, srv.URL())
	model.Header = http.Header{"X-Title": {"Reprise"}}
	_, err := model.LLM().Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "Reprise", srv.Requests()[0].Header.Get("X-Title"))
}

// The same conversation is sent to both APIs.
func TestEveryMessageGoesOutInTheFormOfItsAPI(t *testing.T) {
	failed := actors.ToolResult("c", "boom")
	failed.IsError = true
	req := actors.Request{
		Messages: []actors.Message{
			actors.System("Be brief."),
			actors.User("What is this?", actors.Image("image/png", png), actors.ImageURL("https://example.com/a.png"), actors.File("a.pdf", "application/pdf", pdf), actors.Part{Text: "And this?"}),
			{Role: actors.RoleAssistant, Text: "Let me look.", ToolCalls: []actors.ToolCall{callOf("a", "f", `{"n":1}`), callOf("b", "f", ``), callOf("c", "f", `{`)}},
			actors.ToolResult("a", "a chart", actors.Image("image/png", png)),
			actors.ToolResult("b", ""),
			failed,
			actors.Assistant(""),
			actors.User("Well?"),
		},
		Tools: []actors.FunctionSpec{{Name: "f", Description: "F.", Parameters: json.RawMessage(`{"type":"object"}`)}},
		Options: actors.ModelOptions{
			MaxTokens: 9, Temperature: new(0.0), TopP: new(0.5), Effort: "low", ToolChoice: "required", SequentialTools: true,
			Format:    &actors.Format{Name: "answer", Schema: json.RawMessage(`{"type":"object"}`), Strict: true},
			ExtraBody: map[string]any{"metadata": map[string]string{"k": "v"}},
		},
	}
	picture := "data:image/png;base64," + base64.StdEncoding.EncodeToString(png)
	document := "data:application/pdf;base64," + base64.StdEncoding.EncodeToString(pdf)
	chat := sent(t, openai.Model{}, req)
	require.JSONEq(t, `[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"`+picture+`"}},
			{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"`+document+`"}},{"type":"text","text":"And this?"}]},
		{"role":"assistant","content":"Let me look.","tool_calls":[
			{"id":"a","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}},
			{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}},
			{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"a","content":"a chart"},
		{"role":"tool","tool_call_id":"b","content":"(empty)"},
		{"role":"tool","tool_call_id":"c","content":"error: boom"},
		{"role":"user","content":[{"type":"text","text":"From the result of a:"},{"type":"image_url","image_url":{"url":"`+picture+`"}}]},
		{"role":"assistant","content":"(empty)"},
		{"role":"user","content":"Well?"}
	]`, string(chat["messages"]))
	delete(chat, "messages")
	require.JSONEq(t, `{"model":"m","max_tokens":9,"temperature":0,"top_p":0.5,"reasoning_effort":"low","tool_choice":"required","parallel_tool_calls":false,"metadata":{"k":"v"},
		"tools":[{"type":"function","function":{"name":"f","description":"F.","parameters":{"type":"object"}}}],
		"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}}}`, marshaled(t, chat))

	responses := sent(t, openai.Model{API: openai.Responses}, req)
	require.JSONEq(t, `[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":[{"type":"input_text","text":"What is this?"},{"type":"input_image","image_url":"`+picture+`"},
			{"type":"input_image","image_url":"https://example.com/a.png"},{"type":"input_file","filename":"a.pdf","file_data":"`+document+`"},{"type":"input_text","text":"And this?"}]},
		{"role":"assistant","content":"Let me look."},
		{"type":"function_call","call_id":"a","name":"f","arguments":"{\"n\":1}"},
		{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"a chart"},{"type":"input_image","image_url":"`+picture+`"}]},
		{"type":"function_call_output","call_id":"b","output":"(empty)"},
		{"type":"function_call_output","call_id":"c","output":"error: boom"},
		{"role":"assistant","content":"(empty)"},
		{"role":"user","content":"Well?"}
	]`, string(responses["input"]))
	delete(responses, "input")
	require.JSONEq(t, `{"model":"m","max_output_tokens":9,"temperature":0,"top_p":0.5,"reasoning":{"effort":"low"},"tool_choice":"required","parallel_tool_calls":false,"metadata":{"k":"v"},"store":false,"include":["reasoning.encrypted_content"],
		"tools":[{"type":"function","name":"f","description":"F.","parameters":{"type":"object"},"strict":false}],
		"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"object"},"strict":true}}}`, marshaled(t, responses))
}

func marshaled(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

func TestAudioAndVideoGoOutOnTheChatAPI(t *testing.T) {
	body := sent(t, openai.Model{}, actors.Request{Messages: []actors.Message{
		actors.User("", actors.Part{MIME: "audio/wav", Data: wav}, actors.Part{MIME: "video/mp4", URL: "https://example.com/a.mp4"}),
	}})
	require.JSONEq(t, `[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"`+base64.StdEncoding.EncodeToString(wav)+`","format":"wav"}},
		{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}]}]`, string(body["messages"]))
}

// These errors are found before anything is sent.
func TestUnsupportedOptionsAreErrors(t *testing.T) {
	user := func(p actors.Part) actors.Request {
		return actors.Request{Messages: []actors.Message{actors.User("?", p)}}
	}
	with := func(o actors.ModelOptions) actors.Request {
		return actors.Request{Messages: question.Messages, Options: o}
	}
	both := []openai.API{openai.Chat, openai.Responses}
	for _, tc := range []struct {
		name string
		apis []openai.API
		req  actors.Request
		want string
	}{
		{"not an image", both, user(actors.Image("image/png", []byte("hello"))), "message 1: part 1: declared as image/png, but the data is text/plain"},
		{"not a PDF", both, user(actors.File("a", "application/pdf", png)), "declared as application/pdf, but the data is image/png"},
		{"empty part", both, user(actors.Part{}), "empty part"},
		{"two in one", both, user(actors.Part{Text: "a", URL: "https://x"}), "more than one of"},
		{"URL", both, user(actors.ImageURL("file:///etc/passwd")), `the URL has scheme "file"`},
		{"invalid URL", both, user(actors.ImageURL("http://[")), "invalid URL"},
		{"audio", both[:1], user(actors.Part{MIME: "audio/ogg", Data: wav}), "want audio/wav or audio/mpeg"},
		{"audio on Responses", both[1:], user(actors.Part{MIME: "audio/wav", Data: wav}), "audio/wav cannot be sent on the Responses API"},
		{"file by URL on chat", both[:1], user(actors.Part{MIME: "application/pdf", URL: "https://x/a.pdf"}), "cannot be sent on the chat completions API"},
		{"seed on Responses", both[1:], with(actors.ModelOptions{Seed: new(int64(1))}), "the Responses API does not support Options.Seed"},
		{"stop on Responses", both[1:], with(actors.ModelOptions{Stop: []string{"x"}}), "the Responses API does not support Options.Stop"},
		{"temperature", both, with(actors.ModelOptions{Temperature: new(math.Inf(1))}), "ModelOptions.Temperature is +Inf; it must be from 0 to 2"},
		{"schema", both, with(actors.ModelOptions{Format: &actors.Format{Name: "a", Schema: json.RawMessage(`{"type":"string"}`)}}), "services only accept an object"},
	} {
		for _, api := range tc.apis {
			t.Run(fmt.Sprintf("%s/%s", tc.name, api), func(t *testing.T) {
				srv := openaitest.New(t)
				model := modelAt(t, srv.URL())
				model.API = api
				_, err := model.LLM(atOnce).Call(t.Context(), tc.req)
				require.ErrorContains(t, err, tc.want)
				require.ErrorIs(t, err, core.ErrPermanent)
				require.Empty(t, srv.Requests())
			})
		}
	}
}

// Encrypted reasoning is sent back in its original position, but only to the API that it came from.
// Malformed arguments and duplicate IDs are not sent back.
func TestItemsOfTheResponsesAPIGoBackToItAlone(t *testing.T) {
	const output = `{"id":"resp_1","model":"gpt-6-sol","status":"completed","output":[
		{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[{"type":"summary_text","text":"Hm."}]},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Let me look."}]},
		{"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"{\"n\":1}","status":"completed"},
		{"type":"function_call","id":"fc_2","call_id":"a","name":"g","arguments":"{\"n\":","status":"completed"},
		{"type":"web_search_call","id":"ws_1","status":"completed"}],
		"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}`
	srv := openaitest.New(t, openaitest.Raw(200, output), openaitest.Repeat(2, openaitest.Text("Fine.")))
	model := modelAt(t, srv.URL())
	model.Name = "gpt-6-sol"
	llm := model.LLM()
	got, err := llm.Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "Hm.", got.Message.Reasoning)
	require.Equal(t, "Let me look.", got.Message.Text)
	require.Equal(t, []actors.ToolCall{callOf("a", "f", `{"n":1}`), callOf("call_1", "g", `{"n":`)}, got.Message.ToolCalls)
	require.Equal(t, actors.FinishToolCalls, got.Finish)
	require.Equal(t, core.Usage{InputTokens: 9, CachedInputTokens: 4, OutputTokens: 5, ReasoningTokens: 2}, got.Usage)
	require.Contains(t, string(srv.Requests()[0].Body), `"include":["reasoning.encrypted_content"]`)

	next := actors.Request{Messages: []actors.Message{actors.User("?"), got.Message, actors.ToolResult("a", "1"), actors.ToolResult("call_1", "2")}}
	_, err = llm.Call(t.Context(), next)
	require.NoError(t, err)
	var body struct{ Input []json.RawMessage }
	require.NoError(t, json.Unmarshal(srv.Requests()[1].Body, &body))
	require.JSONEq(t, `[
		{"role":"user","content":"?"},
		{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[{"type":"summary_text","text":"Hm."}]},
		{"role":"assistant","content":"Let me look."},
		{"type":"function_call","call_id":"a","name":"f","arguments":"{\"n\":1}"},
		{"type":"function_call","call_id":"call_1","name":"g","arguments":"{}"},
		{"type":"web_search_call","id":"ws_1","status":"completed"},
		{"type":"function_call_output","call_id":"a","output":"1"},
		{"type":"function_call_output","call_id":"call_1","output":"2"}]`, marshaled(t, body.Input))

	// The other API receives the message without the items.
	model.API = openai.Chat
	model.Name = "gpt-4o"
	_, err = model.LLM().Call(t.Context(), next)
	require.NoError(t, err)
	require.NotContains(t, string(srv.Requests()[2].Body), "enc")
	require.Contains(t, string(srv.Requests()[2].Body), "Let me look.")
}

// A call to a custom tool is sent back as such, with its text. So is its result.
func TestCallsOfCustomToolsAreSentBackAsSuch(t *testing.T) {
	const call = `{"type":"custom_tool_call","id":"ctc_1","status":"completed","call_id":"c","name":"patch","input":"*** Begin"}`
	for name, tc := range map[string]struct{ output, sent, id string }{
		"alone": {call, ``, "c"},
		"after reasoning": {
			`{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[]},` + call,
			`{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[]},`, "c",
		},
		"before a function": {
			call + `,{"type":"function_call","call_id":"f","name":"f","arguments":"{}"}`, ``, "c",
		},
		"with an ID that occurs twice": {
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` + call,
			``, "call_1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := openaitest.New(t, openaitest.Raw(200, `{"status":"completed","output":[`+tc.output+`]}`), openaitest.Text("Fine."))
			model := modelAt(t, srv.URL())
			model.API = openai.Responses
			llm := model.LLM()
			got, err := llm.Call(t.Context(), question)
			require.NoError(t, err)
			require.Contains(t, got.Message.ToolCalls, callOf(tc.id, "patch", "*** Begin"))

			messages := []actors.Message{actors.User("?"), got.Message}
			for i := range got.Message.ToolCalls {
				call := &got.Message.ToolCalls[i]
				messages = append(messages, actors.ToolResult(call.ID, "done"))
				if !strings.HasPrefix(call.Arguments, "{") {
					call.Arguments = "{}" // as an agent would, since it knows only functions
				}
			}
			_, err = llm.Call(t.Context(), actors.Request{Messages: messages})
			require.NoError(t, err)
			body := string(srv.Requests()[1].Body)
			require.Contains(t, body, tc.sent+`{"type":"custom_tool_call","call_id":"`+tc.id+`","name":"patch","input":"*** Begin"}`)
			require.Contains(t, body, `{"type":"custom_tool_call_output","call_id":"`+tc.id+`","output":"done"}`)
			require.Len(t, srv.Requests()[1].ToolResults(), len(got.Message.ToolCalls))
			require.Equal(t, len(got.Message.ToolCalls)-1, strings.Count(body, `"function_call_output"`))
		})
	}
}

func TestAResponseIsReadAsItIs(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		finish     actors.Finish
		text       string
		refusal    bool
	}{
		{"text", `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fi"},{"type":"output_text","text":"ne."}]}]}`, actors.FinishStop, "Fine.", false},
		{"refusal", `{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}`, actors.FinishRefusal, "No.", true},
		{"cut", `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"Fi"}]}]}`, actors.FinishLength, "Fi", false},
		{"cut before the first word", `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, actors.FinishLength, "", false},
		{"filtered", `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`, actors.FinishFilter, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := openaitest.New(t, openaitest.Raw(200, tc.body))
			model := modelAt(t, srv.URL())
			model.API = openai.Responses
			got, err := model.LLM().Call(t.Context(), question)
			require.NoError(t, err)
			require.Equal(t, []any{tc.finish, tc.text, tc.refusal}, []any{got.Finish, got.Message.Text, got.Message.Refusal})
			require.Nil(t, got.Message.Opaque)
		})
	}
}

// If a service does not support formats, the answer is requested as the arguments of a tool.
func TestAFormatCanBeATool(t *testing.T) {
	format := &actors.Format{Name: "answer", Schema: json.RawMessage(`{"type":"object"}`), ByTool: true}
	onWires(t, func(t *testing.T, model func(*openaitest.Server) openai.Model) {
		srv := openaitest.New(t,
			openaitest.ToolCalls(openaitest.Call("answer", `{"n":1}`)).Expect(openaitest.HasTool("answer")),
			openaitest.ToolCalls(openaitest.Call("f", nil), openaitest.Call("answer", `{"n":2}`)),
			openaitest.Text("plain"),
		)
		llm := model(srv).LLM()
		req := question
		req.Options.Format = format
		got, err := llm.Call(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []any{`{"n":1}`, 0, actors.FinishStop}, []any{got.Message.Text, len(got.Message.ToolCalls), got.Finish})
		require.Contains(t, string(srv.Requests()[0].Body), `"tool_choice":{`)

		req.Tools = []actors.FunctionSpec{{Name: "f"}}
		got, err = llm.Call(t.Context(), req)
		require.NoError(t, err)
		require.Empty(t, got.Message.Text)
		require.Len(t, got.Message.ToolCalls, 1)
		require.Contains(t, string(srv.Requests()[1].Body), `"tool_choice":"required"`)

		got, err = llm.Call(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, "plain", got.Message.Text)
	})
}

// The items of the Responses API contain the answer only as a tool call, which gets no
// result.
func TestAnAnswerByToolIsSentBackAsText(t *testing.T) {
	const output = `{"status":"completed","output":[
		{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[]},
		{"type":"message","content":[{"type":"output_text","text":"Here it is."}]},
		{"type":"function_call","id":"fc_1","call_id":"a","name":"answer","arguments":"{\"n\":1}"}]}`
	srv := openaitest.New(t, openaitest.Raw(200, output), openaitest.Text("Fine."))
	model := modelAt(t, srv.URL())
	model.API = openai.Responses
	req := question
	req.Options.Format = &actors.Format{Name: "answer", Schema: json.RawMessage(`{"type":"object"}`), ByTool: true}
	got, err := model.LLM().Call(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, got.Message.Text)

	_, err = model.LLM().Call(t.Context(), actors.Request{Messages: []actors.Message{actors.User("?"), got.Message, actors.User("Not valid.")}})
	require.NoError(t, err)
	var body struct{ Input []json.RawMessage }
	require.NoError(t, json.Unmarshal(srv.Requests()[1].Body, &body))
	require.JSONEq(t, `[
		{"role":"user","content":"?"},
		{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[]},
		{"role":"assistant","content":"Here it is."},
		{"role":"assistant","content":"{\"n\":1}"},
		{"role":"user","content":"Not valid."}]`, marshaled(t, body.Input))
}

func TestAClientOfTheUsersOwnSaysWhatItCannotSend(t *testing.T) {
	srv := openaitest.New(t, openaitest.Forever(openaitest.Text("Fine.")))
	llm := openai.New("m", openai.WithClient(newClient(t, srv.URL())))
	for want, o := range map[string]actors.ModelOptions{
		"":            {Temperature: new(0.3), MaxTokens: 4, Seed: new(int64(7)), Format: &actors.Format{Name: "a", Schema: json.RawMessage(`{"type":"object","title":"T"}`)}},
		"temperature": {Temperature: new(0.0)},
		"top_k":       {ExtraBody: map[string]any{"top_k": 4}},
	} {
		req := question
		req.Options = o
		_, err := llm.Call(t.Context(), req)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "a client passed to WithClient cannot send "+want)
		require.ErrorIs(t, err, core.ErrPermanent)
	}
	require.Len(t, srv.Requests(), 1)
	require.Contains(t, string(srv.Requests()[0].Body), `"title":"T"`)
}

func TestAnInvalidFunctionNameIsSentBackAsAValidOne(t *testing.T) {
	onWires(t, func(t *testing.T, model func(*openaitest.Server) openai.Model) {
		srv := openaitest.New(t, openaitest.Text("Fine."))
		long := strings.Repeat("x", 70)
		_, err := model(srv).LLM().Call(t.Context(), actors.Request{Messages: []actors.Message{
			actors.User("?"),
			asked(callOf("a", "functions.add<|channel|>json", "{}"), callOf("b", "", "{}"), callOf("c", "größe", "{}"), callOf("d", long, "{}"), callOf("e", "add-2_B", "{}")),
			actors.ToolResult("a", "1"), actors.ToolResult("b", "2"), actors.ToolResult("c", "3"), actors.ToolResult("d", "4"), actors.ToolResult("e", "5"),
		}})
		require.NoError(t, err)
		body := string(srv.Requests()[0].Body)
		for _, want := range []string{"functions_add__channel__json", "_", "gr__e", long[:64], "add-2_B"} {
			require.Contains(t, body, `"name":"`+want+`"`)
		}
	})
}

func TestByteOrderMarkIsNotPartOfAReply(t *testing.T) {
	_, _, llm := setup(t, []openaitest.Step{openaitest.Raw(200, "\ufeff"+`{"choices":[{"message":{"content":"Fine."}}]}`)})
	got, err := llm.Call(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, "Fine.", got.Message.Text)
}
