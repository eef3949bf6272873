package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/internal/testkit"
)

func ExampleParseSchema() {
	// The schema of a tool on another server, as the server describes it.
	parameters, err := actors.ParseSchema([]byte(`{
		"type": "object",
		"properties": {
			"query": {"type": "string", "minLength": 3},
			"limit": {"type": "integer", "maximum": 50}
		},
		"required": ["query"],
		"additionalProperties": false
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	search := actors.NewTool("search", "Searches the archive.", parameters,
		func(_ context.Context, arguments json.RawMessage) (string, error) {
			return "sent to the server: " + string(arguments), nil
		})

	// Arguments that a model may send.
	for _, arguments := range []string{`{"query":"tea","limit":5}`, `{"query":"tea","limit":500}`} {
		call, err := search.Prepare(context.Background(), arguments)
		if err != nil {
			fmt.Println(err)
			continue
		}
		out, err := call(context.Background())
		fmt.Println(out.Text, err)
	}
	// Output:
	// sent to the server: {"query":"tea","limit":5} <nil>
	// invalid arguments for search: does not match the schema at /properties/limit: maximum: 500/1 is greater than 50.000000
}

const searchDocument = `{"type":"object","$defs":{"word":{"type":"string"}},"properties":{"query":{"$ref":"#/$defs/word"},"limit":{"type":"integer"}},"required":["query"]}`

func TestModelIsSentTheDocumentAndCallsTheTool(t *testing.T) {
	parameters, err := actors.ParseSchema([]byte(searchDocument))
	require.NoError(t, err)
	type query struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}
	var got query
	search := actors.NewTool("search", "", parameters, func(_ context.Context, in query) (string, error) {
		got = in
		return "found", nil
	})
	model := newScript(asks(call("search", `{"query":1}`)), asks(call("search", `{"query":"tea","limit":3,"more":true}`)), says("done"))
	agent := actors.NewAgent("assistant", model.llm(), actors.WithTools(search))
	_, ctx := testkit.Run(t)

	answer, err := agent.Call(ctx, actors.Ask("tea?"))
	require.NoError(t, err)
	assert.Equal(t, "done", answer.Text)
	assert.Equal(t, query{"tea", 3}, got)

	requests := model.asked()
	assert.Equal(t, searchDocument, string(requests[0].Tools[0].Parameters), "byte for byte")
	refused := requests[1].Messages[len(requests[1].Messages)-1]
	assert.Equal(t, errorResult("1", `invalid arguments for search: does not match the schema at /$defs/word: type: 1 has type "integer", want "string"`), refused)
}

func TestArgumentsThatFitTheDocumentButNotTheInputAreInvalid(t *testing.T) {
	parameters, err := actors.ParseSchema([]byte(searchDocument))
	require.NoError(t, err)
	tool := actors.NewTool("search", "", parameters, func(_ context.Context, in struct{ Limit int }) (int, error) {
		return in.Limit, nil
	})
	var invalid *actors.ArgumentsError
	_, err = tool.Prepare(t.Context(), `{"query":"tea","limit":1.0}`) // an integer in JSON Schema
	require.ErrorAs(t, err, &invalid)
	assert.EqualError(t, err, "invalid arguments for search: Limit: got the number 1.0, want an integer of at most 64 bits")

	list := actors.NewTool("list", "", parameters, func(context.Context, []string) (int, error) { return 0, nil })
	_, err = list.Prepare(t.Context(), `{"query":"tea"}`)
	assert.EqualError(t, err, "invalid arguments for list: got an object, want an array of strings")
}

func TestAgentTakesADocumentToo(t *testing.T) {
	parameters, err := actors.ParseSchema([]byte(searchDocument))
	require.NoError(t, err)
	agent := actors.DefineAgent("research", "", parameters, func(_ context.Context, in map[string]any) (any, error) {
		return in["query"], nil
	})
	prepared, err := agent.Prepare(t.Context(), `{"query":"tea"}`)
	require.NoError(t, err)
	out, err := prepared(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "tea", out.Text)
	_, err = agent.Prepare(t.Context(), ``)
	assert.ErrorContains(t, err, `missing properties: ["query"]`)
}

func TestDocumentThatCannotBeUsedIsAnError(t *testing.T) {
	for document, want := range map[string]string{
		``:                 `actors: schema: not valid JSON: the document is empty`,
		`{"type":"array"}`: `actors: schema: the root has type "array", want "object": arguments are a JSON object`,
		`{"type":"object","$ref":"https://example.com/schema.json"}`:              `$ref "https://example.com/schema.json" leaves the document`,
		`{"type":"object","allOf":[{"$ref":"#"}]}`:                                `a $ref leads back to itself`,
		`{"type":"object","properties":{"a":{"type":"text"}}}`:                    `at /properties/a: got type "text", want one of`,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"(?<a"}}}`: `at /properties/a: pattern "(?<a"`,
	} {
		s, err := actors.ParseSchema([]byte(document))
		assert.ErrorContains(t, err, want, document)
		assert.Nil(t, s)
	}
}

// A document can have so many combinations of alternatives that trying them all
// would take years.
func TestArgumentsThatTakeTooMuchWorkAreRefused(t *testing.T) {
	document := `{"type":"object","anyOf":[
		{"required":["x"],"properties":{"v":{"$ref":"#"}}},
		{"required":["y"],"properties":{"v":{"$ref":"#"}}}]}`
	parameters, err := actors.ParseSchema([]byte(document))
	require.NoError(t, err)
	tool := actors.NewTool("f", "", parameters, func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	arguments := `{}`
	for range 60 {
		arguments = `{"v":` + arguments + `}`
	}
	_, err = tool.Prepare(t.Context(), arguments)
	assert.ErrorContains(t, err, "invalid arguments for f: the schema is too expensive to check")
	_, err = tool.Prepare(t.Context(), `{"x":1}`)
	assert.NoError(t, err)
}

func TestToolWithoutSchemaPanicsAndNamesBothWays(t *testing.T) {
	assert.PanicsWithValue(t, `actors: tool "f" has no schema; decorators.Tool infers one, ParseSchema makes one from a document`, func() {
		actors.NewTool("f", "", nil, func(context.Context, string) (string, error) { return "", nil })
	})
}
