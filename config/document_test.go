package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
)

func parse(t *testing.T, text string) *config.Document {
	t.Helper()
	d, err := config.Parse([]byte(text))
	require.NoError(t, err)
	return d
}

// all returns the configuration under the key all.
func all(t *testing.T, text string) config.Retry {
	t.Helper()
	d := parse(t, "all: "+text)
	require.NotNil(t, d.All)
	return *d.All
}

func TestDocumentHasTheLevelsOfARun(t *testing.T) {
	d := parse(t, `
all: 5
tool_call:
  max_attempts: unlimited
  backoff: fibonacci
  initial_delay: 1.5s
  max_delay: 90
  multiplier: 3.5
  jitter: full
  attempt_timeout: 2m
  retry_timeout: 0.25
  max_retry_after: 1h
  retry_on: [timeout, rate_limit]
  exclude: []
  retry_when: "{{ status_code >= 500 }}"
  stop_when: success
llm_call: true
agent_call: false
actors:
  get_weather: {max_attempts: 2}
  "get weather/now": false
`)
	assert.Equal(t, &config.Retry{MaxAttempts: 5}, d.All)
	tool := d.Kinds[record.KindTool]
	assert.Equal(t, "{{ status_code >= 500 }}", tool.RetryWhen.String())
	assert.Equal(t, "success", tool.StopWhen.String())
	tool.RetryWhen, tool.StopWhen = nil, nil
	assert.Equal(t, config.Retry{
		MaxAttempts: core.Unlimited, Backoff: core.Fibonacci, InitialDelay: 1500 * time.Millisecond, MaxDelay: 90 * time.Second, Multiplier: 3.5,
		Jitter: core.FullJitter, AttemptTimeout: 2 * time.Minute, RetryTimeout: 250 * time.Millisecond, MaxRetryAfter: time.Hour,
		RetryOn: []record.Class{record.ClassTimeout, record.ClassRateLimit}, Exclude: []record.Class{},
	}, tool)
	assert.Equal(t, config.Retry{}, d.Kinds[record.KindLLM])
	assert.Equal(t, config.Retry{MaxAttempts: 1}, d.Kinds[record.KindAgent])
	assert.Equal(t, map[string]config.Retry{"get_weather": {MaxAttempts: 2}, "get weather/now": {MaxAttempts: 1}}, d.Actors)
	assert.Len(t, d.Options(), 6)
}

// allClasses returns the names of the error classes.
func allClasses() (names []string) {
	for c := record.ClassUnknown; c <= record.ClassBreaker; c++ {
		names = append(names, c.String())
	}
	return names
}

func TestEveryClassOfErrorsCanBeNamed(t *testing.T) {
	for i, name := range allClasses() {
		r := all(t, "{retry_on: ["+name+"], exclude: ["+name+"]}")
		assert.Equal(t, []record.Class{record.Class(i)}, r.RetryOn, name)
		assert.Equal(t, []record.Class{record.Class(i)}, r.Exclude, name)
	}
	assert.Contains(t, allClasses(), "breaker", "the last class")
	_, err := config.Parse([]byte("all: {retry_on: [none]}"))
	require.ErrorContains(t, err, strings.Join(allClasses(), ", "), "the error names all classes")
}

func TestEmptyDocumentSetsNothing(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}"} {
		assert.Equal(t, &config.Document{}, parse(t, text), text)
	}
}

func TestDurationIsATextOrSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1.5s": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "100us": 100 * time.Microsecond, "2": 2 * time.Second,
		"0.001": time.Millisecond, "1e-3": time.Millisecond, "87600h": 87600 * time.Hour, "315360000": 87600 * time.Hour,
		"0": core.NoDelay, "0s": core.NoDelay, "0.0": core.NoDelay,
	} {
		assert.Equal(t, want, all(t, "{initial_delay: "+text+"}").InitialDelay, text)
	}
	assert.Equal(t, config.Retry{InitialDelay: core.NoDelay}, all(t, "{initial_delay: 5s, max_delay: 0}"), "a maximum delay of 0")
	assert.Zero(t, all(t, "{attempt_timeout: 0, retry_timeout: 0}").AttemptTimeout, "no limit")
}

func TestJitterIsAFractionOrAName(t *testing.T) {
	for text, want := range map[string]core.Jitter{
		"true": 0, "false": core.NoJitter, "none": core.NoJitter, "full": core.FullJitter, "decorrelated": core.DecorrelatedJitter, "0.1": 0.1, "1": 1,
	} {
		assert.InDelta(t, float64(want), float64(all(t, "{jitter: "+text+"}").Jitter), 0, text)
	}
}

func TestAnchorsAndMergesShareParts(t *testing.T) {
	d := parse(t, `
all: &base
  max_attempts: 7
  jitter: none
tool_call: *base
llm_call:
  <<: *base
  jitter: full
actors:
  a: {<<: [{backoff: linear}, {backoff: constant, multiplier: 4}]}
`)
	assert.Equal(t, config.Retry{MaxAttempts: 7, Jitter: core.NoJitter}, d.Kinds[record.KindTool])
	assert.Equal(t, config.Retry{MaxAttempts: 7, Jitter: core.FullJitter}, d.Kinds[record.KindLLM])
	assert.Equal(t, config.Retry{Backoff: core.Linear, Multiplier: 4}, d.Actors["a"])
}

func TestJSONIsReadInFull(t *testing.T) {
	d := parse(t, "{\"all\":\t{\"max_attempts\":\n\t4},\"actors\": {\"\\ud83d\\ude00\\/x\": 2}}")
	assert.Equal(t, 4, d.All.MaxAttempts)
	assert.Equal(t, 2, d.Actors["😀/x"].MaxAttempts)
}

func TestEveryProblemHasItsPlaceAndWhatIsAllowed(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"al: 5", `1:1: al: unknown key; did you mean "all"?; known keys are actors, agent_call, all, llm_call, tool_call`},
		{"all:\n  max_attempt: 5", `2:3: all.max_attempt: unknown key; did you mean "max_attempts"?; known keys are attempt_timeout, backoff, cap_retry_after, exclude,`},
		{"all:\n  zebra: 5", `2:3: all.zebra: unknown key; known keys are`},
		{"5", "1:1: got 5, want a mapping with the keys actors, agent_call, all, llm_call, tool_call"},
		{"[1]", "1:1: got a list, want a mapping"},
		{"~", "1:1: got nothing, want a mapping"},
		{"all:", "1:5: all: got nothing, want true, false, a number of attempts, or a mapping"},
		{"all: yes", `1:6: all: got "yes", want true, false, a number of attempts`},
		{"all: 0", "1:6: all: got 0, want 1 to 2147483647, including the first, or unlimited"},
		{"all: -1", "1:6: all: got -1, want 1 to 2147483647"},
		{"all: 2.5", "1:6: all: got 2.5, want 1 to 2147483647"},
		{"all: {max_attempts: 2147483648}", "1:21: all.max_attempts: got 2147483648, want 1 to"},
		{"all: {max_attempts: 99999999999999999999999}", "1:21: all.max_attempts: got 99999999999999999999999, want 1 to"},
		{"all: {max_attempts: '3'}", `1:21: all.max_attempts: got "3", want 1 to`},
		{"all: {max_attempts: 0x10}", "1:21: all.max_attempts: got 0x10, want"},
		{"all: {backoff: fibonaci}", `1:16: all.backoff: got "fibonaci"; did you mean "fibonacci"? Known names are constant, linear, exponential, fibonacci`},
		{"all: {backoff: 1}", "1:16: all.backoff: got 1, want one of constant, linear, exponential, fibonacci"},
		{"all: {initial_delay: -1}", "1:22: all.initial_delay: got -1, want a duration of 0 to 87600h, such as 1.5s, or a number of seconds"},
		{"all: {initial_delay: -1s}", `1:22: all.initial_delay: got "-1s", want a duration`},
		{"all: {initial_delay: 1 s}", `1:22: all.initial_delay: got "1 s", want a duration`},
		{"all: {initial_delay: .inf}", "1:22: all.initial_delay: got .inf, want a duration"},
		{"all: {initial_delay: .nan}", "1:22: all.initial_delay: got .nan, want a duration"},
		{"all: {max_delay: 1e300}", "1:18: all.max_delay: got 1e300, want a duration"},
		{"all: {max_delay: 87601h}", `1:18: all.max_delay: got "87601h", want a duration`},
		{"all: {max_retry_after: 0}", "1:24: all.max_retry_after: got 0, want a duration above 0"},
		{"all: {multiplier: 0.5}", "1:19: all.multiplier: got 0.5, want a number from 1 to 1000000"},
		{"all: {jitter: 1.5}", "1:15: all.jitter: got 1.5, want true, false, a fraction above 0 and up to 1, none, full or decorrelated"},
		{"all: {jitter: 0}", "1:15: all.jitter: got 0, want true, false, a fraction"},
		{"all: {jitter: ful}", `1:15: all.jitter: got "ful"; did you mean "full"?`},
		{"all: {disabled: true}", `1:7: all.disabled: unknown key`},
		{"all: {losses_count: true, max_losses: 2}", "1:6: all: losses_count counts losses against max_attempts, but max_losses is set; want only one of them"},
		{"all: {retry_on: timeout}", `1:17: all.retry_on: got "timeout", want a list of error classes`},
		{"all: {retry_on: [timeout, ratelimit]}", `1:27: all.retry_on[1]: got "ratelimit"; did you mean "rate_limit"?`},
		{"all: {retry_when: statuscode > 1}", `1:19: all.retry_when: in the condition, at 1:1: unknown name "statuscode"; did you mean "status_code"?`},
		{"all: {stop_when: 5}", "1:18: all.stop_when: got 5, want a condition"},
		{"all: {stop_when: status_code}", "1:18: all.stop_when: in the condition, at 1:1: the expression is not boolean"},
		{"all: {a: 1, a: 2}", "1:7: all.a: unknown key"},
		{"all: 1\nall: 2", "2:1: all: duplicate key"},
		{"1: 2", "1:1: got 1 as a key, want a string"},
		{"? [a]\n: 2", "1:3: got a list as a key, want a string"},
		{"actors: [1]", "1:9: actors: got a list, want a mapping from actor names"},
		{"actors: {'': 1}", `1:10: actors."": invalid actor name`},
		{"actors: {a: {jitter: x}}", `1:22: actors.a.jitter: got "x", want one of none, full, decorrelated`},
		{"actors: {'a.b': {jitter: x}}", `1:26: actors."a.b".jitter: got`},
		{"all: &a\n  <<: *a", `2:7: all.<<: the anchor "a" contains itself`},
		{"all: &a [*a]", "1:6: all: got a list, want"},
		{"actors: &a {x: *a}", `1:16: actors.x: the anchor "a" contains itself`},
		{"all: *b", "1:6: unknown anchor 'b' referenced"},
		{"all: {<<: 5}", "1:11: all.<<: got 5, want a mapping, or a list of them, to merge"},
		{"all: {<<: [5]}", "1:12: all.<<[0]: got 5, want a mapping to merge"},
		{"all: [1", "2:1: did not find expected"},
		{"a: b: c", "1:5: mapping values are not allowed"},
		{"all: 1\n---\nall: 2", "2:1: a second document begins; want one"},
		{"all: \xff", "1:6: the document is not UTF-8"},
		{`{"all": "é", "al": 1}`, `1:14: al: unknown key`},
		{"all: !!int x", "1:"},
		{"all: !mine 5", "1:6: all: got \"5\", want"},
		{"all: " + strings.Repeat("[", 200), "1:"},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200), "1:101: nested deeper than 100 levels"},
		{"#" + strings.Repeat("x", config.MaxSize), "1:1: the document has 1048577 bytes; at most 1048576 are read"},
		{"all: {retry_when: '" + strings.Repeat("x", 5000) + "'}", "1:19: all.retry_when: in the condition, at 1:1: the expression has 5000 bytes"},
	} {
		d, err := config.Parse([]byte(tt.text))
		var bad *config.Error
		if !assert.ErrorAs(t, err, &bad, cutText(tt.text)) {
			continue
		}
		assert.Nil(t, d, cutText(tt.text))
		assert.Contains(t, err.Error(), tt.want, cutText(tt.text))
	}
}

func cutText(text string) string { return text[:min(len(text), 80)] }

func TestProblemsAreListedTogetherInOrder(t *testing.T) {
	_, err := config.Parse([]byte("llm_call: no\nall:\n  jitter: 9\n  max_attempts: 0\n  foo: 1\n"))
	var bad *config.Error
	require.ErrorAs(t, err, &bad)
	var places [][2]int
	for _, p := range bad.Problems {
		places = append(places, [2]int{p.Line, p.Column})
	}
	assert.Equal(t, [][2]int{{1, 11}, {3, 11}, {4, 17}, {5, 3}}, places)
	assert.Len(t, strings.Split(err.Error(), "\n"), 4)
}

func TestAliasesCannotMakeADocumentGrow(t *testing.T) {
	var b strings.Builder
	b.WriteString("all: 3\nactors:\n  a0: &a0 {<<: [{}, {}]}\n")
	last := "a0"
	for i := range 60 {
		name := "a" + string(rune('A'+i%26)) + string(rune('a'+i/26))
		b.WriteString("  " + name + ": &" + name + " {<<: [*" + last + ", *" + last + "]}\n")
		last = name
	}
	_, err := config.Parse([]byte(b.String()))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "aliases")
}

func TestFileIsNamedInItsProblems(t *testing.T) {
	name := filepath.Join(t.TempDir(), "retry.yaml")
	require.NoError(t, os.WriteFile(name, []byte("all: x"), 0o600))
	_, err := config.ReadFile(name)
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(err.Error(), name+":1:6: all: got "), err)
	require.NoError(t, os.WriteFile(name, []byte("all: 4"), 0o600))
	d, err := config.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, 4, d.All.MaxAttempts)
	_, err = config.ReadFile(name + ".no")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDocumentGovernsARun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		d := parse(t, "all: {max_attempts: 2, initial_delay: 0}\nactors:\n  patient: {max_attempts: 4, initial_delay: 0, retry_when: \"error == 'boom'\"}\n")
		_, ctx := testkit.Run(t, d.Options()...)
		_, err := testkit.Call(ctx, testkit.Tool(t, "hasty", core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}, testkit.Fail(core.Retryable(errBoom))))
		assert.Equal(t, 3, testkit.Failed(t, err, record.ReasonExhausted).Attempts, "its own")
		_, err = testkit.Call(ctx, testkit.Tool(t, "patient", core.RetryConfig{MaxAttempts: 1}, testkit.Fail(errBoom)))
		assert.Equal(t, 4, testkit.Failed(t, err, record.ReasonExhausted).Attempts, "the attempts of the document, by actor name")
	})
}
