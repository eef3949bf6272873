package config_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errBoom = errors.New("boom")

// conditions holds some conditions, so that they are compiled only once.
var conditions = func() []*condition.Condition {
	all := make([]*condition.Condition, 150) // mostly nil, because compiling is slow
	for _, text := range []string{"success", "{{ status_code >= 500 or error != None }}", "error contains 'a\"b' or error == ': #'", " attempt <\n 3 ", "result.名 == 'é: x'"} {
		c, err := condition.Compile(text)
		if err != nil {
			panic(err)
		}
		all = append(all, c)
	}
	return all
}()

// randomRetry returns a configuration with random fields set.
func randomRetry(r *rand.Rand) config.Retry {
	var c config.Retry
	some := func() bool { return r.IntN(2) == 0 }
	duration := func() time.Duration {
		return []time.Duration{time.Duration(r.Int64N(int64(87600 * time.Hour))), time.Duration(1 + r.IntN(1000)), time.Duration(r.IntN(3600)+1) * time.Second}[r.IntN(3)]
	}
	if some() {
		c.MaxAttempts = []int{core.Unlimited, 1, 1 + r.IntN(1<<31-1)}[r.IntN(3)]
	}
	c.CapRetryAfter, c.LossesCount = some(), some()
	if !c.LossesCount {
		c.MaxLosses = []int{0, core.Unlimited, 1 + r.IntN(1<<31-1)}[r.IntN(3)]
	}
	c.Backoff = core.Backoff(r.IntN(5))
	for _, d := range []*time.Duration{&c.InitialDelay, &c.MaxDelay, &c.AttemptTimeout, &c.RetryTimeout, &c.MaxRetryAfter} {
		if some() {
			*d = duration()
		}
	}
	if r.IntN(4) == 0 {
		c.InitialDelay = core.NoDelay
	}
	if some() {
		c.Multiplier = 1 + r.Float64()*float64(r.IntN(1000))
	}
	c.Jitter = []core.Jitter{0, core.NoJitter, core.FullJitter, core.DecorrelatedJitter, core.Jitter(1 - r.Float64())}[r.IntN(5)]
	classes := func() []record.Class {
		if some() {
			return nil
		}
		found := []record.Class{}
		for range r.IntN(4) {
			found = append(found, record.Class(r.IntN(int(record.ClassInvalid)+1)))
		}
		return found
	}
	c.RetryOn, c.Exclude = classes(), classes()
	c.RetryWhen, c.StopWhen = conditions[r.IntN(len(conditions))], conditions[r.IntN(len(conditions))]
	return c
}

func randomDocument(r *rand.Rand) *config.Document {
	d := new(config.Document)
	if r.IntN(2) == 0 {
		c := randomRetry(r)
		d.All = &c
	}
	for _, kind := range []record.Kind{record.KindTool, record.KindLLM, record.KindAgent} {
		if r.IntN(3) == 0 {
			if d.Kinds == nil {
				d.Kinds = make(map[record.Kind]config.Retry)
			}
			d.Kinds[kind] = randomRetry(r)
		}
	}
	names := []string{"a", "get_weather", "true", "1", "0x1", "null", "a: b", "x#y", "<<", "- z", "é", "sp ace", "\"quoted\"", "a/b@2", "😀", "*x", "&y", "{}", "~"}
	if n := r.IntN(4); n > 0 {
		d.Actors = make(map[string]config.Retry)
		for range n {
			d.Actors[names[r.IntN(len(names))]] = randomRetry(r)
		}
	}
	return d
}

// withoutConditions returns d without its conditions, together with the texts of those conditions.
func withoutConditions(d *config.Document) (config.Document, map[string]string) {
	texts := make(map[string]string)
	strip := func(key string, c config.Retry) config.Retry {
		if c.RetryWhen != nil {
			texts[key+".retry_when"] = c.RetryWhen.String()
		}
		if c.StopWhen != nil {
			texts[key+".stop_when"] = c.StopWhen.String()
		}
		c.RetryWhen, c.StopWhen = nil, nil
		return c
	}
	var out config.Document
	if d.All != nil {
		c := strip("all", *d.All)
		out.All = &c
	}
	for kind, c := range d.Kinds {
		if out.Kinds == nil {
			out.Kinds = make(map[record.Kind]config.Retry)
		}
		out.Kinds[kind] = strip(kind.String(), c)
	}
	for name, c := range d.Actors {
		if out.Actors == nil {
			out.Actors = make(map[string]config.Retry)
		}
		out.Actors[name] = strip("actors."+name, c)
	}
	return out, texts
}

func TestWrittenDocumentIsReadTheSame(t *testing.T) {
	schema := retrySchema(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2_000 {
		d := randomDocument(r)
		want, wantTexts := withoutConditions(d)
		asJSON, err := json.Marshal(d)
		require.NoError(t, err)
		asYAML, err := d.YAML()
		require.NoError(t, err)
		for _, data := range [][]byte{asJSON, asYAML} {
			again, err := config.Parse(data)
			require.NoErrorf(t, err, "document %d:\n%s", i, data)
			got, texts := withoutConditions(again)
			require.Equalf(t, want, got, "document %d:\n%s", i, data)
			require.Equalf(t, wantTexts, texts, "document %d:\n%s", i, data)
		}
		if i < 200 {
			var v any
			require.NoError(t, json.Unmarshal(asJSON, &v))
			require.NoErrorf(t, schema.Validate(v), "document %d:\n%s", i, asJSON)
		}
	}
}

func TestConfigIsValidForARun(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := randomRetry(r)
		require.NoErrorf(t, c.Config().Validate(), "%+v", c)
	}
}

func TestConfigKeepsEveryField(t *testing.T) {
	d := parse(t, "all: {max_attempts: 4, initial_delay: 2s, retry_on: [server], exclude: [timeout], retry_when: attempt > 1, stop_when: attempt > 2}")
	c := d.All.Config()
	assert.Equal(t, 4, c.MaxAttempts)
	assert.Equal(t, 2*time.Second, c.InitialDelay)
	assert.Len(t, c.RetryOn, 1)
	assert.True(t, c.Exclude[0](core.Retryable(timeoutError{})))
	assert.False(t, c.Exclude[0](errBoom))
	assert.True(t, c.RetryWhen(core.Attempt{Number: 2}))
	assert.False(t, c.StopWhen(core.Attempt{Number: 2}))
}

type timeoutError struct{}

func (timeoutError) Error() string       { return "timeout" }
func (timeoutError) Class() record.Class { return record.ClassTimeout }

// The configuration of a run can be written as a document.
func TestPrintedRetryLevelsAreReadAsDocuments(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 500 {
		retry := randomRetry(r)
		retry.RetryOn, retry.Exclude, retry.RetryWhen, retry.StopWhen = nil, nil, nil, nil
		for _, d := range []*time.Duration{&retry.InitialDelay, &retry.MaxDelay, &retry.AttemptTimeout, &retry.RetryTimeout, &retry.MaxRetryAfter} {
			if *d > 0 { // as a number of seconds, a duration of up to a few weeks is exact to the microsecond
				*d = max(*d%(1000*time.Hour)/time.Microsecond*time.Microsecond, time.Microsecond)
			}
		}
		level, err := state.RetryLevel(retry.Config())
		require.NoError(t, err)
		data, err := json.Marshal(map[string]any{"all": level})
		require.NoError(t, err)
		var again map[string]snapshot.RetryLevel
		require.NoError(t, json.Unmarshal(data, &again))
		require.Equal(t, level, again["all"], "level %d: %s", i, data)
		d, err := config.Parse(data)
		require.NoError(t, err, "level %d: %s", i, data)
		same, err := state.RetryLevel(d.All.Config())
		require.NoError(t, err)
		require.Equal(t, level, same, "level %d: %s", i, data)
	}
	var level snapshot.RetryLevel
	require.ErrorContains(t, json.Unmarshal([]byte(`{"jitter":"some"}`), &level), "want a fraction, none, full or decorrelated")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"max_attempts":"many"}`), &level), `want a number or "unlimited"`)
}
