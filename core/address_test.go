package core_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

// addresses returns the addresses of a run's calls, in the order of their first records.
func addresses(records []record.Record) (as []string) {
	for _, r := range records {
		if a := r.Address.String(); !slices.Contains(as, a) {
			as = append(as, a)
		}
	}
	return as
}

func TestAddressesFollowTheRules(t *testing.T) {
	st, ctx := testkit.Run(t)
	weather := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "get_weather"}, testkit.Succeed)
	cfg := atOnce
	d := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "assistant", Retry: &cfg}, testkit.Attempts(func(ctx context.Context, in string) (string, error) {
		_, _ = testkit.Call(ctx, weather)
		_, _ = testkit.Call(ctx, weather)
		_, _ = weather.Event().WithTag("collect").Execute(ctx, in)
		_, _ = weather.Event().WithTag("collect").Execute(ctx, in)
		_, _ = group(ctx, "collect", calling(weather), calling(weather), func(ctx context.Context) (string, error) {
			_, _ = testkit.Call(ctx, weather)
			return testkit.Call(ctx, weather)
		})
		_, _ = group(ctx, "collect")
		_, _ = actors.Map(ctx, actors.Group{Name: "collect"}, weather, []string{"in"})
		return "", errFlaky
	}, func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, weather) }))
	out, err := testkit.Call(ctx, d)
	testkit.Completed(t, out, err)
	out, err = testkit.Call(st.Context(t.Context()), d) // calls are numbered across all contexts of a run
	testkit.Completed(t, out, err)
	want := []string{
		"assistant", "assistant/get_weather", "assistant/get_weather#2", "assistant/step:collect", "assistant/step:collect#2",
		"assistant/group:collect", "assistant/group:collect/1", "assistant/group:collect/1/get_weather",
		"assistant/group:collect/2", "assistant/group:collect/2/get_weather",
		"assistant/group:collect/3", "assistant/group:collect/3/get_weather", "assistant/group:collect/3/get_weather#2",
		"assistant/group:collect#2", "assistant/group:collect#3", "assistant/group:collect#3/1", "assistant@2/get_weather",
		"assistant#2", "assistant#2/get_weather",
	}
	got := addresses(calls(t, st))
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "addresses")
}

func TestParallelBranchesAreNumberedInSubmissionOrder(t *testing.T) {
	st, ctx := testkit.Run(t)
	d := testkit.Tool(t, "tool", steady, testkit.Succeed)
	var prepared []*core.PreparedCall[string, string]
	for i := range 5 {
		prepared = append(prepared, d.Event().Prepare(ctx, fmt.Sprint(i)))
	}
	for _, p := range slices.Backward(prepared) {
		out, err := p.Execute(ctx)
		testkit.Completed(t, out, err)
	}
	assert.Equal(t, "[tool#5 tool#4 tool#3 tool#2 tool]", fmt.Sprint(addresses(calls(t, st))), "order of execution")
	assert.Equal(t, "tool#2", prepared[1].Address().String(), "claimed")
}

func TestNamesAndTagsAreEscaped(t *testing.T) {
	const nasty = "a/b#2@3:c?d%e"
	st, ctx := testkit.Run(t)
	d := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: nasty}, func(ctx context.Context, in string) (string, error) {
		return testkit.Tool(t, "tool", steady, testkit.Succeed).Event().WithTag(nasty).Execute(ctx, in)
	})
	out, err := testkit.Call(ctx, d)
	testkit.Completed(t, out, err)
	as := addresses(calls(t, st))
	assert.Equal(t, "[a%2Fb%232%403%3Ac%3Fd%25e a%2Fb%232%403%3Ac%3Fd%25e/step:a%2Fb%232%403%3Ac%3Fd%25e]", fmt.Sprint(as), "addresses")
	a := calls(t, st)[1].Address
	assert.Equal(t, nasty, a.Tag(), "tag")
	assert.Equal(t, as[0], a.Scope(), "scope")
	assert.Equal(t, 1, a.Depth(), "depth")
}

func TestAddressParts(t *testing.T) {
	for _, tt := range []struct {
		text, scope, tag string
		depth            int
	}{
		{"", "", "", 0},
		{"assistant", "", "", 0},
		{"assistant#2", "", "", 0},
		{"step:collect", "", "collect", 0},
		{"assistant/get_weather", "assistant", "", 1},
		{"assistant@2/get_weather#3", "assistant@2", "", 1},
		{"assistant/step:a%2Fb#2", "assistant", "a/b", 1},
		{"assistant/group:collect/3/get_weather", "assistant/group:collect/3", "", 3},
		{"a#2@3/group:g#4/5/b@6/step:c#7", "a#2@3/group:g#4/5/b@6", "c", 4},
	} {
		a, err := record.ParseAddress(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		assert.Equal(t, tt.text, a.String(), "text")
		assert.Equal(t, tt.scope, a.Scope(), tt.text+": scope")
		assert.Equal(t, tt.tag, a.Tag(), tt.text+": tag")
		assert.Equal(t, tt.depth, a.Depth(), tt.text+": depth")
		assert.Equal(t, tt.text == "", a.IsZero(), tt.text+": zero")
		data, err := json.Marshal(a)
		var back record.Address
		if err != nil || json.Unmarshal(data, &back) != nil || back != a {
			t.Errorf("%q: the JSON %s does not decode to the same address (%v)", tt.text, data, err)
		}
	}
}

func TestInvalidAddressIsRefused(t *testing.T) {
	for _, text := range []string{
		"/", "a/", "/a", "a//b", "#2", "@2/a", "a#", "a#1", "a#0", "a#02", "a#-2", "a#x", "a#2#3", "a@2", "a/b@2", "a@1/b", "a@02/b", "a@/b",
		"a@2#3/b", "a@2@3/b", "a#99999999999999999999", "step:", "group:", "a:b", "a?b", "a%", "a%2", "a%2f", "a%41", "a%zz", "a\nb", "a\x7f",
		"step:a:b", "step:step:a", "group:step:a", "step:group:a",
	} {
		if a, err := record.ParseAddress(text); err == nil {
			t.Errorf("%q was read as %#v", text, a)
		} else if !strings.Contains(err.Error(), "record: address") {
			t.Errorf("%q: the error %q does not contain the text", text, err)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{
		"", "assistant", "assistant/get_weather#2", "assistant/step:collect", "assistant@2/get_weather", "assistant/group:collect/3/get_weather",
		"a#2@3/b", "a%2Fb", "a%2f", "a#1", "step:", "a@2", "\xff", "a/\u2028", "step:group:a", "group:group:a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := record.ParseAddress(s)
		if err != nil {
			return
		}
		if a.String() != s || string(a.AppendTo([]byte("x"))) != "x"+s {
			t.Fatalf("%q became %q", s, a)
		}
		again, err := record.ParseAddress(a.String())
		if err != nil || again != a {
			t.Fatalf("%q: %v, %v", s, again, err)
		}
		if a.Depth() < 0 || a.IsZero() != (s == "") || !strings.HasPrefix(s, a.Scope()) {
			t.Fatalf("%q: depth %d, scope %q", s, a.Depth(), a.Scope())
		}
	})
}

// anyName returns a name built from characters that have a meaning in addresses, so that addresses
// would collide if these characters were not escaped.
func anyName(r *rand.Rand) string {
	parts := []string{"a", "b", "2", "3", "/", "#", "@", ":", "?", "%", "step:", "group:", "#2", "@2", "%2F", "%23", "é"}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func TestDifferentCallsNeverShareAnAddress(t *testing.T) {
	r := random(t)
	_, root := testkit.Run(t)
	meaning := map[string]string{} // by address: what was called, and in which scope
	claim := func(text, what string) {
		if other, ok := meaning[text]; ok && other != what {
			t.Fatalf("%q is both %s and %s", text, what, other)
		}
		meaning[text] = what
	}
	var explore func(ctx context.Context, where string, depth int)
	explore = func(ctx context.Context, where string, depth int) {
		counts := map[string]int{}
		for range 6 {
			name, tag := anyName(r), ""
			if r.IntN(3) == 0 {
				tag = anyName(r)
			}
			what := fmt.Sprintf("call %q", name)
			if tag != "" {
				what = fmt.Sprintf("tag %q", tag)
			}
			counts[what]++
			here := fmt.Sprintf("%s > %s %d", where, what, counts[what])
			cfg := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}
			n := 0
			d := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: name, Retry: &cfg}, func(ctx context.Context, _ string) (string, error) {
				n++
				if depth < 2 {
					explore(ctx, fmt.Sprintf("%s (attempt %d)", here, n), depth+1)
				}
				if n == 1 {
					return "", errFlaky
				}
				return "out", nil
			})
			p := d.Event().WithTag(tag).Prepare(ctx, "in")
			text := p.Address().String()
			claim(text, here)
			if a, err := record.ParseAddress(text); err != nil || a != p.Address() || a.Tag() != tag {
				t.Fatalf("%s: %q is read as %v, %v", here, text, a, err)
			}
			out, err := p.Execute(ctx)
			testkit.Completed(t, out, err)
		}
		if depth < 2 {
			name := anyName(r)
			what := fmt.Sprintf("group %q", name)
			counts[what]++
			branch := func(i int) func(context.Context) (string, error) {
				return func(ctx context.Context) (string, error) {
					explore(ctx, fmt.Sprintf("%s > %s %d branch %d", where, what, counts[what], i), depth+1)
					return "", nil
				}
			}
			_, err := group(ctx, name, branch(1), branch(2))
			assert.NoError(t, err, "error")
		}
	}
	explore(root, "root", 0)
	if len(meaning) < 300 {
		t.Fatalf("only %d addresses were tried", len(meaning))
	}
}
