package openaitest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

func TestChecksNameTheRequestTheyExpect(t *testing.T) {
	const body = `{"model":"gpt-4o","messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":"How cold is it in Oslo?"},
		{"role":"assistant","content":null,"tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_1","content":"4 degrees"}],
		"tools":[{"type":"function","function":{"name":"get_weather"}}]}`
	for _, tc := range []struct {
		name  string
		check openaitest.Check
		want  string // part of the error; empty if there is none
	}{
		{"model", openaitest.HasModel("gpt-4o"), ""},
		{"other model", openaitest.HasModel("gpt-5"), `expected model "gpt-5", got "gpt-4o"`},
		{"message", openaitest.HasMessage("system", "brief"), ""},
		{"message of another", openaitest.HasMessage("user", "brief"), `expected a message from user with "brief"`},
		{"tool", openaitest.HasTool("get_weather"), ""},
		{"other tool", openaitest.HasTool("get_time"), `expected tool "get_time", got ["get_weather"]`},
		{"result by name", openaitest.HasToolResult("get_weather", "4"), ""},
		{"result by ID", openaitest.HasToolResult("call_1", "degrees"), ""},
		{"other result", openaitest.HasToolResult("call_1", "5"), `expected "5" in a result of "call_1", got ["4 degrees"]`},
		{"result of another", openaitest.HasToolResult("get_time", "4"), `expected "4" in a result of "get_time", got []`},
		{"own", func(openaitest.Request) error { return errors.New("my reason") }, "my reason"},
		{"own that panics", func(openaitest.Request) error { panic("oh") }, "the Expect function panicked: oh"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := &fakeT{}
			srv := openaitest.New(fake, openaitest.Text("Hi").Expect(tc.check))
			defer fake.end()
			status, _, got := answer(t, srv, body)
			if tc.want == "" {
				require.Equal(t, 200, status)
				require.Empty(t, fake.reported())
				return
			}
			require.Equal(t, 400, status)
			require.Contains(t, errorBody(t, got).Message, tc.want)
			require.Contains(t, errorBody(t, got).Message, `unexpected request 1, at step 1`)
			require.Len(t, fake.reported(), 1)
		})
	}
}

func TestAFailedExpectationUsesUpTheStep(t *testing.T) {
	fake := &fakeT{}
	srv := openaitest.New(fake, openaitest.Text("Hi").Expect(openaitest.HasModel("gpt-5")))
	status, _, _ := answer(t, srv, hello)
	require.Equal(t, 400, status)
	fake.end()
	require.Len(t, fake.reported(), 1, "the step is not unplayed as well")
}
