//go:build !race

package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// pieces are stream events that each contain a word or a few letters. A long answer has thousands
// of such events.
var pieces = map[string]struct {
	wire  wire
	event string
}{
	"text":      {chatWire{}, `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"\"word\"\n"},"logprobs":null,"finish_reason":null}]}`},
	"reasoning": {chatWire{}, `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":null,"reasoning_content":" word"},"finish_reason":null}],"usage":null}`},
	"tool call": {chatWire{}, `{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null}]}`},
	"responses": {responsesWire{}, `{"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_68","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"abcdefgh"}`},
}

func TestAPieceOfAStreamIsReadInFiveAllocations(t *testing.T) {
	for name, piece := range pieces {
		t.Run(name, func(t *testing.T) {
			var a answer
			event := []byte(piece.event)
			got := testing.AllocsPerRun(1000, func() {
				if _, err := piece.wire.event(&a, event); err != nil {
					t.Fatal(err)
				}
			})
			require.LessOrEqual(t, got, 5.0)
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	for name, piece := range pieces {
		b.Run(name, func(b *testing.B) {
			event := []byte(piece.event)
			b.ReportAllocs()
			var a answer
			for b.Loop() {
				if _, err := piece.wire.event(&a, event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
