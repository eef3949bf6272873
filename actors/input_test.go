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
	tool := decorators.Tool("weather", "", func(context.Context, city) (string, error) { return "", nil })
	_, err = tool.DecodeInput(json.RawMessage(`{"name":null}`))
	assert.ErrorContains(t, err, "name")
}
