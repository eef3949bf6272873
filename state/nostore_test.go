package state_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// spending is a program that gets a token, which must not be stored, and then calls tools in order.
type spending struct {
	token  string // if it is empty, the call for the token fails
	tools  []string
	stop   int  // index of the tool before which the run is interrupted; 0 for none
	isRoot bool // the calls are root calls, not calls of an agent
	ran    *[]string
}

func (p spending) calls(t *testing.T, ctx context.Context) (string, error) {
	spec := core.Spec{Kind: record.KindTool, Name: "token", NoStore: true, Retry: &once}
	d, err := core.NewDefinition(spec, func(context.Context, string) (string, error) {
		if p.token == "" {
			return "", errors.New("no token")
		}
		return p.token, nil
	})
	require.NoError(t, err)
	token, err := d.Event().Execute(ctx, "")
	var failed *core.CallError
	if err != nil && !errors.As(err, &failed) {
		return "", err
	}
	out := token
	for i, name := range p.tools {
		if p.stop > 0 && p.stop == i {
			state.From(ctx).Interrupt(snapshot.Stop{})
		}
		tool := testkit.Tool(t, name, once, func(context.Context, string) (string, error) {
			*p.ran = append(*p.ran, name)
			return name, nil
		})
		got, err := testkit.Call(ctx, tool)
		if err != nil {
			return "", err
		}
		out += " " + got
	}
	return out, nil
}

func (p spending) run(t *testing.T, s *tape, options ...state.Option) (string, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1", options...)
	require.NoError(t, err)
	ctx := st.Context(t.Context())
	var out string
	if p.isRoot {
		out, err = p.calls(t, ctx)
	} else {
		out, err = testkit.Call(ctx, testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) { return p.calls(t, ctx) }))
	}
	require.NoError(t, st.Close())
	return out, err
}

func TestCallsAfterOneThatKeepsNoOutputAreCompared(t *testing.T) {
	const another = "t2"
	for name, c := range map[string]struct {
		token string
		tools []string
		fails error  // of the changed program
		ran   string // the tools that the changed program ran after pay
		root  bool
	}{
		"renamed":                               {"t1", []string{"pay2", "ship"}, core.ErrDivergence, "", false},
		"renamed, at the root":                  {"t1", []string{"pay2", "ship"}, core.ErrDivergence, "", true},
		"renamed, with another output":          {another, []string{"pay2", "ship"}, core.ErrDivergence, "pay2 ship", false},
		"renamed, with another one at the root": {another, []string{"pay2", "ship"}, core.ErrDivergence, "", true},
		"renamed, and the call fails":           {"", []string{"pay2", "ship"}, core.ErrDivergence, "pay2 ship", false},
		"left out":                              {"t1", []string{"ship"}, core.ErrDivergence, "", false},
		"left out, with another output":         {another, []string{"ship"}, core.ErrDivergence, "ship", false},
		"unchanged":                             {"t1", []string{"pay", "ship"}, nil, "ship", false},
		"unchanged, with another output":        {another, []string{"pay", "ship"}, nil, "ship", false},
		"unchanged, with another one at root":   {another, []string{"pay", "ship"}, nil, "ship", true},
		"one more":                              {"t1", []string{"new", "pay", "ship"}, core.ErrDivergence, "", false},
		"one more, with another output":         {another, []string{"new", "pay", "ship"}, nil, "new ship", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, ran := new(tape), []string{}
			old := spending{token: "t1", tools: []string{"pay", "ship"}, stop: 1, isRoot: c.root, ran: &ran}
			_, err := old.run(t, s)
			require.ErrorIs(t, err, core.ErrInterrupted)
			require.Equal(t, []string{"pay"}, ran)

			if c.token == another {
				c.token = anotherToken(t, s)
			}
			ran = nil
			out, err := spending{token: c.token, tools: c.tools, isRoot: c.root, ran: &ran}.run(t, s)
			assert.Equal(t, c.ran, strings.Join(ran, " "))
			if c.fails == nil {
				require.NoError(t, err)
				assert.Equal(t, strings.Join(append([]string{c.token}, c.tools...), " "), out)
				return
			}
			require.ErrorIs(t, err, c.fails)

			ran, old.stop = nil, 0
			out, err = old.run(t, s)
			require.NoError(t, err, "the original program")
			if c.token == "" { // the failure is recorded
				assert.Equal(t, " pay ship", out)
			} else {
				assert.Equal(t, "t1 pay ship", out)
			}
			assert.NotContains(t, ran, "pay")
		})
	}
}

// TestCallInThePlaceOfAnotherIsReported stops a changed program that has recorded a call in the
// place of another but has not been refused yet. That call is reported, and the original program
// can finish.
func TestCallInThePlaceOfAnotherIsReported(t *testing.T) {
	s, ran := new(tape), []string{}
	old := spending{token: "t1", tools: []string{"pay", "ship"}, stop: 1, ran: &ran}
	_, err := old.run(t, s)
	require.ErrorIs(t, err, core.ErrInterrupted)
	_, err = spending{token: anotherToken(t, s), tools: []string{"pay2", "ship"}, stop: 1, ran: &ran}.run(t, s)
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NotErrorIs(t, err, core.ErrDivergence)
	_, err = spending{token: anotherToken(t, s), tools: []string{"pay2", "ship"}, ran: &ran}.run(t, s)
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, "agent/pay (tool)")
	old.stop = 0
	out, err := old.run(t, s)
	require.NoError(t, err)
	assert.Equal(t, "t1 pay ship", out)
	assert.Equal(t, []string{"pay", "pay2", "ship"}, ran)
	warnings := 0
	for _, rec := range s.records {
		if rec.Kind == record.KindLog && strings.Contains(rec.Message(), "agent ended without its recorded call agent/pay2") {
			warnings++
		}
	}
	assert.Equal(t, 1, warnings)
}

// TestCallsAfterAnOutputThatDiffersEachTime uses a token that is different at each resume.
func TestCallsAfterAnOutputThatDiffersEachTime(t *testing.T) {
	s, ran := new(tape), []string{}
	tools := []string{"a", "b", "c", "d"}
	for i := range 3 {
		token := "t"
		if i > 0 {
			token = anotherToken(t, s)
		}
		_, err := spending{token: token, tools: tools, stop: i + 1, ran: &ran}.run(t, s)
		require.ErrorIs(t, err, core.ErrInterrupted)
	}
	assert.Equal(t, []string{"a", "b", "c"}, ran)
	_, err := spending{token: anotherToken(t, s), tools: []string{"a", "b", "d"}, ran: &ran}.run(t, s)
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, "c (tool)")
	ran = nil
	token := anotherToken(t, s)
	out, err := spending{token: token, tools: tools, ran: &ran}.run(t, s)
	require.NoError(t, err)
	assert.Equal(t, token+" a b c d", out)
	assert.Empty(t, ran, "d was made when the program was refused")
}

// anotherToken returns a token whose fingerprint differs from that of the latest
// one.
func anotherToken(t *testing.T, s *tape) string {
	t.Helper()
	var found []byte
	for i := range s.records {
		if d := s.records[i].Detail; d != nil && d.NoStore {
			found = d.Fingerprint
		}
	}
	require.Len(t, found, 9)
	for i := range 100 {
		token := fmt.Sprint("another ", i)
		mac := hmac.New(sha256.New, found[:8])
		_, _ = mac.Write(testkit.Encoded(t, token))
		if mac.Sum(nil)[0] != found[8] {
			return token
		}
	}
	require.Fail(t, "no token with another fingerprint was found")
	return ""
}

func TestFingerprintHasAKeyOfItsOwn(t *testing.T) {
	keys := make(map[string]bool)
	for range 20 {
		s := new(tape)
		_, err := spending{token: "t1", ran: new([]string)}.run(t, s)
		require.NoError(t, err)
		for _, rec := range s.records {
			if rec.Kind == record.KindTool && rec.Status == record.StatusCompleted {
				require.Len(t, rec.Detail.Fingerprint, 9, "8 bytes of key, and one byte of the hash")
				keys[string(rec.Detail.Fingerprint[:8])] = true
			}
		}
	}
	assert.Len(t, keys, 20, "each run has a key of its own")
}
