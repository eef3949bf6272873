package actors_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
)

func TestDecodeInputIsCheckedByTheSchema(t *testing.T) {
	type city struct {
		Name string `json:"name"`
	}
	agent := decorators.Agent("weather", "", func(context.Context, city) (string, error) { return "", nil })
	in, err := agent.DecodeInput(json.RawMessage(`{"name":"Oslo"}`))
	require.NoError(t, err)
	assert.Equal(t, city{"Oslo"}, in)
	for _, bad := range []string{`{}`, `{"name":5}`, `{"name":"Oslo","country":"no"}`, `null`, `[]`, ``, `{"name":"Oslo"} {}`} {
		_, err := agent.DecodeInput(json.RawMessage(bad))
		var invalid *actors.ArgumentsError
		require.ErrorAs(t, err, &invalid, bad)
		assert.Equal(t, "weather", invalid.Function)
	}
	_, err = agent.DecodeInput(json.RawMessage(`"Oslo"`))
	require.EqualError(t, err, "invalid arguments for weather: got a string, want an object")
	tool := decorators.Tool("weather", "", func(context.Context, city) (string, error) { return "", nil })
	_, err = tool.DecodeInput(json.RawMessage(`{"name":null}`))
	assert.ErrorContains(t, err, "name")
}

// Clients and models send JSON: they do not know the Go types.
func TestErrorsOfInputsAreInTermsOfJSON(t *testing.T) {
	prompted := actors.NewAgent("assistant", newScript(says("never said")).llm())
	for input, want := range map[string]string{
		`"hello"`:       "got a string, want an object",
		`{"text":3}`:    "text: got an integer, want a string",
		`{}`:            "text: required field is missing",
		`{"txt":"a"}`:   `txt: unknown field; want "text"` + "\ntext: required field is missing",
		`{"text":null}`: "text: got null, want a string",
	} {
		_, err := prompted.DecodeInput(json.RawMessage(input))
		assert.EqualError(t, err, "invalid arguments for assistant: "+want, input)
	}
	double := decorators.Agent("double", "", func(_ context.Context, in int) (int, error) { return 2 * in, nil }) // without a schema
	_, err := double.DecodeInput(json.RawMessage(`"3"`))
	assert.EqualError(t, err, "invalid arguments for double: got a string, want an integer of at most 64 bits")
}
