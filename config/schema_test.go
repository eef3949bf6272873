package config_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
)

// retrySchema returns the JSON schema for documents.
func retrySchema(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	data, err := os.ReadFile("../docs/retry.schema.json")
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(data, &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

// The schema and the reader accept the same values at every key.
func TestSchemaAcceptsWhatTheReaderAccepts(t *testing.T) {
	schema := retrySchema(t)
	keys := []string{
		"max_attempts", "backoff", "initial_delay", "max_delay", "multiplier", "jitter", "attempt_timeout",
		"retry_timeout", "max_retry_after", "cap_retry_after", "retry_on", "exclude", "retry_when", "stop_when", "retries", "functions", "",
	}
	values := []string{
		`true`, `false`, `null`, `0`, `1`, `-1`, `3`, `2147483647`, `2147483648`, `0.5`, `1.5`, `-0.5`, `1000000`, `1000001`, `315360000`, `315360001`,
		`""`, `"1.5s"`, `"0"`, `"0s"`, `"-1s"`, `"1m30s"`, `".5h"`, `"1"`, `"s"`, `"1 s"`, `"unlimited"`, `"none"`, `"full"`, `"decorrelated"`, `"exponential"`,
		`"constant"`, `"linear"`, `"fibonacci"`, `"default"`, `"success"`, `[]`, `["timeout"]`, `["timeout", "unknown", "invalid"]`, `["nothing"]`, `[1]`, `{}`, `{"a": 1}`,
	}
	for _, class := range allClasses() {
		values = append(values, `["`+class+`"]`)
	}
	check := func(text string) {
		t.Helper()
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		_, read := config.Parse([]byte(text))
		valid := schema.Validate(v)
		if (read == nil) != (valid == nil) {
			t.Errorf("%s\nreader: %v\nschema: %v", text, read, valid)
		}
	}
	for _, value := range values {
		for _, key := range keys {
			if isText := len(value) > 2 && value[0] == '"'; isText && (key == "retry_when" || key == "stop_when") && value != `"success"` {
				continue // the schema cannot check expressions
			}
			check(`{"all": {"` + key + `": ` + value + `}}`)
		}
		for _, level := range []string{"all", "tool_call", "llm_call", "agent_call", "group_call", "step", "actors"} {
			check(`{"` + level + `": ` + value + `}`)
		}
		check(`{"actors": {"a": ` + value + `}}`)
		check(`{"actors": {"": ` + value + `}}`)
		check(value)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"all: 5", "all: {max_attempts: 3, jitter: full}", "tool_call: &a\n  initial_delay: 1.5s\nllm_call: *a", `{"actors": {"a": {"retry_on": ["timeout"]}}}`,
		"all: &a\n  <<: *a", "all: {retry_when: status_code >= 500}", "- 1", "? [a]\n: 2", "all: |\n  x\n", "%YAML 1.2\n---\nall: 1", "\xef\xbb\xbfall: 1", "all: !!binary AAAA",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := config.Parse(data)
		if err != nil {
			if d != nil {
				t.Error("half read")
			}
			return
		}
		written, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse(written)
		if err != nil {
			t.Fatalf("%q was read and written as %s: %v", data, written, err)
		}
		twice, err := json.Marshal(again)
		if err != nil || string(twice) != string(written) {
			t.Errorf("%s became %s, %v", written, twice, err)
		}
	})
}
