package live_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/live"
)

func TestRedactionSeesASecretThatLiesOverDeltas(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	redact := func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	text := strings.Repeat("Ääh, ", 40) + "the key is " + secret + strings.Repeat(", as you know", 20)
	for size := 1; size < 40; size++ {
		var s seen
		watch := live.Redact(redact, s.watch)
		watch(live.Delta{Part: live.PartBegin})
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			for _, part := range []live.Part{live.PartText, live.PartReasoning, live.PartToolCall} {
				watch(live.Delta{Part: part, Text: rest[:n]})
			}
			rest = rest[n:]
		}
		watch(live.Delta{Part: live.PartProgress, Text: "with " + secret})
		watch(live.Delta{Part: live.PartEnd})
		for _, part := range []live.Part{live.PartText, live.PartReasoning, live.PartToolCall} {
			assert.Equal(t, redact(text), s.text(part), "%v in pieces of %d bytes", part, size)
		}
		assert.Equal(t, "with [redacted]", s.text(live.PartProgress))
		for _, d := range s.deltas {
			assert.NotContains(t, d.Text, "0123456789abcdef")
		}
	}
}

// An attempt that was abandoned never says that it ended.
func TestRedactionShowsNothingOfAnAbandonedAttemptLater(t *testing.T) {
	var s seen
	watch := live.Redact(func(text string) string { return text }, s.watch)
	watch(live.Delta{Part: live.PartBegin})
	watch(live.Delta{Part: live.PartText, Text: "half"})
	watch(live.Delta{Part: live.PartBegin, Attempt: 1})
	watch(live.Delta{Part: live.PartText, Attempt: 1, Text: "whole"})
	watch(live.Delta{Part: live.PartEnd, Attempt: 1})
	watch(live.Delta{Part: live.PartEnd})
	assert.Equal(t, "whole", s.text(live.PartText))
}

// More was shown than the redaction would have: no more is.
func TestRedactionThatComesTooLateShowsNoMore(t *testing.T) {
	text := "BEGIN" + strings.Repeat("x", 200) + "END and more"
	redact := func(text string) string {
		if strings.HasPrefix(text, "BEGIN") && strings.Contains(text, "END") {
			return "[redacted]"
		}
		return text
	}
	var s seen
	watch := live.Redact(redact, s.watch)
	for _, r := range text {
		watch(live.Delta{Part: live.PartText, Text: string(r)})
	}
	watch(live.Delta{Part: live.PartEnd})
	assert.NotContains(t, s.text(live.PartText), "END")
}
