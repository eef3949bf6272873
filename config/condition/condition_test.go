package condition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

type response struct {
	StatusCode int    `json:"status_code"`
	Success    bool   `json:"success"`
	Data       *data  `json:"data"`
	Secret     string `json:"-"`
}

type data struct {
	State    level    `json:"state"`
	Items    []item   `json:"items"`
	Score    *float64 `json:"score,omitempty"`
	Plain    string
	password string
}

type (
	level string
	item  struct{ ID uint16 }
)

// Boom panics, because conditions must not call methods.
func (*response) Boom() bool { panic("called") }

func unavailable(code int) error { return fmt.Errorf("get: %w", &httperror.Error{Code: code}) }

func TestConditionHoldsForMatchingAttempts(t *testing.T) {
	half := 0.5
	failed := core.Attempt{Number: 2, Err: unavailable(503)}
	refused := core.Attempt{Number: 1, Err: errors.New("connection refused")}
	done := core.Attempt{Number: 3, Output: &response{StatusCode: 200, Success: true, Secret: "s", Data: &data{State: "ready", Items: []item{{7}, {8}}, Score: &half, Plain: "p", password: ""}}}
	generic := core.Attempt{Number: 1, Output: map[string]any{"status_code": 202.0, "success": false, "data": map[string]any{"n": json.Number("3"), "list": []any{1.0, "two"}, "null": nil}}}
	text := core.Attempt{Number: 1, Output: "pending"}
	for _, tt := range []struct {
		text    string
		attempt core.Attempt
		want    bool
	}{
		{"status_code >= 500", failed, true},
		{"status_code >= 500", refused, false},
		{"status_code < 500", refused, false},
		{"status_code == 200", done, true},
		{"status_code in [502, 503]", failed, true},
		{"status_code in [502, 503]", refused, false},
		{"status_code not in [502, 503]", done, true},
		{"error != None", failed, true},
		{"error != None", done, false},
		{"error == None", done, true},
		{"error != nil and status_code == None", refused, true},
		{"error contains 'refused'", refused, true},
		{"'refused' in error", refused, true},
		{"'refused' in error", done, false},
		{"error matches '^connection.*d$'", refused, true},
		{"lower(error) startsWith 'conn' and upper(error) endsWith 'REFUSED'", refused, true},
		{"error | lower() == 'connection refused'", refused, true},
		{"len(error) > 3", refused, true},
		{"len(error) > 3", done, false},
		{"success", done, true},
		{"success == True", failed, false},
		{"success == False", failed, true},
		{"not success", generic, true},
		{"attempt < 3", failed, true},
		{"attempt * 2 + 1 == 5", failed, true},
		{"-attempt == -2 and +attempt == 2", failed, true},
		{"attempt % 2 == 0 and attempt ** 2 == 4 and attempt ^ 2 == 4 and attempt / 2 == 1 and attempt - 1 == 1", failed, true},
		{"data.state == 'ready'", done, true},
		{"result.data.state == 'ready'", done, true},
		{"result?.data?.state == 'ready'", done, true},
		{"result['data'].state == 'ready'", done, true},
		{"data.items[1].ID == 8 and data.items[0].ID == 7", done, true},
		{"data.items[2].ID == 8", done, false},
		{"data.items[-1].ID == 8", done, false},
		{"data.score == 0.5 and data.Plain == 'p'", done, true},
		{"data.password == ''", done, false},
		{"data.password == None and result.Secret == None and result.Boom == None", done, true},
		{"data.n == 3 and data.n > 2.5", generic, true},
		{"'two' in data.list and 1 in data.list and not (2 in data.list)", generic, true},
		{"data.null == None and 'list' in data", generic, true},
		{"'nothing' in data", generic, false},
		{"data.no.such.member == 1", generic, false},
		{"data.no.such.member != 1", generic, false},
		{"not (data.no.such.member == 1)", generic, true},
		{"data.no + 1 > 0 or attempt == 1", generic, true},
		{"data.no and attempt == 1", generic, false},
		{"data.no or attempt == 1", generic, true},
		{"data.no", generic, false},
		{"data.n", generic, false},
		{"not data.no", generic, true},
		{"data.n > 'a' or data.n contains 'a' or -data.list == 1 or attempt in data.n", generic, false},
		{"(data.no ?? 5) == 5", generic, true},
		{"attempt == 1 ? success == False : False", generic, true},
		{"data == 'pending' and result == 'pending'", text, true},
		{"1 % (attempt - 1) == 0", text, false},
		{"execution_id == 'run-1' and node_id == None", core.Attempt{RunID: "run-1"}, true},
		{"execution_id == None", core.Attempt{}, true},
		{"{{ status_code >= 500 or error != None }}", failed, true},
		{" {{status_code >= 500}} ", failed, true},
	} {
		t.Run(tt.text, func(t *testing.T) {
			c, err := condition.Compile(tt.text)
			require.NoError(t, err)
			assert.Equal(t, tt.want, c.Holds(tt.attempt))
			assert.Equal(t, tt.want, c.Holds(tt.attempt), "asked again")
			assert.Equal(t, tt.text, c.String())
		})
	}
}

func TestInvalidConditionIsAnErrorWithAPosition(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "1:1: the expression is empty; want a boolean expression such as status_code >= 500",
		" {{ }} ":                          "1:1: the expression is empty; want a boolean expression such as status_code >= 500",
		"{{ success":                       "1:1: {{ is not closed; write {{ … }} around the whole expression, or no braces",
		"{{":                               "1:1: {{ is not closed; write {{ … }} around the whole expression, or no braces",
		"{{ success }} or {{ success }}":   "1:12:",
		"statuscode >= 500":                `1:1: unknown name "statuscode"; did you mean "status_code"?; want one of result, data,`,
		"{{ attempt >\n zzz }}":            `2:2: unknown name "zzz"; want one of result`,
		"status_code >= '500'":             "1:13: invalid operation: >= (mismatched types int and string)",
		"status_code":                      "1:1: the expression is not boolean",
		"error":                            "1:1: the expression is not boolean",
		"attempt + 1":                      "1:1: the expression is not boolean",
		"success and error":                "1:9: ",
		"not error":                        "1:1: ",
		"attempt >":                        "1:9: unexpected token EOF",
		"attempt > 1)":                     "1:12: ",
		"'open":                            "1:",
		"result.Boom()":                    "1:8: methods cannot be called",
		"$env.result == 1":                 `1:1: unknown name "$env"`,
		"all(result, # > 1)":               "1:",
		"any(1..1000000000, true)":         "1:",
		"len(1..1000000000) > 1":           "1:6: the operator .. is not allowed",
		"let x = 1; x == 1":                "1:",
		"{'a': 1} == result":               "1:",
		"result[1:2] == 1":                 "1:7: loops, variables, maps, slices and ranges are not allowed",
		"now() > 1":                        "1:1:",
		"error matches node_id":            "1:7: the pattern of matches must be a string literal",
		"error matches '('":                "1:",
		strings.Repeat("(", 5000):          "1:1: the expression has 5000 bytes; at most 4096 are allowed",
		strings.Repeat("1+", 2000) + "1":   "1:",
		strings.Repeat("(", 4000):          "1:",
		strings.Repeat("not ", 1000) + "1": "1:",
	} {
		c, err := condition.Compile(text)
		require.Error(t, err, text)
		assert.Nil(t, c, text)
		var at *condition.Error
		require.ErrorAs(t, err, &at, text)
		assert.Positive(t, at.Line*at.Column, text)
		assert.Truef(t, strings.HasPrefix(err.Error(), want), "%s\n got %s\nwant %s", text, err, want)
	}
}

func TestConditionsDecideInACall(t *testing.T) {
	retry, err := condition.Compile("{{ status_code >= 500 and node_id == 'tool' and execution_id != None }}")
	require.NoError(t, err)
	stop, err := condition.Compile("attempt >= 3")
	require.NoError(t, err)
	cfg := core.RetryConfig{MaxAttempts: 9, InitialDelay: core.NoDelay, RetryWhen: retry.Holds, StopWhen: stop.Holds}
	_, ctx := testkit.Run(t)
	_, err = testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Fail(unavailable(503))))
	assert.Equal(t, 3, testkit.Failed(t, err, record.ReasonPermanent).Attempts, "stop_when is evaluated first")
	_, err = testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Fail(unavailable(404))))
	assert.Equal(t, 1, testkit.Failed(t, err, record.ReasonPermanent).Attempts, "retry_when does not hold")
}

type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

func TestConditionSurvivesAnErrorMethodThatPanics(t *testing.T) {
	failed := core.Attempt{Number: 1, Err: (*pointerError)(nil)}
	for text, want := range map[string]bool{"error != None": true, "error contains 'timeout'": false, "status_code >= 500": false} {
		c, err := condition.Compile(text)
		require.NoError(t, err)
		assert.NotPanics(t, func() { assert.Equal(t, want, c.Holds(failed), text) }, text)
	}
}

func TestConditionIsSafeForConcurrentUse(t *testing.T) {
	c, err := condition.Compile("status_code >= 500 and attempt < 1000 and error contains 'get'")
	require.NoError(t, err)
	done := make(chan int)
	for g := range 8 {
		go func() {
			n := 0
			for i := range 500 {
				if c.Holds(core.Attempt{Number: i + 1, Err: unavailable(500 + g)}) {
					n++
				}
			}
			done <- n
		}()
	}
	for range 8 {
		assert.Equal(t, 500, <-done)
	}
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"status_code >= 500 or error != None", "{{ data.items[1].ID in [1, 2] }}", "not success ?? True", "-attempt ** 2 % 3 == len(error)",
		"a.b?.c", "'x' in error", "error matches '^a+$'", "x ? y : z", "result['a']", "((((", "1..2", "#", "\x00truth(1)", "$env",
	} {
		f.Add(text)
	}
	score := 1.5
	attempts := []core.Attempt{
		{},
		{Number: 1, Err: unavailable(503)},
		{Number: 2, Output: "text"},
		{Number: 3, Output: (*response)(nil)},
		{Number: 4, Output: &response{Data: &data{Items: []item{{1}}, Score: &score}}},
		{Number: 5, Output: map[string]any{"data": []any{1.0, nil, map[string]any{}}, "success": "no", "status_code": "500"}},
		{Number: 6, Output: func() {}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := condition.Compile(text)
		if err != nil {
			var at *condition.Error
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 || at.Problem == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		for _, a := range attempts {
			if first, again := c.Holds(a), c.Holds(a); first != again {
				t.Errorf("%q has different results for %+v", text, a)
			}
		}
	})
}

func BenchmarkHolds(b *testing.B) {
	half := 0.5
	done := core.Attempt{Number: 3, Output: &response{StatusCode: 200, Success: true, Data: &data{State: "ready", Score: &half}}}
	failed := core.Attempt{Number: 2, Err: unavailable(503)}
	for _, bm := range []struct {
		name, text string
		attempt    core.Attempt
	}{
		{"status", "status_code >= 500", failed},
		{"noetl", "{{ status_code >= 500 or error != None }}", failed},
		{"noetl/stop", "{{ status_code == 200 and success == True }}", failed},
		{"attempt", "attempt < 5 and not success", failed},
		{"member", "data.score >= 0.25", done},
	} {
		c, err := condition.Compile(bm.text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Holds(bm.attempt)
			}
		})
	}
}
