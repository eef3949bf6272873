package live_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record/redact"
)

func TestRedactionSeesASecretThatSpansDeltas(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	hide := redact.Func(func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") })
	text := strings.Repeat("Ääh, ", 40) + "the key is " + secret + strings.Repeat(", as you know", 20)
	for size := 1; size < 40; size++ {
		var s seen
		watch := live.Redact(hide, s.watch)
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
			assert.Equal(t, hide.Text(text), s.text(part), "%v in pieces of %d bytes", part, size)
		}
		assert.Equal(t, "with [redacted]", s.text(live.PartProgress))
		for _, d := range s.deltas {
			assert.NotContains(t, d.Text, "0123456789abcdef")
		}
	}
}

// An abandoned attempt emits no PartEnd.
func TestRedactionShowsNothingOfAnAbandonedAttemptLater(t *testing.T) {
	var s seen
	watch := live.Redact(redact.Func(strings.Clone), s.watch)
	watch(live.Delta{Part: live.PartBegin})
	watch(live.Delta{Part: live.PartText, Text: "half"})
	watch(live.Delta{Part: live.PartBegin, Attempt: 1})
	watch(live.Delta{Part: live.PartText, Attempt: 1, Text: "whole"})
	watch(live.Delta{Part: live.PartEnd, Attempt: 1})
	watch(live.Delta{Part: live.PartEnd})
	assert.Equal(t, "whole", s.text(live.PartText))
}

// No line of a private key is shown before its last line has arrived, no matter how long the key
// is.
func TestNothingOfALongSecretIsShownBeforeItsEnd(t *testing.T) {
	rules, err := redact.New(`(?s)-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----`)
	require.NoError(t, err)
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEow\n", 600) + "-----END RSA PRIVATE KEY-----"
	var s seen
	watch := live.Redact(rules, s.watch)
	for _, r := range "It is\n" + key + "\nas you know" {
		watch(live.Delta{Part: live.PartText, Text: string(r)})
		assert.NotContains(t, s.text(live.PartText), "-----")
		assert.NotContains(t, s.text(live.PartText), "MII")
	}
	assert.Equal(t, "It is\n(redacted)\nas you know", s.text(live.PartText), "nothing else is held back")
}

// A redaction that is slow or hangs holds up only its own call.
func TestNoCallWaitsForTheRedactionOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		hide := redact.Func(func(text string) string {
			if strings.HasPrefix(text, "slow") {
				<-leave
			}
			return text
		})
		var mu sync.Mutex
		shown := make(map[string]string)
		watch := live.Redact(hide, func(d live.Delta) {
			mu.Lock()
			defer mu.Unlock()
			shown[d.RunID] += d.Text
		})
		var slow sync.WaitGroup
		slow.Go(func() { watch(live.Delta{RunID: "a", Part: live.PartText, Text: "slow\n"}) })
		synctest.Wait()
		watch(live.Delta{RunID: "b", Part: live.PartText, Text: "fast\n"})
		watch(live.Delta{RunID: "b", Part: live.PartEnd})
		assert.Equal(t, map[string]string{"b": "fast\n"}, shown)
		close(leave)
		slow.Wait()
		assert.Equal(t, "slow\n", shown["a"])
	})
}

func TestRedactNeedsARedaction(t *testing.T) {
	require.PanicsWithValue(t, "live: Redact got a nil redaction; redact.New returns one", func() { live.Redact(nil, func(live.Delta) {}) })
}
