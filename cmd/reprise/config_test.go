package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigCheckShowsSettingsOrAllProblems(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	good := file("good.yaml", "all: 5\nllm_call: false\nactors:\n  \"[x] red\": {jitter: none, max_losses: 7, cap_retry_after: true, retry_when: attempt < 3}\n")
	assert.Equal(t, "ok       "+good+` (3 levels)
actor:[x] red: 3 attempts, exponential ×2 from 1s to 1m0s, jitter none, Retry-After cut to 5m0s, 7 losses, with RetryWhen
all: 5 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25, Retry-After up to 5m0s
llm_call: 1 attempt
`, call(t, dir, "config", "check", good).text(t))
	var told struct {
		OK    bool
		Retry map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "config", "check", "--json", good).text(t)), &told))
	assert.True(t, told.OK)
	assert.InDelta(t, 5, told.Retry["all"]["max_attempts"], 0)

	bad := file("bad.json", `{"al": 5, "all": {"jitter": 5}}`)
	problems := bad + `:1:2: al: unknown key; did you mean "all"?; known keys are actors, agent_call, all, llm_call, tool_call
` + bad + `:1:29: all.jitter: got 5, want true, false, a fraction above 0 and up to 1, none, full or decorrelated
`
	got := call(t, dir, "config", "check", bad)
	assert.Equal(t, problems, got.stdout)
	got.stderrIs(t, exitFailure, "reprise: 2 problems in "+bad+"\n")
	inJSON := call(t, dir, "config", "check", "--json", bad)
	assert.Equal(t, exitFailure, inJSON.code)
	var failed struct {
		OK       bool
		Problems []configProblem
	}
	require.NoError(t, json.Unmarshal([]byte(inJSON.stdout), &failed))
	assert.False(t, failed.OK)
	require.Len(t, failed.Problems, 2)
	assert.Equal(t, configProblem{1, 29, "all.jitter", "got 5, want true, false, a fraction above 0 and up to 1, none, full or decorrelated"}, failed.Problems[1])

	call(t, dir, "config", "check", bad+".no").stderrIs(t, exitFailure, "reprise: there is no file "+bad+".no\n")
	call(t, dir, "config").stderrIs(t, exitUsage, "reprise: reprise config needs a command: check; see reprise config --help\n")
	assert.Equal(t, exitUsage, call(t, dir, "config", "check").code)
}
