package tests

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// These tests check that everything that is shown about a run is redacted, and that nothing that is
// stored is.

const secret = "4111-1111"

func hide(text string) string { return strings.ReplaceAll(text, secret, "****") }

type card struct {
	Number string            `json:"number"`
	Notes  map[string]string `json:"notes"`
}

// leaking exposes the secret in every possible way.
func leaking(ctx context.Context) (string, error) {
	pay, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", Retry: &core.RetryConfig{InitialDelay: core.NoDelay}}, func(ctx context.Context, in card) (card, error) {
		state.From(ctx).Log(slog.LevelWarn, "paying with "+secret, map[string]any{
			"card": secret, "nested": []any{map[string]string{"number": secret}, 7}, "error": errors.New(secret), "n": 7, "chan": make(chan int),
		})
		if err := state.Put(ctx, "card", secret); err != nil {
			return card{}, err
		}
		if core.ScopeOf(ctx).Attempt() == 0 {
			return card{}, core.Retryable(fmt.Errorf("%w: card %s is busy", errOutOfStock, secret))
		}
		return in, nil
	})
	if err != nil {
		return "", err
	}
	out, err := pay.Event().Execute(ctx, card{secret, map[string]string{"b": secret, "a": secret}})
	if err != nil {
		return "", err
	}
	if _, err := calling(ctx, record.KindTool, "refused", func(context.Context, string) (string, error) { return "", &refusedError{7} }); err == nil {
		return "", errors.New("the call of refused did not fail")
	}
	approved, err := core.Await[string](ctx, "charge "+secret+"?")
	return out.Number + " " + approved, err
}

// calling makes a call without retries.
func calling(ctx context.Context, kind record.Kind, name string, h core.Handler[string, string]) (string, error) {
	d, err := core.NewDefinition(core.Spec{Kind: kind, Name: name, Retry: &core.RetryConfig{MaxAttempts: 1}}, h)
	if err != nil {
		return "", err
	}
	return d.Event().Execute(ctx, "in")
}

func TestRedactionAppliesToAllThatIsShownAndNothingThatIsStored(t *testing.T) {
	s := memstore.New()
	b := bus.New()
	var console, wire bytes.Buffer
	b.Subscribe(func(r record.Record) {
		data, err := json.Marshal(r)
		assert.NoError(t, err)
		wire.Write(append(data, '\n'))
	})
	const runID = "run-1"
	p := func(ctx context.Context) (string, error) {
		return calling(ctx, record.KindAgent, "a", func(ctx context.Context, _ string) (string, error) { return leaking(ctx) })
	}
	options := []state.Option{
		state.WithRedaction(hide), state.WithPayloads(), state.WithPublisher(b),
		state.WithPublisher(printer.New(&console, printer.WithPreviews())),
	}
	st, err := state.Open(t.Context(), s, runID, options...)
	require.NoError(t, err)
	_, err = p(st.Context(t.Context()))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.Len(t, testkit.Questions(t, st), 1)
	assert.Equal(t, "charge "+secret+"?", testkit.Questions(t, st)[0].Text, "the question is not redacted for the person who answers")
	found := make(map[string]bool)
	for _, r := range testkit.Records(t, st) {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		assert.NotContains(t, string(data), secret)
		assert.NotContains(t, fmt.Sprintf("%+v %+v", r.Err, r.Detail), secret)
		found["sentinel"] = found["sentinel"] || errors.Is(r.Err, errOutOfStock)
		found["interrupt"] = found["interrupt"] || r.Interrupt() != nil && r.Interrupt().Question != ""
		found["type"] = found["type"] || isRefused(r.Err, 7)
		if len(r.Encoded()) > 0 {
			var v any
			require.ErrorIs(t, record.Decode(r.Encoded(), &v), record.ErrRedacted)
			found["output"] = found["output"] || record.Preview(r.Encoded()) == `{"number":"****","notes":{"a":"****","b":"****"}}` ||
				record.Preview(r.Encoded()) == `{"number":"****","notes":{"b":"****","a":"****"}}`
		}
	}
	assert.Equal(t, map[string]bool{"sentinel": true, "interrupt": true, "type": false, "output": true}, found)
	require.NoError(t, st.Close())

	for _, q := range testkit.Questions(t, st) {
		require.NoError(t, state.Answer(t.Context(), s, runID, q.ID, "", "to "+q.Text))
	}
	st, err = state.Open(t.Context(), s, runID, append(options, state.WithRepublish())...)
	require.NoError(t, err)
	out, err := p(st.Context(t.Context()))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, secret+" to charge "+secret+"?", out, "recalled values are not redacted")
	b.Close()

	for name, shown := range map[string]string{"console": console.String(), "wire": wire.String()} {
		assert.NotContains(t, shown, secret, name)
		assert.Contains(t, shown, "paying with ****", name)
		assert.Contains(t, shown, "card **** is busy", name)
		assert.Contains(t, shown, "charge ****?", name)
	}
	assert.Contains(t, wire.String(), `"detail":"{\"number\":\"****\"`)
	assert.Contains(t, wire.String(), `"input":"{\"number\":\"****\"`)
	loaded := testkit.LoadRun(t, s, runID)
	data, err := loaded.Encode()
	require.NoError(t, err)
	assert.Contains(t, string(data), secret)
	assert.NotContains(t, string(data), "****")
}

func TestSecretAtTheEndOfAPreviewIsRedactedBeforeItIsCut(t *testing.T) {
	const limit = 500 // characters of a preview
	for at := limit - 2*len(secret); at <= limit; at++ {
		encoded, err := record.Encode(strings.Repeat("x", at) + secret + strings.Repeat("y", 100))
		require.NoError(t, err)
		r := record.Record{Detail: &record.Detail{Output: encoded}}.Redacted(hide)
		preview := record.Preview(r.Encoded())
		assert.NotContains(t, preview, secret[:2])
		assert.LessOrEqual(t, len([]rune(preview)), limit)
		twice := r.Redacted(hide)
		assert.Equal(t, preview, record.Preview(twice.Encoded()), "redacting twice is the same as once")
	}
}

func TestSecretsInBytesAreRedacted(t *testing.T) {
	type answer struct {
		Doc  json.RawMessage
		Text []byte
	}
	data, err := record.Encode(answer{json.RawMessage(`{"token":"` + secret + `"}`), []byte("it is " + secret)})
	require.NoError(t, err)
	r := record.Record{Detail: &record.Detail{Output: data, Metadata: map[string]any{"doc": json.RawMessage(`"` + secret + `"`), "text": []byte(secret)}}}
	redacted := r.Redacted(hide)
	shown, err := redacted.MarshalJSON()
	require.NoError(t, err)
	assert.NotContains(t, string(shown), secret)
	assert.NotContains(t, string(shown), base64.StdEncoding.EncodeToString([]byte(secret))[:8])
	assert.JSONEq(t, `{"Doc":{"token":"****"},"Text":"it is ****"}`, record.Preview(redacted.Encoded()))
}

// TestNoFormOfASecretIsShown checks secrets that JSON escapes, secrets in bytes, keys and nested
// values, and a secret that is cut off at the end of a preview.
func TestNoFormOfASecretIsShown(t *testing.T) {
	long := "tok_" + strings.Repeat("S", 40)
	for name, test := range map[string]struct {
		secret string
		value  any
	}{
		"quote":             {`p"w`, map[string]any{"a": `it is p"w!`}},
		"ampersand":         {"p&w", map[string]any{"a": []any{"p&w"}}},
		"line":              {"p\nw", "p\nw"},
		"escaped document":  {"p&w", json.RawMessage(`{"a":["p\u0026w"],"p\u0026w":1}`)},
		"binary":            {long, map[string]any{"a": []byte("\x00" + long)}},
		"bytes in a list":   {long, []any{[]byte(long), map[string]any{"b": []byte(long)}}},
		"bytes in a struct": {long, struct{ A []byte }{[]byte(long)}},
		"key":               {long, map[string]any{long: map[string]int{long: 1}}},
		"many":              {long, slices.Repeat([]string{long}, 1000)},
		"long":              {long + strings.Repeat("T", 30000), long + strings.Repeat("T", 30000)},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := record.Encode(test.value)
			require.NoError(t, err)
			r := record.Record{Detail: &record.Detail{Input: data, Output: data, Metadata: map[string]any{"v": test.value}}}
			redacted := r.Redacted(func(text string) string { return strings.ReplaceAll(text, test.secret, "****") })
			shown, err := redacted.MarshalJSON()
			require.NoError(t, err)
			escaped, err := json.Marshal(test.secret)
			require.NoError(t, err)
			for what, text := range map[string]string{"record": string(shown), "preview": record.Preview(redacted.Encoded())} {
				if name != "binary" { // shown in base64, in which the secret does not appear
					assert.Contains(t, text, "****", what)
				}
				assert.NotContains(t, text, test.secret, what)
				assert.NotContains(t, text, strings.Trim(string(escaped), `"`), what)
				assert.NotContains(t, text, "SSS", what)
				assert.NotContains(t, text, base64.StdEncoding.EncodeToString([]byte(test.secret))[:3], what)
				assert.NotContains(t, text, "dG9rX", what)
			}
		})
	}
}

func TestKeysThatBecomeTheSameAreAllShown(t *testing.T) {
	r := record.Record{Detail: &record.Detail{Metadata: map[string]any{
		"tok_1": 1, "tok_2": 2, "nested": map[string]int{"tok_3": 3, "tok_4": 4},
	}}}
	tokens := regexp.MustCompile("tok_.")
	redacted := r.Redacted(func(text string) string { return tokens.ReplaceAllString(text, "****") })
	shown, err := json.Marshal(redacted.Detail.Metadata)
	require.NoError(t, err)
	assert.JSONEq(t, `{"****": 1, "****'": 2, "nested": {"****": 3, "****'": 4}}`, string(shown))
}

func TestCyclicMetadataIsRedactedToo(t *testing.T) {
	m := map[string]any{"a": secret}
	m["m"], m["n"] = m, []any{m, m}
	r := record.Record{Detail: &record.Detail{Metadata: m}}
	redacted := r.Redacted(hide)
	shown, err := redacted.MarshalJSON()
	require.NoError(t, err)
	assert.NotContains(t, string(shown), secret)
}

func TestRedactionThatPanicsShowsNothing(t *testing.T) {
	panics := func(string) string { panic(secret) }
	r := record.Record{
		Kind: record.KindTool, Status: record.StatusFailed, Err: errors.New(secret),
		Detail: &record.Detail{Message: secret, Output: []byte{0xa1, 'x'}, Metadata: map[string]any{"a": secret}},
	}
	data, err := json.Marshal(r.Redacted(panics))
	require.NoError(t, err)
	assert.NotContains(t, string(data), secret)
	assert.Contains(t, string(data), "(redacted)")
	before, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(before), secret, "the record itself is unchanged")
	assert.Equal(t, r, r.Redacted(nil))
}

func TestNilRedactionIsRefused(t *testing.T) {
	assert.PanicsWithError(t, "state: WithRedaction got nil", func() { state.New(state.WithRedaction(nil)) })
}

func TestRedactedQuestionSaysSo(t *testing.T) {
	for text, redacted := range map[string]bool{"charge it?": false, "charge " + secret + "?": true, "charge (redacted)?": false} {
		asked := record.Record{Kind: record.KindQuestion, Name: "q?1", Status: record.StatusRecorded, Detail: &record.Detail{Message: text}}.Redacted(hide)
		asked = asked.Redacted(strings.ToLower) // a second time, by whoever shows it
		assert.Equal(t, redacted, asked.Detail.Redacted, text)
		data, err := json.Marshal(asked)
		require.NoError(t, err)
		assert.Equal(t, redacted, strings.Contains(string(data), `"redacted":true`), "%s", data)
		var l record.Ledger
		l.Add(&asked)
		assert.Equal(t, redacted, l.Questions(false)[0].Redacted, text)
	}
}
