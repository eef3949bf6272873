package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// megabyte is 1 MB of text with a secret in each line.
var megabyte = strings.Repeat("A line of words with a key sk-0123456789abcdef0123 in it; skip the sk.\n", 1<<20/72+1)

// A stream of 1 MB of text reads each character at most twice; a single pass would read it once.
func TestAStreamCostsAtMostTwoPasses(t *testing.T) {
	rules, err := New(`sk-[0-9a-f]{20}`, `password=\S+`, `(?s)-----BEGIN.*?-----END`, `[0-9]{30,}`)
	require.NoError(t, err)
	for _, size := range []int{1, 5, 64, 10_000} {
		s := rules.Stream().(*ruleStream) //nolint:forcetypeassert // what Rules.Stream returns
		shown := 0
		for rest := megabyte; rest != ""; {
			n := min(size, len(rest))
			shown += len(s.Add(rest[:n]))
			rest = rest[n:]
			if cap(s.text) >= 100_000 { // checked a million times: require.Less would take longer than the rest
				t.Fatalf("the stream holds %d bytes", cap(s.text))
			}
		}
		shown += len(s.End())
		assert.Len(t, rules.Text(megabyte), shown)
		for i := range s.finders {
			assert.LessOrEqual(t, s.finders[i].count, 2*len(megabyte), "%d: %s", size, s.finders[i].rule.pattern)
		}
	}
	for name, text := range map[string]string{"lines": megabyte, "one line": strings.Repeat("word ", 1<<20/5)} {
		read := 0
		hide := Func(func(text string) string {
			read += len(text)
			return strings.ReplaceAll(text, "sk-0123456789abcdef0123", "[key]")
		})
		s := hide.Stream()
		for rest := text; rest != ""; {
			n := min(64, len(rest))
			s.Add(rest[:n])
			rest = rest[n:]
		}
		s.End()
		assert.LessOrEqual(t, read, 2*len(text)+64*1024, name)
	}
}

func BenchmarkStream(b *testing.B) {
	rules, err := New(`sk-[0-9a-f]{20}`, `password=\S+`, `(?s)-----BEGIN.*?-----END`, `[0-9]{30,}`)
	require.NoError(b, err)
	b.Run("stream", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(megabyte)))
		for b.Loop() {
			s := rules.Stream()
			for rest := megabyte; rest != ""; {
				n := min(64, len(rest))
				s.Add(rest[:n])
				rest = rest[n:]
			}
			s.End()
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(megabyte)))
		for b.Loop() {
			rules.Text(megabyte)
		}
	})
}
