package redact_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record/redact"
)

// forms lists rules, each with a function that returns a matching secret of the given
// length.
var forms = map[string]struct {
	pattern string
	secret  func(n int) string
}{
	"key":        {`\bsk-[A-Za-z0-9_-]{17,}`, func(n int) string { return "sk-" + letters(n-3) }},
	"hex":        {`\b[0-9a-f]{20,}\b`, func(n int) string { return hex.EncodeToString(random(n))[:n] }},
	"base64":     {`[A-Za-z0-9+/]{18,}={0,2}`, func(n int) string { return letters(n-2) + "==" }},
	"jwt":        {`eyJ[\w-]+\.[\w-]+\.[\w-]+`, func(n int) string { return "eyJ" + letters(3) + "." + letters(n-11) + "." + letters(3) }},
	"pem":        {`(?s)-----BEGIN-----.*?-----END-----`, func(n int) string { return pem(max(n, 40)) }},
	"assignment": {`(?i)password\s*[:=]\s*"[^"]*"`, func(n int) string { return `PassWord= "` + letters(n-12) + `"` }},
	"url":        {`[a-z]+://[^\s:/]+:[^\s@]+@`, func(n int) string { return "postgres://u:" + letters(n-14) + "@" }},
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func letters(n int) string {
	text := base64.RawURLEncoding.EncodeToString(random(n))
	return strings.NewReplacer("-", "x", "_", "y").Replace(text)[:n]
}

func pem(n int) string {
	var lines strings.Builder
	for left := n - 28; left > 0; left -= 65 {
		lines.WriteString(letters(min(left, 64)) + "\n")
	}
	return "-----BEGIN-----" + lines.String() + "-----END-----"
}

// leaks reports whether shown contains 6 consecutive characters of the secret.
func leaks(shown, secret string) bool {
	for i := 0; i+6 <= len(secret); i++ {
		if strings.Contains(shown, secret[i:i+6]) {
			return true
		}
	}
	return false
}

func TestNoPartOfASecretIsShownWhereverItIsCut(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			rules, err := redact.New(form.pattern)
			require.NoError(t, err)
			for _, n := range []int{20, 21, 33, 64, 200, 1000, 4096} {
				secret := form.secret(n)
				before, after := "Hé says: ", " – and then;\n"
				text := before + secret + after
				want := rules.Text(text)
				require.False(t, leaks(want, secret), "%d: %.100s", n, want)
				step := 1 + n/400
				for cut := len(before); cut <= len(before)+len(secret); cut += step {
					s := rules.Stream()
					shown := s.Add(text[:cut])
					require.Truef(t, strings.HasPrefix(before, shown) || !leaks(shown, secret), "%d: %q", cut, shown)
					shown += s.Add(text[cut:])
					shown += s.End()
					require.Equal(t, want, shown)
				}
				s := rules.Stream()
				shown := ""
				for i := range len(text) {
					shown += s.Add(text[i : i+1])
					require.Truef(t, strings.HasPrefix(want, shown), "%d of %d: %q", i, n, shown)
				}
				assert.Equal(t, want, shown, "text that cannot begin a secret is shown at once")
			}
		})
	}
}

func TestFunctionsHoldBackTheLine(t *testing.T) {
	const secret = "sk-0123456789"
	hide := redact.Func(func(text string) string { return strings.ReplaceAll(text, secret, "[key]") })
	s := hide.Stream()
	assert.Empty(t, s.Add("the key is sk-01234"))
	assert.Equal(t, "the key is [key].\n", s.Add("56789.\nand"))
	assert.Empty(t, s.Add(" more"))
	assert.Equal(t, "and more", s.End())
}

// The text is a single line of 100 KB, such as the arguments of a tool call.
func TestFunctionsHoldBack8KBOfALongLine(t *testing.T) {
	const secret = "sk-0123456789"
	calls := 0
	hide := redact.Func(func(text string) string {
		calls += len(text)
		return strings.ReplaceAll(text, secret, "[key]")
	})
	text := strings.Repeat("ä "+secret+" ö", 5000)
	for _, size := range []int{1, 7, 100, 5000, 50_000} {
		calls = 0
		s, shown := hide.Stream(), ""
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			shown += s.Add(rest[:n])
			rest = rest[n:]
			require.False(t, leaks(shown, secret))
		}
		assert.Greater(t, len(shown), len(strings.ReplaceAll(text, secret, "[key]"))-40_000, size)
		shown += s.End()
		require.Equal(t, strings.ReplaceAll(text, secret, "[key]"), shown)
		assert.Less(t, calls, 8*len(text), size)
	}
}

func TestWithinHoldsBackItsReach(t *testing.T) {
	secret := "BEGIN\n" + letters(3000) + "END"
	hide := redact.Within(4096, func(text string) string { return strings.ReplaceAll(text, secret, "[key]") })
	text := strings.Repeat("words\n", 2000) + secret + strings.Repeat(" more", 2000)
	s, shown := hide.Stream(), ""
	for i := range len(text) {
		shown += s.Add(text[i : i+1])
		require.LessOrEqual(t, len(shown), max(0, i+1-4096))
	}
	assert.Equal(t, hide.Text(text), shown+s.End())
	assert.Panics(t, func() { redact.Within(0, strings.Clone) })
}

func TestAFunctionThatPanicsShowsNothing(t *testing.T) {
	hide := redact.Func(func(string) string { panic("oops") })
	assert.Equal(t, "(redacted)", hide.Text("secret"))
	s := hide.Stream()
	assert.Equal(t, "(redacted)(redacted)", s.Add("secret\nmore")+s.End())
	assert.Empty(t, hide.Text(""))
}

func TestPatternsThatHideEverythingAreRefused(t *testing.T) {
	for _, pattern := range []string{"", "a*", `\b`, `x|\bfoo?|$`, "(a?b?)*"} {
		_, err := redact.New("fine", pattern)
		require.ErrorContains(t, err, "can match the empty string", pattern)
	}
	_, err := redact.New("(")
	require.ErrorContains(t, err, "missing closing )")
}

func TestMatchesThatOverlapAreHiddenAsOne(t *testing.T) {
	rules, err := redact.New("abc", "cde", "xy", "yz+")
	require.NoError(t, err)
	const text = "1abcde2 abc cde xyzzz"
	const want = "1(redacted)2 (redacted) (redacted) (redacted)"
	assert.Equal(t, want, rules.Text(text))
	s, shown := rules.Stream(), ""
	for i := range len(text) {
		shown += s.Add(text[i : i+1])
	}
	assert.Equal(t, want, shown+s.End())
	assert.Equal(t, text, new(redact.Rules).Text(text))
	s = new(redact.Rules).Stream()
	assert.Equal(t, text, s.Add(text)+s.End())
}

var patterns = []string{
	`a+b`, `a+?b?`, `^ab`, `(?m)^ab`, `ab$`, `(?m)ab$`, `\bab\b`, `\Bab`, `ab|abab|c`, `a(b|c)*d`, `(?s)a.*?b`, `a[^b]*`, `é+`, `(?i)ÄB`,
	`abc|bcdefg`, `a{3,5}`, `\xff|a\x{10000}`, `[^a]b`, `a(.b)?`, `ab`, `abcab`, `\pL{3}`,
}

// If the rules match in the same way as package regexp, a stream shows the same as the whole text
// after redaction, no matter how the text is cut into pieces.
func FuzzStream(f *testing.F) {
	f.Add("xabab\nabc aab é\u00c4b", uint32(1), uint64(3))
	f.Add("aaaaab\xffaaab\xe2\x82", uint32(0xffffffff), uint64(0x1111111111111111))
	f.Add("abcabcab ab", uint32(0x100000), uint64(0x7213))
	f.Fuzz(func(t *testing.T, text string, chosen uint32, cuts uint64) {
		var some []string
		for i, pattern := range patterns {
			if chosen&(1<<i) != 0 {
				some = append(some, pattern)
			}
		}
		rules, err := redact.New(some...)
		require.NoError(t, err)
		want := rules.Text(text)
		s, shown := rules.Stream(), ""
		for rest := text; rest != ""; cuts = cuts>>4 | cuts<<60 {
			n := min(int(cuts&15), len(rest))
			if cuts == 0 {
				n = len(rest)
			}
			shown += s.Add(rest[:n])
			rest = rest[n:]
			require.Truef(t, strings.HasPrefix(want, shown), "%q: %q, then %q; want %q", some, shown, rest, want)
		}
		require.Equal(t, want, shown+s.End(), "%q in %q", some, text)
	})
}

// If a text was truncated in the middle of a secret, no part of the secret is shown.
func TestNoPartOfASecretIsShownOfATextThatWasCut(t *testing.T) {
	rules, err := redact.New(`sk-[a-z0-9]{20}`)
	require.NoError(t, err)
	const text = "use sk-abcdefghij0123456789 for it"
	for cut := range len(text) {
		shown := redact.Beginning(rules, text[:cut]+"…")
		assert.NotContains(t, shown, "sk-a", "cut after %d bytes", cut)
	}
	assert.Equal(t, "use (redacted) for…", redact.Beginning(rules, "use sk-abcdefghij0123456789 for…"))
	assert.Equal(t, "use sk-ab", redact.Beginning(rules, "use sk-ab"), "text that was not truncated")
}
