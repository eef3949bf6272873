package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core/live"
)

func TestToolsOfTheServiceAreAddedToThoseOfTheAgent(t *testing.T) {
	req := question
	req.Tools = []actors.FunctionSpec{{Name: "f", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}}
	req.Options = actors.ModelOptions{ToolChoice: "required", ExtraBody: map[string]any{"tools": []any{map[string]string{"type": "web_search"}}}}
	require.JSONEq(t, `[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}},{"type":"web_search"}]`, string(sent(t, openai.Model{}, req)["tools"]))
	require.JSONEq(t, `[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true},{"type":"web_search"}]`, string(sent(t, openai.Model{API: openai.Responses}, req)["tools"]))
	req.Tools = nil
	body := sent(t, openai.Model{API: openai.Responses}, req)
	require.JSONEq(t, `[{"type":"web_search"}]`, string(body["tools"]))
	require.JSONEq(t, `"required"`, string(body["tool_choice"]))
	req.Tools, req.Options.ExtraBody = []actors.FunctionSpec{{Name: "f"}}, map[string]any{"tools": "none"}
	_, err := openai.New("m", openai.WithBaseURL("http://localhost:1/v1")).Call(t.Context(), req)
	require.ErrorContains(t, err, `Options.ExtraBody["tools"]`)
}

func TestCitationsAndLogprobsAreKept(t *testing.T) {
	cited := []actors.Citation{{URL: "https://a.example", Title: "A", Begin: 1, End: 4}}
	likely := []actors.Logprob{{Token: "Fine", Logprob: -0.5, Top: []actors.Logprob{{Token: "Fine", Logprob: -0.5}, {Token: "Bad", Logprob: -2}}}}
	const logprobs = `[{"token":"Fine","logprob":-0.5,"bytes":[70],"top_logprobs":[{"token":"Fine","logprob":-0.5},{"token":"Bad","logprob":-2}]}]`
	const chat = `"annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example","title":"A","start_index":1,"end_index":4}},{"type":"other"}]`
	for name, tc := range map[string]struct {
		api  openai.API
		step openaitest.Step
	}{
		"chat":        {openai.Chat, openaitest.Raw(200, `{"choices":[{"message":{"content":"Fine",`+chat+`},"logprobs":{"content":`+logprobs+`}}]}`)},
		"chat stream": {openai.Chat, streamOf(`{"choices":[{"delta":{"content":"Fine"},"logprobs":{"content":`+logprobs+`}}]}`, `{"choices":[{"delta":{`+chat+`},"finish_reason":"stop","logprobs":null}]}`)},
		"responses":   {openai.Responses, openaitest.Raw(200, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine","annotations":[{"type":"url_citation","url":"https://a.example","title":"A","start_index":1,"end_index":4}],"logprobs":`+logprobs+`}]}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := once(t, tc.api, tc.step)
			require.NoError(t, err)
			require.Equal(t, "Fine", got.Message.Text)
			require.Equal(t, cited, got.Message.Citations)
			require.Equal(t, likely, got.Message.Logprobs)
		})
	}
	got, err := once(t, openai.Chat, streamOf(`{"citations":["https://a.example"],"choices":[{"delta":{"content":"Fi"}}]}`, `{"citations":["https://a.example","https://b.example"],"choices":[{"delta":{"content":"ne"},"finish_reason":"stop"}]}`))
	require.NoError(t, err)
	require.Equal(t, []actors.Citation{{URL: "https://a.example"}, {URL: "https://b.example"}}, got.Message.Citations)
	got, err = once(t, openai.Responses, openaitest.Raw(200, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Fine","annotations":[{"type":"file_citation","file_id":"f1","filename":"a.pdf","index":3}]}]}]}`))
	require.NoError(t, err)
	require.Equal(t, []actors.Citation{{FileID: "f1", Title: "a.pdf"}}, got.Message.Citations)
	got, err = once(t, openai.Chat, openaitest.Raw(200, `{"choices":[{"message":{"content":"Fine","annotations":{"a":1},"audio":"none","images":7},"logprobs":"none"}]}`))
	require.NoError(t, err, "of another shape")
	require.Equal(t, "Fine", got.Message.Text)
}

func TestImagesAndAudioComeOutAsParts(t *testing.T) {
	picture := base64.StdEncoding.EncodeToString(png)
	image := actors.Image("image/png", png)
	for name, tc := range map[string]struct {
		api  openai.API
		step openaitest.Step
		want []actors.Part
	}{
		"OpenRouter":        {openai.Chat, openaitest.Raw(200, `{"choices":[{"message":{"content":"Here.","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+picture+`"}}]}}]}`), []actors.Part{image}},
		"OpenRouter stream": {openai.Chat, streamOf(`{"choices":[{"delta":{"content":"Here."}}]}`, `{"choices":[{"delta":{"images":[{"image_url":{"url":"data:image/png;base64,`+picture+`"}}]},"finish_reason":"stop"}]}`), []actors.Part{image}},
		"parts":             {openai.Chat, openaitest.Raw(200, `{"choices":[{"message":{"content":[{"type":"text","text":"Here."},{"type":"image_url","image_url":"https://a.example/b.png"}]}}]}`), []actors.Part{actors.ImageURL("https://a.example/b.png")}},
		"responses":         {openai.Responses, openaitest.Raw(200, `{"status":"completed","output":[{"type":"image_generation_call","id":"ig_1","status":"completed","result":"`+picture+`"},{"type":"message","content":[{"type":"output_text","text":"Here."}]}]}`), []actors.Part{image}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := once(t, tc.api, tc.step)
			require.NoError(t, err)
			require.Equal(t, "Here.", got.Message.Text)
			require.Equal(t, tc.want, got.Message.Parts)
		})
	}
	audio := base64.StdEncoding.EncodeToString(wav)
	first, second := base64.StdEncoding.EncodeToString(wav[:5]), base64.StdEncoding.EncodeToString(wav[5:])
	for name, step := range map[string]openaitest.Step{
		"reply":  openaitest.Raw(200, `{"choices":[{"message":{"content":null,"audio":{"id":"audio_1","data":"`+audio+`","transcript":"Here.","expires_at":1}}}]}`),
		"stream": streamOf(`{"choices":[{"delta":{"audio":{"id":"audio_1","transcript":"He"}}}]}`, `{"choices":[{"delta":{"audio":{"data":"`+first+`","transcript":"re."}}}]}`, `{"choices":[{"delta":{"audio":{"data":"`+second+`"}},"finish_reason":"stop"}]}`),
	} {
		got, err := once(t, openai.Chat, step)
		require.NoError(t, err, name)
		require.Equal(t, "Here.", got.Message.Text)
		require.Equal(t, []actors.Part{{MIME: "audio/wav", Data: wav, Name: "audio_1"}}, got.Message.Parts)
		require.Equal(t, "127.0.0.1", strings.TrimPrefix(got.Message.Opaque.Wire, "chat "))
		require.JSONEq(t, `{"message":{"audio":{"id":"audio_1"}}}`, string(got.Message.Opaque.Data))
	}
}

// Generated output is sent back in a form that services accept.
func TestImagesOfTheModelGoBackAsThoseOfTheUser(t *testing.T) {
	made := actors.Message{Role: actors.RoleAssistant, Text: "Here.", Parts: []actors.Part{actors.Image("image/png", png), {MIME: "audio/wav", Data: wav}}}
	req := actors.Request{Messages: []actors.Message{actors.User("Draw."), made, actors.User("Larger.")}}
	require.JSONEq(t, `[{"role":"user","content":"Draw."},{"role":"assistant","content":"Here."},
		{"role":"user","content":[{"type":"text","text":"From your answer:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+base64.StdEncoding.EncodeToString(png)+`"}}]},
		{"role":"user","content":"Larger."}]`, string(sent(t, openai.Model{}, req)["messages"]))
	require.JSONEq(t, `[{"role":"user","content":"Draw."},{"role":"assistant","content":"Here."},{"role":"user","content":"Larger."}]`, string(sent(t, openai.Model{API: openai.Responses}, req)["input"]))
}

func TestTheRawReplyIsKeptOnRequest(t *testing.T) {
	const body = `{"choices":[{"message":{"content":"Fine."}}],"unknown":[1,2]}`
	events := []string{`{"choices":[{"delta":{"content":"Fi"}}],"unknown":1}`, `{"choices":[{"delta":{"content":"ne."},"finish_reason":"stop"}]}`}
	for _, raw := range []bool{false, true} {
		srv := openaitest.New(t, openaitest.Raw(200, body), streamOf(events...))
		req := question
		req.Options.Raw = raw
		llm := llmAt(t, srv.URL())
		got, err := llm.Call(t.Context(), req)
		require.NoError(t, err)
		streamed, err := llm.Call(live.Watch(t.Context(), func(live.Delta) {}), req)
		require.NoError(t, err)
		require.Equal(t, "Fine.", streamed.Message.Text)
		if !raw {
			require.Nil(t, got.Raw)
			require.Nil(t, streamed.Raw)
			continue
		}
		require.JSONEq(t, body, string(got.Raw))
		require.JSONEq(t, "["+strings.Join(events, ",")+"]", string(streamed.Raw))
	}
}

func TestFieldsForOneServiceAreSentToThatServiceAlone(t *testing.T) {
	mark := actors.Extra{"service.example": {"cache_control": map[string]string{"type": "ephemeral"}}, "other.example": {"never": 1}}
	deep := actors.Extra{"example": {"deep": true}, "": {"all": 1}}
	req := actors.Request{Messages: []actors.Message{
		{Role: actors.RoleSystem, Parts: []actors.Part{{Text: "A long manual.", Extra: mark}}},
		{Role: actors.RoleUser, Text: "?", Extra: deep},
		{Role: actors.RoleAssistant, Text: "!", Extra: mark},
	}}
	require.JSONEq(t, `[{"role":"system","content":[{"type":"text","text":"A long manual.","cache_control":{"type":"ephemeral"}}]},
		{"role":"user","content":"?","deep":true,"all":1},{"role":"assistant","content":"!","cache_control":{"type":"ephemeral"}}]`, string(sent(t, openai.Model{}, req)["messages"]))
	require.JSONEq(t, `[{"role":"system","content":[{"type":"input_text","text":"A long manual.","cache_control":{"type":"ephemeral"}}]},
		{"role":"user","content":"?","deep":true,"all":1},{"role":"assistant","content":"!","cache_control":{"type":"ephemeral"}}]`, string(sent(t, openai.Model{API: openai.Responses}, req)["input"]))
	require.JSONEq(t, `[{"role":"system","content":[{"type":"text","text":"A long manual."}]},{"role":"user","content":"?","all":1},{"role":"assistant","content":"!"}]`,
		string(sent(t, openai.Model{BaseURL: "https://a.invalid/v1"}, req)["messages"]))
}

const phases = `[{"type":"message","phase":"commentary","content":[{"type":"output_text","text":"Let me look."}]},{"type":"message","phase":"final_answer","content":[{"type":"output_text","text":"It is 4."}]}]`

func TestCommentaryIsNotGluedToTheAnswerAndThePhaseGoesBack(t *testing.T) {
	reply := `{"status":"completed","output":` + phases + `}`
	stream := openaitest.Raw(200, strings.Join([]string{
		`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","phase":"commentary","content":[]}}`,
		`data: {"type":"response.output_text.delta","output_index":0,"delta":"Let me look."}`,
		`data: {"type":"response.output_item.added","output_index":1,"item":{"type":"message","phase":"final_answer","content":[]}}`,
		`data: {"type":"response.output_text.delta","output_index":1,"delta":"It is 4."}`,
		`data: {"type":"response.completed","response":` + reply + `}`,
	}, "\n\n")+"\n\n").WithHeader("Content-Type", "text/event-stream")
	for name, step := range map[string]openaitest.Step{"reply": openaitest.Raw(200, reply), "stream": stream} {
		t.Run(name, func(t *testing.T) {
			srv := openaitest.New(t, step, openaitest.Text("Fine."))
			model := modelAt(t, srv.URL())
			model.API = openai.Responses
			llm := model.LLM()
			var text, aside string
			ctx := t.Context()
			if name == "stream" {
				ctx = live.Watch(ctx, func(d live.Delta) {
					switch d.Part {
					case live.PartText:
						text += d.Text
					case live.PartReasoning:
						aside += d.Text
					}
				})
			}
			got, err := llm.Call(ctx, question)
			require.NoError(t, err)
			require.Equal(t, "It is 4.", got.Message.Text)
			require.Equal(t, "Let me look.", got.Message.Commentary)
			if name == "stream" {
				require.Equal(t, []string{"It is 4.", "Let me look."}, []string{text, aside})
			}
			_, err = llm.Call(t.Context(), actors.Request{Messages: []actors.Message{question.Messages[0], got.Message, actors.User("Sure?")}})
			require.NoError(t, err)
			var body struct{ Input []json.RawMessage }
			require.NoError(t, json.Unmarshal(srv.Requests()[1].Body, &body))
			require.JSONEq(t, `{"role":"assistant","phase":"commentary","content":"Let me look."}`, string(body.Input[1]))
			require.JSONEq(t, `{"role":"assistant","phase":"final_answer","content":"It is 4."}`, string(body.Input[2]))
		})
	}
	got, err := once(t, openai.Responses, openaitest.Raw(200, `{"status":"completed","output":[{"type":"message","phase":"commentary","content":[{"type":"output_text","text":"Done."}]}]}`))
	require.NoError(t, err)
	require.Equal(t, "Done.", got.Message.Text, "nothing else was said")
}
