package window_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/window"
)

// A viewer of an agent shows the text of the models that the agent itself calls: here, the text of
// the window.
func TestTheTextOfTheModelIsEmittedAsThatOfTheWindow(t *testing.T) {
	calls := 0
	model := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		if calls++; calls == 1 {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: "it is too "})
			return actors.Response{}, core.Permanent(actors.ErrContextTooLong)
		}
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: "Hel"})
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: "lo."})
		return actors.Response{Message: actors.Assistant("Hello.")}, nil
	})
	sum := actors.NewLLM("summarizer", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: "They said"})
		return actors.Response{Message: actors.Assistant("They said what.")}, nil
	})
	agent := actors.NewAgent("assistant", window.New("w", window.Options{Tokens: 4_000, Summarizer: sum}, model))
	var shown strings.Builder // text that has not been withdrawn
	withdrawn := 0
	_, ctx := testkit.Run(t)
	watched := live.Watch(ctx, func(d live.Delta) {
		switch d.Part {
		case live.PartBegin:
			if shown.Len() > 0 {
				withdrawn++
			}
			shown.Reset()
		case live.PartText:
			assert.Equal(t, "assistant/w", d.Address.String())
			shown.WriteString(d.Text)
		}
	})
	answer, err := agent.Call(watched, actors.Prompt{Text: "Go.", History: history("what")})
	require.NoError(t, err)
	assert.Equal(t, "Hello.", answer.Text)
	assert.Equal(t, "Hello.", shown.String())
	assert.Equal(t, 1, withdrawn)
}
